"""Leading a cluster: what the process does that holds the controller's lease. Every write of it carries the epoch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import structlog

from headwater.cluster import leader_state
from headwater.cluster.cluster_dispatcher import ClusterDispatcher, JobSender
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.errors import HeadwaterError
from headwater.language.ast import CreateFeed
from headwater.loops import run_every
from headwater.node.crawl.lessons import Lesson
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import CrawlStatus
from headwater.node.crawl.strategy_setup import build_configured_strategy, make_budget_account
from headwater.node.live_settings import LiveSettings
from headwater.node.maintenance import Maintenance
from headwater.node.websub import hub_watch
from headwater.query.items.origin import Origin
from headwater.query.source_scope import SourceScope
from headwater.settings import Settings
from headwater.store import cluster_leases
from headwater.store.cluster_leases import ClusterLease
from headwater.store.queries import query_feeds
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.query_feeds import list_all_query_feeds
from headwater.store.saved_state import load_state, read_revisions, save_state
from headwater.store.store import Store

CONTROLLER = "controller"
STATUS, VERSION = "cluster status", 1
POLL_SECONDS = 1.0
STATUS_SECONDS = 2.0  # seconds between two words for those who watch
JOBS_PER_FETCH = 8  # jobs in flight, as a multiple of what a terminal fetches at once

log = structlog.get_logger()


class DefinitionReader:
    """The definitions in force, read from the store: the query processor may be on another machine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._revisions: tuple[int, int] | None = None
        self._definitions: dict[int, CreateFeed] = {}
        self._origins: dict[int, Origin] = {}

    @property
    def definitions(self) -> Mapping[int, CreateFeed]:
        return self._definitions

    def build_scope(self) -> SourceScope:
        return SourceScope(self._origins, {create.name.key: create.query for create in self._definitions.values()})

    async def reload_changes(self) -> bool:
        """Read anew what has changed; whether anything had."""
        revisions = await self._store.read(read_revisions)
        if revisions == self._revisions:
            return False
        found: dict[int, CreateFeed] = {}
        for query in await self._store.read(list_all_query_feeds):
            try:
                found[query.id] = query_feeds.read_definition(query.text, query.form)
            except (HeadwaterError, ValueError) as error:
                log.error("query_not_understood", query=query.name, error=str(error))
        self._origins = await self._store.read(load_item_origins) if found else {}  # asked about by queries only
        self._definitions, self._revisions = found, revisions
        return True


class Leader:
    """Builds a controller anew each time the lease is won, and runs it with its upkeep until the lease is lost."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        outgoing: Callable[[Store, ClusterLease], JobSender],
        *,
        roles: Sequence[str],
        beside: Callable[
            [Store, ClusterLease, asyncio.Event], Sequence[asyncio.Task[None]]
        ] = lambda store, held, over: (),
    ) -> None:
        """`roles` are those of members that fetch; `beside` starts what else only the leader does."""
        self._store = store
        self._settings = settings
        self._live_settings = LiveSettings(store, settings)
        self._has_loaded = False
        self._make_sender = outgoing
        self._roles = frozenset(roles)
        self._start_extra_tasks = beside
        self._terminal_capacity = 0
        self._network_away_since: float | None = None  # since when none of those who fetch reaches anybody
        self.dispatcher: ClusterDispatcher | None = None
        self.maintenance: Maintenance | None = None
        self.takeover_seconds: float | None = None  # seconds from winning the lease to the first choice

    @property
    def capacity(self) -> int:
        return JOBS_PER_FETCH * self._terminal_capacity

    def status(self) -> CrawlStatus | None:
        """What goes on, None while another leads."""
        if self.dispatcher is None or self.maintenance is None:
            return None
        return replace(
            self.dispatcher.status(), aims=self.maintenance.target_outcomes, network_away_since=self._network_away_since
        )

    async def follow_settings(self) -> None:
        """Take up settings that a node has changed. Called from the start of the process on, also while another leads:
        what is given by hand wins over changes before the start, not over those since."""
        if not self._has_loaded:
            self._settings, self._has_loaded = await self._live_settings.load(), True
        strategy = build_configured_strategy(self._settings) if self.dispatcher is None else self.dispatcher.strategy
        if (news := await self._live_settings.poll_changes(self._settings, strategy)) is not None:
            self._settings = news[1]
            if self.maintenance is not None:
                await self.maintenance.apply_settings(*news)

    async def run_term(self, held: ClusterLease, over: asyncio.Event) -> None:
        """Work of the seat."""
        began = time.monotonic()
        await self.follow_settings()
        store = self._store.fenced(held)
        controller, standing = self._make_dispatcher(store, held), DefinitionReader(store)
        upkeep = Maintenance(store, controller, self._settings)
        await upkeep.load_state()
        await controller.adopt_in_flight()
        await standing.reload_changes()
        await hub_watch.follow_pushed_feeds(store, controller.politeness)
        await self._count_capacity(store)
        self.dispatcher, self.maintenance = controller, upkeep
        self.takeover_seconds = time.monotonic() - began
        log.info("leads", epoch=held.epoch, feeds=len(controller.feed_table), seconds=round(self.takeover_seconds, 2))
        tasks = [
            *upkeep.start_tasks(standing, over),
            *self._start_watchers(store, controller, upkeep, standing, over),
            *self._start_extra_tasks(store, held, over),
        ]
        try:
            await upkeep.update_demand(standing)
            await controller.run(over)
        finally:
            over.set()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.dispatcher = self.maintenance = None
            try:
                await upkeep.save_state()
                await upkeep.publish_report()
            except HeadwaterError as error:  # another leads: what it learns counts
                log.warning("not_saved", error=str(error))

    def _make_dispatcher(self, store: Store, held: ClusterLease) -> ClusterDispatcher:
        given = self._settings
        return ClusterDispatcher(
            store,
            build_configured_strategy(given),
            make_budget_account(given),
            Politeness(np.random.default_rng(), least=given.least_interval),
            self._make_sender(store, held),
            epoch=held.epoch,
            timing=LeaseTiming(given.cluster_lease),
            per_host=given.per_host,
            capacity=lambda: self.capacity,
            on_learned=self._report_lessons,
        )

    def _start_watchers(
        self,
        store: Store,
        controller: ClusterDispatcher,
        upkeep: Maintenance,
        standing: DefinitionReader,
        over: asyncio.Event,
    ) -> list[asyncio.Task[None]]:
        """What changes elsewhere, and what is told to those who watch."""
        told_last = b""

        async def look() -> None:
            if await standing.reload_changes():
                await upkeep.update_demand(standing)

        async def tell() -> None:
            nonlocal told_last
            status = self.status()
            said = b"" if status is None else msgspec.json.encode(status)
            if said and said != told_last:
                await store.write(save_state, STATUS, VERSION, said, time.time())
                told_last = said

        async def hubs() -> None:
            ended = await hub_watch.follow_pushed_feeds(store, controller.politeness)
            await controller.reconsider_feeds(ended)

        async def believe() -> None:
            await leader_state.save_belief_sample(store, controller)

        async def count() -> None:
            await self._count_capacity(store)

        works = (
            (hub_watch.POLL_SECONDS, hubs),
            (leader_state.BELIEF_SECONDS, believe),
            (POLL_SECONDS, look),
            (POLL_SECONDS, count),
            (STATUS_SECONDS, tell),
        )
        return [asyncio.create_task(run_every(seconds, work, over)) for seconds, work in works]

    async def _count_capacity(self, store: Store) -> None:
        """How much the terminals that are there can fetch at once."""
        here = await store.read(cluster_leases.list_members, self._settings.cluster_lease)
        infos = [msgspec.json.decode(one.info) for one in here if one.role in self._roles]
        self._terminal_capacity = sum(int(info.get("capacity", 0)) for info in infos)
        away = [info.get("away_since") for info in infos]
        self._network_away_since = min(away) if away and None not in away else None

    def _report_lessons(self, lessons: Sequence[Lesson]) -> None:
        if self.maintenance is None:
            return
        self.maintenance.monitor.count_refreshes((lesson.refresh, lesson.before) for lesson in lessons)
        bound = log.bind()  # once: it looks its settings up each time
        for lesson in lessons:
            refresh = lesson.refresh
            bound.info(
                "refreshed",
                feed=refresh.feed_id,
                url=lesson.url,
                ending=refresh.ending.value,
                new=refresh.new,
                lost=round(refresh.lost, 1),
                reason=refresh.reason,
            )


async def load_leader_status(store: Store) -> CrawlStatus | None:
    """What the leader said last; None if there was none."""
    saved = await store.read(load_state, STATUS)
    if saved is None or saved[0] != VERSION:
        return None
    return msgspec.json.decode(saved[1], type=CrawlStatus)
