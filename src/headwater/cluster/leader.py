"""Leads a cluster while this process holds the controller's lease: schedules, dispatches and maintains.

Every write of a leader carries the epoch of its lease. Its status and a sample of its beliefs are saved for other
processes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import msgspec
import structlog

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partitions import partition_of
from headwater.cluster.transport.wire_messages import describe_unreadable, read_lessons
from headwater.errors import HeadwaterError
from headwater.loops import run_every
from headwater.node import websub
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.crawl.dispatcher import Dispatcher, JobOrder, LeaderMessages
from headwater.node.crawl.lessons import Lesson
from headwater.node.crawl.scheduler import Scheduler, make_scheduler
from headwater.node.crawl.spending import SpendingLog
from headwater.node.crawl.transport import Job, JobSender, StoredLesson
from headwater.node.live_settings import LiveSettings
from headwater.node.maintenance import Maintenance, log_refreshes
from headwater.node.quality.belief_sample import BeliefSample, sample_beliefs
from headwater.node.queries.definitions import DefinitionReader
from headwater.node.request_grants import GrantDesk
from headwater.schedule.strategy import Strategy
from headwater.settings import Settings
from headwater.store import cluster_jobs, cluster_leases
from headwater.store.cluster_leases import ClusterLease
from headwater.store.content.feed_state import FetchPlan, load_fetch_plans
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store

STATUS_STATE, BELIEF_STATE = "cluster status", "cluster beliefs"
STATUS_VERSION, BELIEF_VERSION = 2, 2
BELIEF_SECONDS = 60.0  # between two samples

_decode_status = msgspec.json.Decoder(CrawlStatus).decode


async def save_leader_status(store: Store, encoded: bytes) -> None:
    """Save a status, as JSON."""
    await store.write(save_state, STATUS_STATE, STATUS_VERSION, encoded, time.time())


async def load_leader_status(store: Store) -> CrawlStatus | None:
    """Return the leader's last status, or None if there was no leader yet."""
    saved = await store.read(load_state, STATUS_STATE)
    return None if saved is None or saved[0] != STATUS_VERSION else _decode_status(saved[1])


async def save_belief_sample(store: Store, scheduler: Scheduler) -> None:
    """Save a sample of the leader's beliefs, if there are any."""
    now = time.time()
    sample = sample_beliefs(scheduler, now)
    if sample is not None:
        await store.write(save_state, BELIEF_STATE, BELIEF_VERSION, sample.encode(), now)


async def load_belief_sample(store: Store) -> BeliefSample | None:
    """Return the leader's last sample of beliefs, or None."""
    saved = await store.read(load_state, BELIEF_STATE)
    return None if saved is None or saved[0] != BELIEF_VERSION else BeliefSample.decode(saved[1])


CONTROLLER = "controller"
POLL_SECONDS = 1.0
GRANT_SECONDS = 0.25  # between two looks for requests that people wait for
STATUS_SECONDS = 2.0  # between two reports for the pages of other processes
MAX_LESSON_ROWS = 64  # batches of storers, each of some hundred refreshes at most
JOBS_PER_FETCH = 8  # jobs in flight for each fetch that terminals can make at once

MakeSender = Callable[[Store, ClusterLease], JobSender]
StartTasks = Callable[[Store, ClusterLease, asyncio.Event], Sequence[asyncio.Task[None]]]

log = structlog.get_logger()


class Leader:
    """Makes a dispatcher anew each time the lease is won, and runs it with its maintenance until the lease is lost."""

    def __init__(
        self,
        store: Store,
        live_settings: LiveSettings,
        make_sender: MakeSender,
        *,
        roles: Sequence[str],
        start_tasks: StartTasks = lambda store, held, over: (),
    ) -> None:
        """`roles` are those of members that fetch; `start_tasks` starts the other tasks of a leader."""
        self._store = store
        self._live_settings = live_settings
        live_settings.listeners.append(self._apply_settings)
        self._make_sender = make_sender
        self._roles = frozenset(roles)
        self._start_tasks = start_tasks
        self._terminal_capacity = 0
        self._network_away_since: float | None = None  # since when no terminal reaches any server
        self.dispatcher: Dispatcher | None = None
        self.maintenance: Maintenance | None = None
        self.takeover_seconds: float | None = None  # from winning the lease to the first choice

    @property
    def capacity(self) -> int:
        """How many jobs the terminals may hold at a time."""
        return JOBS_PER_FETCH * self._terminal_capacity

    def status(self) -> CrawlStatus | None:
        """Return the state of the crawl, or None while another process leads."""
        if self.dispatcher is None or self.maintenance is None:
            return None
        return replace(
            self.dispatcher.scheduler.status(),
            network_away_since=self._network_away_since,
            moved_at=self.dispatcher.moved_at,
        )

    async def _apply_settings(self, changes: Collection[str], new: Settings, strategy: Strategy | None) -> None:
        if self.maintenance is not None:
            await self.maintenance.apply_settings(changes, new, strategy)

    async def run_term(self, held: ClusterLease, over: asyncio.Event) -> None:
        """Lead until `over` is set."""
        began = time.monotonic()
        store = self._store.fenced(held)
        scheduler = make_scheduler(store, self._live_settings.current)
        scheduler.budget.fetches = math.inf  # the terminals fetch; `_count_capacity` counts them
        spending_log = SpendingLog(store, cluster_leases.read_database_time)
        dispatcher = self._make_dispatcher(store, scheduler, spending_log, held)
        desk, definitions = GrantDesk(store, scheduler.budget, spending_log), DefinitionReader(store)
        maintenance = Maintenance(store, scheduler, self._live_settings.current)
        await maintenance.load_state()
        await dispatcher.adopt_in_flight()
        await definitions.reload_changes()
        await websub.follow_pushed_feeds(store, scheduler.politeness)
        await self._count_capacity(store)
        self.dispatcher, self.maintenance = dispatcher, maintenance
        self.takeover_seconds = time.monotonic() - began
        log.info("leading", epoch=held.epoch, feeds=len(scheduler.feed_table), seconds=round(self.takeover_seconds, 2))
        tasks = [
            *maintenance.start_tasks(definitions, over),
            *self._start_watchers(store, scheduler, maintenance, definitions, over),
            *self._start_tasks(store, held, over),
            asyncio.create_task(run_every(GRANT_SECONDS, desk.step, over)),
        ]
        try:
            await maintenance.update_demand(definitions)
            await dispatcher.run(over)
        finally:
            over.set()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.dispatcher = self.maintenance = None
            try:
                await maintenance.save_state()
                await maintenance.publish_report()
            except HeadwaterError as error:  # another process leads, and learns on
                log.warning("state_not_saved", error=str(error))

    def _make_dispatcher(
        self, store: Store, scheduler: Scheduler, spending_log: SpendingLog, held: ClusterLease
    ) -> Dispatcher:
        timing = LeaseTiming(self._live_settings.current.cluster_lease)
        return Dispatcher(
            scheduler,
            self._make_sender(store, held),
            ClusterJobs(store),
            spending_log,
            room=lambda in_flight: self.capacity - in_flight,
            inbox=DatabaseInbox(store),
            epoch=held.epoch,
            in_flight_seconds=timing.in_flight_seconds,
            begin_seconds=timing.begin_seconds,
            open_seconds=timing.begin_seconds + timing.lease,
            backlog_seconds=timing.heartbeat_seconds,
            postpone_seconds=timing.lease / 4,
            on_lessons=self._report_lessons,
        )

    def _start_watchers(
        self,
        store: Store,
        scheduler: Scheduler,
        maintenance: Maintenance,
        definitions: DefinitionReader,
        over: asyncio.Event,
    ) -> list[asyncio.Task[None]]:
        """Start tasks that follow changes of other processes and report to their pages."""
        saved_last = b""

        async def reload_queries() -> None:
            if await definitions.reload_changes():
                await maintenance.update_demand(definitions)

        async def save_status() -> None:
            nonlocal saved_last
            status = self.status()
            encoded = b"" if status is None else msgspec.json.encode(status)
            if encoded and encoded != saved_last:
                await save_leader_status(store, encoded)
                saved_last = encoded

        async def follow_hubs() -> None:
            ended = await websub.follow_pushed_feeds(store, scheduler.politeness)
            await scheduler.reconsider_feeds(ended)

        async def save_beliefs() -> None:
            await save_belief_sample(store, scheduler)

        async def count_capacity() -> None:
            await self._count_capacity(store)

        works = (
            (websub.HUB_POLL_SECONDS, follow_hubs),
            (BELIEF_SECONDS, save_beliefs),
            (POLL_SECONDS, reload_queries),
            (POLL_SECONDS, count_capacity),
            (STATUS_SECONDS, save_status),
        )
        return [asyncio.create_task(run_every(seconds, work, over)) for seconds, work in works]

    async def _count_capacity(self, store: Store) -> None:
        """Count how much the terminals that are there can fetch at once."""
        here = await store.read(cluster_leases.list_members, self._live_settings.current.cluster_lease)
        infos = [msgspec.json.decode(one.info) for one in here if one.role in self._roles]
        self._terminal_capacity = sum(int(info.get("capacity", 0)) for info in infos)
        away = [info.get("away_since") for info in infos]
        self._network_away_since = min(away) if away and None not in away else None
        if self.dispatcher is not None and self._terminal_capacity:
            self.dispatcher.scheduler.budget.fetches = self._terminal_capacity
        if self.dispatcher is not None:  # each terminal without network sends a probe now and then
            self.dispatcher.scheduler.budget.hold_back(sum(since is not None for since in away))

    def _report_lessons(self, lessons: Sequence[Lesson]) -> None:
        if self.maintenance is not None:
            self.maintenance.monitor.count_refreshes((lesson.refresh, lesson.before) for lesson in lessons)
            log_refreshes((lesson.refresh, lesson.url) for lesson in lessons)


class ClusterJobs:
    """Makes jobs for terminals, with only the part of a feed's state that a fetch needs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make_jobs(self, orders: Sequence[JobOrder]) -> list[Job]:
        plans = await self._store.read(load_fetch_plans, [order.feed_id for order in orders])
        return [make_job(plans[order.feed_id], order) for order in orders if order.feed_id in plans]


def make_job(plan: FetchPlan, order: JobOrder) -> Job:
    return Job(
        plan.feed_id,
        partition_of(plan.url if order.way is None else order.way.at),
        order.generation,
        plan.url,
        order.reason,
        plan.validators,
        plan.body_hash,
        plan.windowed,  # a delta is merged into the window we keep, so it is only asked for where there is one
        order.rate,
        way=order.way,
        well=plan.last_succeeded,
        wished=order.requested,
    )


class DatabaseInbox:
    """Reads the lessons that storers wrote with the results, and the requests of pages."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read_messages(self) -> LeaderMessages:
        """Take all lessons, oldest first, and return the requests."""
        news = await self._store.read(cluster_jobs.read_leader_news)
        lessons: list[StoredLesson] = []
        more = news.has_lessons
        while more:
            bodies = await self._store.write(cluster_jobs.take_lessons, MAX_LESSON_ROWS)
            for body in bodies:
                lessons += await self._read_lessons(body)
            more = len(bodies) == MAX_LESSON_ROWS
        return LeaderMessages(lessons, news.requested, news.announced)

    async def _read_lessons(self, body: bytes) -> list[StoredLesson]:
        """Decode a row of lessons; one that cannot be read is quarantined."""
        try:
            return read_lessons(body)
        except msgspec.DecodeError as error:
            problem = describe_unreadable(error)
            log.error("lessons_quarantined", problem=problem)
            await self._store.write(cluster_jobs.quarantine_message, "lesson", body, problem)
            return []

    async def remove_requests(self, feed_ids: Collection[int]) -> None:
        await self._store.write(cluster_jobs.remove_refresh_requests, feed_ids)
