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

from headwater.cluster.cluster_ingest import ClusterIngest
from headwater.cluster.elected_articles import ARTICLES, make_article_work
from headwater.cluster.fetch_pool import FetchPool
from headwater.cluster.fetcher_setup import make_fetcher
from headwater.cluster.leader import CONTROLLER, Leader, load_leader_status
from headwater.cluster.leader_state import load_belief_sample
from headwater.cluster.leases import partitions
from headwater.cluster.leases.election import Election
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import LocalMember, Membership, send_heartbeats
from headwater.cluster.remote_crawl import RemoteCrawl
from headwater.cluster.transport.postgres_transport import (
    LocalIngest,
    PostgresJobReceiver,
    PostgresJobSender,
    PostgresPartitionSource,
)
from headwater.cluster.transport.proxied_requests import PostgresRequestProxy
from headwater.loops import run_every
from headwater.node.article_fetcher import enqueue_articles_of_hits
from headwater.node.crawl.crawler import CrawlStatus
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.strategy_setup import build_configured_strategy
from headwater.node.deliverer_setup import make_deliverer
from headwater.node.live_settings import POLL_SECONDS, LiveSettings
from headwater.node.node import Node
from headwater.node.quality.belief_sample import BeliefSample
from headwater.node.queries.processor import QueryProcessor
from headwater.node.websub import hub_watch
from headwater.publish.delivery.delivery_planner import DeliveryPlanner
from headwater.publish.live_events import LiveEvents
from headwater.query.items.language_detection import make_language_detector
from headwater.schedule.strategy import Strategy
from headwater.settings import Settings
from headwater.store.cluster_leases import ClusterLease
from headwater.store.opening import open_store
from headwater.store.store import Store
from headwater.times import parse_time_zone

PROCESSOR = "processor"

log = structlog.get_logger()


class SharedNode(Node):
    """One of several nodes on one database. It is used like a `Node`."""

    async def __aenter__(self) -> Self:
        given = self.settings
        timing = LeaseTiming(given.cluster_lease)
        self.member = LocalMember(given, "node", capacity=given.concurrency, counts=self._count_work)
        try:
            self.store = await self._stack.enter_async_context(await open_store(given.database_url))
            self.membership = Membership(self.store, "postgresql", timing)
            await self.membership.join_cluster()
            self.member.problems = [lambda: self.fetch_pool.problem, lambda: self.membership.problem]
            await self.store.write(partitions.create_partition_leases)
            first, self._live_settings = given, LiveSettings(self.store, given)
            self.settings = given = await self._live_settings.load()
            self.fetcher = await self._stack.enter_async_context(make_fetcher(given, timing, self._database_time))
            errands = PostgresRequestProxy(self.store).proxy_request  # another node may hold the host
            self.scout = await self._stack.enter_async_context(
                make_fetcher(given, timing, self._database_time, errands)
            )
            courtesy = Politeness(np.random.default_rng(), least=given.least_interval)
            self.crawler = RemoteCrawl(self.store, self.fetcher, given, courtesy, PostgresJobSender(self.store))
            self.ingest = ClusterIngest(self.store, courtesy)
            self.live = LiveEvents(self.store)
            self.deliverer = await make_deliverer(self.store, self.fetcher, given)
            self._make_processor(self.store)
            results = LocalIngest(self.ingest, lambda: self.processor.wake())
            jobs = PostgresJobReceiver(self.store)
            self.fetch_pool = FetchPool(
                self.member.name,
                self.fetcher,
                PostgresPartitionSource(self.store, self.member.make_report, timing),
                jobs,
                results,
                timing=timing,
                concurrency=given.concurrency,
            )
            self.member.outage = self.fetch_pool.find_outage
            outgoing = partial(PostgresJobSender, on_offered=jobs.wake)
            self.leader = Leader(self.store, first, lambda store, held: outgoing(store), roles=["node"])
        except BaseException:
            await self._stack.aclose()
            raise
        self._status: CrawlStatus | None = None
        self._storing = asyncio.create_task(results.run())
        name = self.member.name
        articles = make_article_work(self.store, self.scout, given.article_budget)
        self._tasks = [
            asyncio.create_task(self.fetch_pool.run(self._stop)),
            asyncio.create_task(
                Election(self.store, CONTROLLER, name, timing.leader_seconds).run(self.leader.run_term, self._stop)
            ),
            asyncio.create_task(
                Election(self.store, PROCESSOR, name, timing.leader_seconds).run(self._run_processor, self._stop)
            ),
            asyncio.create_task(self.deliverer.run(self._stop)),
            asyncio.create_task(Election(self.store, ARTICLES, name, timing.leader_seconds).run(articles, self._stop)),
            asyncio.create_task(run_every(1.0, self._follow_status, self._stop)),
            asyncio.create_task(run_every(POLL_SECONDS, self._follow_settings, self._stop)),
            asyncio.create_task(run_every(POLL_SECONDS, self.leader.follow_settings, self._stop)),
            asyncio.create_task(run_every(hub_watch.POLL_SECONDS, self.ingest.follow_hubs, self._stop)),
            asyncio.create_task(run_every(timing.heartbeat_seconds, self.membership.heartbeat, self._stop)),
        ]
        self._tasks[0].add_done_callback(self._report_breakdown)
        await self._follow_status()
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

    def _find_strategy(self) -> Strategy:
        """Whoever leads has the real one."""
        return build_configured_strategy(self.settings)

    async def _apply_settings(self, changes: Mapping[str, Any], new: Settings, strategy: Strategy | None) -> None:
        """What this process goes by; whoever leads, here or elsewhere, looks for changes itself."""
        self.settings = new
        if "budget" in changes:
            self.crawler.budget.set_limit(new.budget)

    def status(self) -> CrawlStatus:
        """What the leader does, whichever node that is."""
        status = self.leader.status() or self._status or self.crawler.status()
        return replace(status, queries=len(self.processor.definitions) or status.queries)

    async def sample_beliefs(self, now: float) -> BeliefSample | None:
        """What the leader believes, whichever process that is."""
        return await load_belief_sample(self.store)

    async def _follow_status(self) -> None:
        if self.leader.status() is None:
            self._status = await load_leader_status(self.store)

    def _make_processor(self, store: Store) -> None:
        self.processor = QueryProcessor(
            store,
            detect=make_language_detector(),
            writers=(
                *self._writers,
                DeliveryPlanner(parse_time_zone(self.settings.time_zone)),
                enqueue_articles_of_hits,
            ),
            on_hits=self._report_hits,
        )

    async def _run_processor(self, held: ClusterLease, over: asyncio.Event) -> None:
        """A new processor each time: what the last one remembered may be older than what another has written."""
        self._make_processor(self.store.fenced(held))
        await self.processor.run(over)

    def _database_time(self) -> float:
        """The database's, as the terminal knows it."""
        return self.fetch_pool.clock()

    def _count_work(self) -> Mapping[str, int]:
        return {**self.fetch_pool.counts, **self.ingest.counts, "held": len(self.fetch_pool.holdings.held)}


@asynccontextmanager
async def join_postgres(settings: Settings, identity: LocalMember) -> AsyncIterator[Store]:
    """A store for a member that only looks: on the list of members while the block runs."""
    timing = LeaseTiming(settings.cluster_lease)
    async with await open_store(settings.database_url) as store:
        membership = Membership(store, "postgresql", timing)
        await membership.join_cluster()
        async with send_heartbeats(store, membership, identity, timing):
            yield store


def is_shared_database(settings: Settings) -> bool:
    """Whether these settings mean a database that other machines can share."""
    return settings.database_url.startswith(("postgresql", "postgres"))
