"""A node that shares its PostgreSQL database with others: rung 1. Several of them are one aggregator.

Every node fetches for the hosts of its partitions and stores what it fetched; one of them decides (the controller's
lease) and one follows the outbox (the processor's lease); deliveries are claimed one by one. When a node falls silent
the others take over what it held.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np
import structlog

from headwater.cluster import pushed, sharing
from headwater.cluster.by_postgres import PostgresJobs, PostgresLandlord, PostgresOutgoing, StoredAtOnce
from headwater.cluster.errands import PostgresErrands
from headwater.cluster.fetchers import fetcher
from headwater.cluster.identity import Identity
from headwater.cluster.leading import SEAT, Leader, last_status
from headwater.cluster.membership import Membership
from headwater.cluster.reading_articles import ARTICLES, fetching
from headwater.cluster.seat import Seat
from headwater.cluster.staying import on_the_list
from headwater.cluster.storer import Storer
from headwater.cluster.terminal import Terminal
from headwater.cluster.timing import Timing
from headwater.cluster.told import last_told
from headwater.cluster.wishing import Wishing
from headwater.node.articles import pages_of_hits
from headwater.node.buying import Sample
from headwater.node.courtesy import Courtesy
from headwater.node.crawler import Status
from headwater.node.delivering import delivering
from headwater.node.kept_settings import LOOK, KeptSettings
from headwater.node.node import Node
from headwater.node.processor import Processor
from headwater.node.setting_up import build_strategy
from headwater.node.upkeep import every
from headwater.publish.duties import Duties
from headwater.publish.live import Live
from headwater.query.tongues import detector
from headwater.schedule.base import Strategy
from headwater.settings import Settings
from headwater.store.leases import Lease
from headwater.store.store import Store
from headwater.when import zone

PROCESSOR = "processor"

log = structlog.get_logger()


class SharedNode(Node):
    """One of several nodes on one database. It is used like a `Node`."""

    async def __aenter__(self) -> Self:
        given = self.settings
        timing = Timing(given.cluster_lease)
        self.identity = Identity(given, "node", capacity=given.concurrency, counts=self._counts)
        try:
            self.store = await self._stack.enter_async_context(await Store.open(given.database_url))
            self.membership = Membership(self.store, "postgresql", timing)
            await self.membership.join()
            self.identity.problems = [lambda: self.terminal.problem, lambda: self.membership.problem]
            await self.store.write(sharing.prepare)
            first, self._kept = given, KeptSettings(self.store, given)
            self.settings = given = await self._kept.at_start()
            self.fetcher = await self._stack.enter_async_context(fetcher(given, timing, self._time))
            errands = PostgresErrands(self.store).send  # another node may hold the host
            self.scout = await self._stack.enter_async_context(fetcher(given, timing, self._time, errands))
            courtesy = Courtesy(np.random.default_rng(), least=given.least_interval)
            self.crawler = Wishing(self.store, self.fetcher, given, courtesy, PostgresOutgoing(self.store))
            self.storer = Storer(self.store, courtesy)
            self.live = Live(self.store)
            self.deliverer = await delivering(self.store, self.fetcher, given)
            self._new_processor(self.store)
            results = StoredAtOnce(self.storer, lambda: self.processor.wake())
            jobs = PostgresJobs(self.store)
            self.terminal = Terminal(
                self.identity.name,
                self.fetcher,
                PostgresLandlord(self.store, self.identity.report, timing),
                jobs,
                results,
                timing=timing,
                concurrency=given.concurrency,
            )
            self.identity.outage = self.terminal.away
            outgoing = partial(PostgresOutgoing, on_offered=jobs.wake)
            self.leader = Leader(self.store, first, lambda store, held: outgoing(store), roles=["node"])
        except BaseException:
            await self._stack.aclose()
            raise
        self._status: Status | None = None
        self._storing = asyncio.create_task(results.run())
        name = self.identity.name
        articles = fetching(self.store, self.scout, given.article_budget)
        self._tasks = [
            asyncio.create_task(self.terminal.run(self._stop)),
            asyncio.create_task(Seat(self.store, SEAT, name, timing.lead).run(self.leader.lead, self._stop)),
            asyncio.create_task(Seat(self.store, PROCESSOR, name, timing.lead).run(self._process, self._stop)),
            asyncio.create_task(self.deliverer.run(self._stop)),
            asyncio.create_task(Seat(self.store, ARTICLES, name, timing.lead).run(articles, self._stop)),
            asyncio.create_task(every(1.0, self._look, self._stop)),
            asyncio.create_task(every(LOOK, self._follow, self._stop)),
            asyncio.create_task(every(LOOK, self.leader.follow, self._stop)),
            asyncio.create_task(every(pushed.LOOK, self.storer.follow_hubs, self._stop)),
            asyncio.create_task(every(timing.beat, self.membership.stay, self._stop)),
        ]
        self._tasks[0].add_done_callback(self._ended)
        await self._look()
        log.info("started", member=name, database="shared")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self.deliverer.wake()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._storing.cancel()
        await asyncio.gather(self._storing, return_exceptions=True)
        await self._stack.aclose()
        log.info("stopped")

    def _strategy(self) -> Strategy:
        """Whoever leads has the real one."""
        return build_strategy(self.settings)

    async def _take(self, changes: Mapping[str, Any], new: Settings, strategy: Strategy | None) -> None:
        """What this process goes by; whoever leads, here or elsewhere, looks for changes itself."""
        self.settings = new
        if "budget" in changes:
            self.crawler.spending.limit(new.budget)

    def status(self) -> Status:
        """What the leader does, whichever node that is."""
        status = self.leader.status() or self._status or self.crawler.status()
        return replace(status, queries=len(self.processor.definitions) or status.queries)

    async def sample(self, now: float) -> Sample | None:
        """What the leader believes, whichever process that is."""
        return await last_told(self.store)

    async def _look(self) -> None:
        if self.leader.status() is None:
            self._status = await last_status(self.store)

    def _new_processor(self, store: Store) -> None:
        self.processor = Processor(
            store,
            detect=detector(),
            writers=(*self._writers, Duties(zone(self.settings.time_zone)), pages_of_hits),
            on_hits=self._hits,
        )

    async def _process(self, held: Lease, over: asyncio.Event) -> None:
        """A new processor each time: what the last one remembered may be older than what another has written."""
        self._new_processor(self.store.fenced(held))
        await self.processor.run(over)

    def _time(self) -> float:
        """The database's, as the terminal knows it."""
        return self.terminal.clock()

    def _counts(self) -> Mapping[str, int]:
        return {**self.terminal.counts, **self.storer.counts, "held": len(self.terminal.tenancy.held)}


@asynccontextmanager
async def joined_by_postgres(settings: Settings, identity: Identity) -> AsyncIterator[Store]:
    """A store for a member that only looks: on the list of members while the block runs."""
    timing = Timing(settings.cluster_lease)
    async with await Store.open(settings.database_url) as store:
        membership = Membership(store, "postgresql", timing)
        await membership.join()
        async with on_the_list(store, membership, identity, timing):
            yield store


def shared(settings: Settings) -> bool:
    """Whether these settings mean a database that other machines can share."""
    return settings.database_url.startswith(("postgresql", "postgres"))
