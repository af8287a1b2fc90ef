"""Sends the jobs that the scheduler chooses, and tracks them in flight until their results are stored.

A job in flight has a deadline after which its feed is due again, so a lost job or result costs minutes and nothing
else. The capacity of the fetch pools limits the jobs in flight: when fetching or storing stops, choosing stops too, and
the most valuable feeds are chosen when it goes on.

Between two steps the dispatcher waits until a feed is due, the budget has room again, or somebody wakes it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import structlog
from msgspec.structs import replace

from headwater.errors import RefreshHeld
from headwater.fetch.http.redirects import Handover
from headwater.loops import RepeatFilter, boot_clock, pause, set_with
from headwater.model import Known, Refresh
from headwater.node.crawl.job_ledger import AdoptedJobs, InFlightJob, JobLedger
from headwater.node.crawl.lessons import Lesson
from headwater.node.crawl.scheduler import CLOCK_STEP, Scheduler
from headwater.node.crawl.spending import SpendingLog
from headwater.node.crawl.transport import FetchResult, Job, JobSender, StoredLesson, StoredRefresh
from headwater.schedule.budget import BudgetRecord
from headwater.store.content.feed_state import load_feed_states
from headwater.store.store import Store
from headwater.times import MINUTE

TICK = 0.25  # seconds between two steps while feeds wait that cannot be sent yet
HEARTBEAT = 1.0  # seconds between two looks at the clock: it may be set, and a machine may have slept
MAX_WAIT = 60.0  # seconds without a step: some strategies adapt to the time of day
BUSY_STEP, LESSON_STEP, IDLE_STEP = 0.1, 0.25, 1.0  # seconds between two looks for lessons in a cluster
MAX_BACKOFF = 2.0  # seconds between two steps that fail again and again

log = structlog.get_logger()


class JobOrder(NamedTuple):
    """A job to be made."""

    feed_id: int
    generation: int
    reason: str
    rate: float | None
    requested: bool
    way: Handover | None = None


class JobFactory(Protocol):
    """Makes jobs from the stored feeds and leaves removed ones out."""

    async def make_jobs(self, orders: Sequence[JobOrder]) -> list[Job]: ...


class LeaderMessages(NamedTuple):
    """Messages of other processes to the leader of a cluster.

    `requested` are feeds that people asked for, with the time of the last refresh that they know of: a later one ends
    the request. `announced` are those of which a hub says that something is new.
    """

    lessons: Sequence[StoredLesson] = ()
    requested: Mapping[int, float] = MappingProxyType({})
    announced: Collection[int] = ()


class LeaderInbox(Protocol):
    """Brings lessons of results that other processes have stored, and requests."""

    async def read_messages(self) -> LeaderMessages:
        """Take the lessons, and return the requests, which stay until they are removed."""
        ...

    async def remove_requests(self, feed_ids: Collection[int]) -> None: ...


class NextHop(NamedTuple):
    """A refresh that was redirected and waits for its next request."""

    way: Handover
    reason: str


class Dispatcher:
    """Keeps the feeds of a scheduler refreshed."""

    def __init__(
        self,
        scheduler: Scheduler,
        sender: JobSender,
        factory: JobFactory,
        spending_log: SpendingLog,
        *,
        room: Callable[[int], int],
        is_paused: Callable[[], bool] = lambda: False,
        inbox: LeaderInbox | None = None,
        epoch: int = 0,
        in_flight_seconds: float = math.inf,
        begin_seconds: float = math.inf,
        open_seconds: float = 0.0,
        backlog_seconds: float = 5.0,
        postpone_seconds: float = 0.0,
        on_request: Callable[[int], None] = lambda feed_id: None,
        on_lessons: Callable[[Sequence[Lesson]], None] = lambda lessons: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`room` returns how many more jobs may be sent, given the number in flight. While `is_paused`, only feeds that
        a person requested are sent. `epoch` is the leader's; `on_request` is called for requests of feeds in flight.

        The request of a job begins within `begin_seconds`; requests of the previous leader end within `open_seconds`.
        """
        self.scheduler = scheduler
        scheduler.on_changed = self.wake
        self._sender = sender
        self._factory = factory
        self._room = room
        self._is_paused = is_paused
        self._inbox = inbox
        self._spending_log = spending_log
        self._ledger = JobLedger(scheduler.budget, epoch, in_flight_seconds)
        self._begin_seconds = begin_seconds
        self._open_seconds = open_seconds
        self._backlog_seconds = backlog_seconds
        self._postpone_seconds = postpone_seconds
        self._on_request = on_request
        self._on_lessons = on_lessons
        self._clock = clock
        self._adopted = AdoptedJobs(sender)
        self._requests: dict[int, list[asyncio.Future[StoredRefresh]]] = {}
        self._remote_requests: list[int] = []  # feeds that people asked for in other processes
        self._next_hops: dict[int, NextHop] = {}
        self._woken = asyncio.Event()
        self._messages_read_at = -math.inf
        self._due = -math.inf
        self._stepped_at: float | None = None
        self._landed_at = clock()
        names = ("chosen", "learned", "late", "expired", "refused", "unasked", "unbegun")
        self.counts = dict.fromkeys(names, 0)
        self.problem: str | None = None

    @property
    def in_flight(self) -> Mapping[int, InFlightJob]:
        """The jobs in flight by feed."""
        return self._ledger.in_flight

    @property
    def moved_at(self) -> float | None:
        """The time at which the crawl last went on: of the last step or, while jobs are in flight, of the last result
        if that is earlier.

        It steps every minute, and requests have deadlines, so an old time means that it stands still. None before the
        first step.
        """
        if self._stepped_at is None or not self.in_flight:
            return self._stepped_at
        return min(self._stepped_at, self._landed_at)

    # the loop

    def wake(self) -> None:
        """Step now: something has changed that the dispatcher cannot foresee."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Send jobs until `stop` is set. A failed step is logged and tried again."""
        news, backoff = RepeatFilter(), TICK
        async with set_with(stop, self._woken):
            while not stop.is_set():
                self._woken.clear()
                started = time.perf_counter()
                try:
                    await self.step()
                    self.problem, backoff, self._stepped_at = None, TICK, self._clock()
                    news.reset()
                except Exception as error:
                    self.problem, backoff = str(error), min(2 * backoff, MAX_BACKOFF)
                    self._due = self._clock() + backoff
                    if news.is_news(repr(error)):
                        log.error("dispatch_failed", error=repr(error))
                # With a million feeds a step takes a while: most of the time is left to fetching and storing.
                await self._wait(4 * (time.perf_counter() - started))

    async def _wait(self, least: float) -> None:
        """Wait until the next step is due, looking at the clock now and then: it may be set."""
        before = self._clock()
        end = min(max(self._due, before + least), before + MAX_WAIT)
        while not self._woken.is_set() and before - CLOCK_STEP < (now := self._clock()) < end:
            before = max(before, now)
            await pause(self._woken, min(HEARTBEAT, end - now))

    async def step(self) -> int:
        """Learn from stored results, expire jobs, choose feeds and send jobs; return how many were learned or sent."""
        learned = await self._follow_messages()
        await self._release_ended_jobs()
        await self._expire_jobs()
        if await self._adopted.has_unstored_results():
            self._due = self._clock() + LESSON_STEP
            return learned
        sent = await self._send_chosen()
        if self._inbox is not None:
            busy = len(self.in_flight) > self._room(0) // 8
            step = BUSY_STEP if busy else LESSON_STEP if self.in_flight else IDLE_STEP
            self._due = min(self._due, self._clock() + step)
        return learned + sent

    # requests

    async def request_refresh(self, feed_id: int) -> StoredRefresh:
        """Refresh a feed for a person, first in the budget, and return when it is stored.

        Only a server's own word holds it back (Retry-After): raises RefreshHeld.
        """
        known = await self.scheduler.load_feed(feed_id)
        until = self.scheduler.politeness.find_hold(known, self._clock())
        if until is not None:
            raise RefreshHeld(f"The server of {known.url} asked to be left alone (Retry-After).", until)
        stored: asyncio.Future[StoredRefresh] = asyncio.get_running_loop().create_future()
        self._requests.setdefault(feed_id, []).append(stored)
        self._on_request(feed_id)
        self.wake()
        return await stored

    def _find_requested_rows(self, now: float) -> list[int]:
        table, budget = self.scheduler.feed_table, self.scheduler.budget
        feeds = dict.fromkeys((*self._next_hops, *self._requests, *self._remote_requests))
        rows = [row for feed in feeds if (row := table.find_row(feed)) is not None]
        return [row for row in rows if not table.in_flight[row] and budget.is_host_ready(int(table.host[row]), now)]

    # sending

    async def _send_chosen(self) -> int:
        now, scheduler = self._clock(), self.scheduler
        scheduler.follow_clock(now)
        requested = self._find_requested_rows(now)
        room, left = self._room(len(self.in_flight)), scheduler.budget.count_available(now)
        if self._is_paused():
            room = min(room, len(requested))
        tokens = min(room, left)
        if tokens <= 0:
            # Without room a stored result wakes us; without budget we wait for its next refill.
            self._due = max(scheduler.budget.find_refill(now), now + TICK) if left <= 0 < room else now + MAX_WAIT
            return 0
        chosen = scheduler.choose_feeds(tokens, now, requested)
        if chosen:
            await self._send_jobs(chosen, now)
        full = len(chosen) >= tokens
        self._due = now + TICK if full else max(scheduler.find_next_due(now), now + TICK)
        return len(chosen)

    async def _send_jobs(self, chosen: Sequence[tuple[int, str]], now: float) -> None:
        table = self.scheduler.feed_table
        rows = np.array([row for row, _ in chosen], np.intp)
        ids = table.ids[rows].tolist()
        table.in_flight[rows] = True
        try:
            orders = []
            rates = self.scheduler.estimate_past_rates(rows).tolist()
            requested = {*self._requests, *self._remote_requests}
            for (_, reason), feed, rate in zip(chosen, ids, rates, strict=True):
                believed = None if np.isnan(rate) else rate
                hop = self._next_hops.pop(feed, None)
                why, way = (reason, None) if hop is None else (hop.reason, hop.way)
                orders.append(JobOrder(feed, self._ledger.number_job(), why, believed, feed in requested, way))
            jobs = await self._factory.make_jobs(orders)
            if not self.in_flight:
                self._landed_at = now  # from now on a result is awaited
            for job in jobs:
                row = table.find_row(job.feed_id)
                if row is not None:
                    self._ledger.begin_job(job.feed_id, job.generation, int(table.host[row]), now, boot_clock())
            table.remove_feeds(set(ids) - self.in_flight.keys())  # removed since they were chosen
            # The record is written before the requests may begin, so that the next leader knows of them.
            granted = await self._spending_log.save_record(lambda: self.scheduler.budget.make_record(now))
            if math.isfinite(self._begin_seconds):
                jobs = [replace(job, begin_by=granted + self._begin_seconds) for job in jobs]
            taken = await self._sender.send_jobs(jobs)
        except BaseException:
            self._cancel_jobs(ids)
            raise
        self.counts["chosen"] += len(taken)
        refused = [job.feed_id for job in jobs if job.feed_id not in taken]
        self.counts["refused"] += len(refused)
        self._cancel_jobs(refused)
        self._adopt_jobs(refused)  # those of the previous leader, whose results will come

    def _cancel_jobs(self, feed_ids: Iterable[int]) -> None:
        """Forget jobs without a result: their feeds are due again."""
        feeds = list(feed_ids)
        self._ledger.cancel_jobs(feeds, self._clock())
        self.scheduler.release_feeds(feeds)

    # landing

    def land_stored(self, batch: Sequence[StoredRefresh]) -> None:
        """Charge and release the feeds of stored results, from which the scheduler has learned already."""
        now, fetched = self._clock(), [one for one in batch if not one.result.outcome.pushed]
        self._land_jobs(
            [(one.known.feed_id, one.result.job.generation, one.result.outcome.bytes) for one in fetched], now
        )
        for one in fetched:
            for request in self._requests.pop(one.known.feed_id, ()):
                if not request.done():
                    request.set_result(one)
        self.wake()

    def land_failed(self, failed: Sequence[tuple[FetchResult, Exception]]) -> None:
        """Release feeds whose results could not be stored: they stay due."""
        self._cancel_jobs([one.feed_id for one, _ in failed if not one.outcome.pushed])
        for one, error in failed:
            for request in self._requests.pop(one.feed_id, ()):
                if not request.done():
                    request.set_exception(error)
        self.wake()

    def land_unasked(self, results: Sequence[FetchResult | StoredLesson]) -> None:
        """Release feeds without a document: redirected ones, those that were too late to begin, and those whose
        terminal had no network."""
        now = self._clock()
        hops = {_find_feed(one): one for one in results if one.way is not None}
        self._land_jobs([(feed, _find_generation(one), None) for feed, one in hops.items()], now)
        for feed, one in hops.items():
            if one.way is not None:
                self._next_hops[feed] = NextHop(one.way, _find_reason(one))  # it comes first in the budget
        unbegun = [_find_feed(one) for one in results if one.unbegun]
        self.counts["unbegun"] += len(unbegun)
        self._cancel_jobs(unbegun)
        self.postpone([_find_feed(one) for one in results if one.way is None and not one.unbegun])
        self.wake()

    def postpone(self, feed_ids: Sequence[int]) -> None:
        """Reschedule feeds whose terminal had no network, after a pause."""
        if feed_ids:
            self.counts["unasked"] += len(feed_ids)
            self._cancel_jobs(feed_ids)
            table = self.scheduler.feed_table
            rows = table.find_rows(feed_ids)
            table.earliest[rows] = np.maximum(table.earliest[rows], self._clock() + self._postpone_seconds)

    def _land_jobs(self, results: Sequence[tuple[int, int, int | None]], now: float) -> None:
        """Charge the requests of results (feed, generation, size; None if redirected), and release their feeds."""
        table, freed = self.scheduler.feed_table, []
        if results:
            self._landed_at = now
        for feed, generation, size in results:
            row = table.find_row(feed)
            host = None if row is None else int(table.host[row])
            if self._ledger.land_job(feed, generation, size, host, now):
                freed.append(feed)
        self.scheduler.release_feeds(freed)

    # results and requests of other processes

    async def _follow_messages(self) -> int:
        if not self.in_flight and boot_clock() < self._messages_read_at + IDLE_STEP:
            return 0
        self._messages_read_at = boot_clock()
        return await self._read_messages()

    async def _read_messages(self) -> int:
        """Learn from the results stored since the last call and note requests; return how many results there were."""
        if self._inbox is None:
            return 0
        messages = await self._inbox.read_messages()
        self._land_lessons(messages.lessons)
        for feed in messages.announced:
            await self.scheduler.note_signal(feed)
        refreshes = [one.lesson.refresh for one in messages.lessons if not one.late]
        ended = {one.feed_id for one in refreshes if one.at > messages.requested.get(one.feed_id, math.inf)}
        if ended or messages.announced:
            await self._inbox.remove_requests(ended.union(messages.announced))
        self._remote_requests = [feed for feed in messages.requested if feed not in ended]
        return len(messages.lessons)

    def _land_lessons(self, stored: Sequence[StoredLesson]) -> None:
        self.counts["late"] += sum(one.late and not one.unasked for one in stored)
        self.land_unasked([one for one in stored if one.unasked])
        kept, now = [one for one in stored if not one.late], self._clock()
        lessons = [one.lesson for one in kept]
        self._land_jobs([(one.lesson.refresh.feed_id, one.generation, one.lesson.refresh.bytes) for one in kept], now)
        if self.scheduler.budget.has_host_pace:
            self._note_host_requests([one.refresh for one in lessons], now)
        if lessons:
            self.scheduler.learn_lessons(lessons)
            self.counts["learned"] += len(lessons)
            self._on_lessons(lessons)

    def _note_host_requests(self, refreshes: Sequence[Refresh], now: float) -> None:
        """Count the pause of a host from its request, not from the choice: a job may wait for a terminal."""
        table = self.scheduler.feed_table
        begun = {row: one.at - one.elapsed for one in refreshes if (row := table.find_row(one.feed_id)) is not None}
        self.scheduler.budget.note_requests(table.host[list(begun)], np.array(list(begun.values())), now)

    # jobs without a result

    async def adopt_in_flight(self) -> None:
        """Count what the previous leader spent and its jobs in flight as ours, before anything is chosen."""
        table = self.scheduler.feed_table
        adopted = await self._adopted.adopt()
        record, age = await self._spending_log.load_record() or (None, 0.0)
        now = self._clock()  # read last: an earlier time would let what was spent expire too early
        if record is None:  # written by no leader, or by one of an older version: the last refreshes are stored
            recent = table.table.last[table.table.last > now - MINUTE]
            record = BudgetRecord(len(adopted), tuple((max(now - at, 0.0), 1, 0.0) for at in np.sort(recent).tolist()))
        self._ledger.inherit(record, age, self._open_seconds, now)
        self._adopt_jobs(adopted)
        await self._spending_log.save_record(lambda: self.scheduler.budget.make_record(now))

    def _adopt_jobs(self, feed_ids: Iterable[int]) -> None:
        """Count jobs of the previous leader as in flight; its budget has their requests."""
        table = self.scheduler.feed_table
        for feed in feed_ids:
            row = table.find_row(feed)
            if row is not None:
                table.in_flight[row] = True
                self._ledger.adopt_job(feed, boot_clock())

    def recheck_in_flight(self) -> None:
        """Check the jobs in flight after the transport was made anew: they may be lost."""
        self._adopted.recheck(self.in_flight)

    async def _expire_jobs(self) -> None:
        now = boot_clock()
        late = self._ledger.list_overdue(now)
        if not late:
            return
        if await self._sender.count_backlog():
            self._ledger.extend_deadlines(late, now + self._backlog_seconds)
            return
        self.counts["expired"] += len(late)
        log.warning("jobs_expired", jobs=len(late))
        self._cancel_jobs(late)

    async def _release_ended_jobs(self) -> None:
        """Release adopted jobs that terminals dropped because their leader was replaced: their feeds are due again."""
        ended = await self._adopted.pop_ended()
        if ended:
            await self._read_messages()  # the results of the others are stored by now
            self._cancel_jobs([feed for feed in ended if feed in self.in_flight])


def _find_feed(one: FetchResult | StoredLesson) -> int:
    return one.feed_id if isinstance(one, FetchResult) else one.lesson.refresh.feed_id


def _find_generation(one: FetchResult | StoredLesson) -> int:
    return one.job.generation if isinstance(one, FetchResult) else one.generation


def _find_reason(one: FetchResult | StoredLesson) -> str:
    return one.job.reason if isinstance(one, FetchResult) else one.lesson.refresh.reason


class LocalJobs:
    """Makes jobs that never leave the process: they carry the feed's state."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make_jobs(self, orders: Sequence[JobOrder]) -> list[Job]:
        states = await self._store.read(load_feed_states, [order.feed_id for order in orders])
        return [make_local_job(states[order.feed_id], order) for order in orders if order.feed_id in states]


def make_local_job(known: Known, order: JobOrder) -> Job:
    """Make a job that carries the feed's state."""
    return Job(
        known.feed_id,
        0,
        order.generation,
        known.url,
        order.reason,
        known.validators,
        known.body_hash,
        bool(known.window),  # a delta is merged into the stored window, so it needs one
        order.rate,
        well=known.last_success is not None and not known.failures,
        way=order.way,
        wished=order.requested,
        known=known,
    )
