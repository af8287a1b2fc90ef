"""The controller: decides what to refresh, hands the jobs out, and learns from what storers have written.

    choose ─► jobs ─► (terminals fetch, storers write) ─► settled ─► learn ─► choose …

It keeps what is in flight with a deadline: a job of which nothing was heard by then is due again, so that whatever
becomes of jobs and results on their way, minutes are lost and nothing else. How much may be in flight depends on the
terminals that are there, so that a standstill further on stops the choosing, and what is most valuable then is chosen
when it goes on. What the controller before it had in flight is its own (`inherited`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import structlog

from headwater.cluster.adopted_jobs import AdoptedJobs, InFlightSource
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.wire_messages import EPOCH_SHIFT, Job, StoredLesson, make_job, read_lessons
from headwater.loops import RepeatFilter, boot_clock, pause
from headwater.model import Refresh
from headwater.node.crawl.lessons import Lesson
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.strategy import Strategy
from headwater.store import cluster_jobs as job_rows
from headwater.store.content.feed_state import load_fetch_plans
from headwater.store.store import Store

STEP_SECONDS, MAX_STEP_SECONDS = 0.25, 2.0  # seconds between two steps, and between two that fail again and again
BUSY_STEP_SECONDS = (
    0.1  # seconds between two steps while much is done or on its way; each is a few statements, however much it does
)
IDLE_SECONDS = (
    1.0  # seconds between two looks for lessons while nothing of ours is in flight: of others' wishes, of before us
)
MAX_LESSON_ROWS = 64  # batches of storers, each of some hundred refreshes at most

log = structlog.get_logger()


class JobSender(InFlightSource, Protocol):
    """What carries jobs to terminals, and results from them."""

    async def send_jobs(self, jobs: Sequence[Job]) -> set[int]:
        """Feeds whose jobs were taken on; one whose feed has a job on its way already is refused."""
        ...

    async def count_backlog(self) -> int:
        """Results that wait to be stored: while there are any, a job of which nothing was heard may be among them."""
        ...


@dataclass(slots=True)
class InFlightJob:
    """A job that was handed out."""

    generation: int
    deadline: float
    reserved: float


class ClusterDispatcher(Scheduler):
    """Decides for a cluster, under the lease whose epoch its jobs carry."""

    def __init__(
        self,
        store: Store,
        strategy: Strategy,
        spending: BudgetAccount,
        courtesy: Politeness,
        outgoing: JobSender,
        *,
        epoch: int,
        timing: LeaseTiming,
        per_host: int = 1,
        capacity: Callable[[], int],
        on_learned: Callable[[Sequence[Lesson]], None] = lambda lessons: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(store, strategy, spending, courtesy, per_host=per_host, clock=clock)
        self._sender = outgoing
        self._timing = timing
        self._capacity = capacity
        self._on_learned = on_learned
        self._next = self._first = epoch << EPOCH_SHIFT
        self._adopted = AdoptedJobs(outgoing)
        self.in_flight: dict[int, InFlightJob] = {}
        self.counts = {"chosen": 0, "learned": 0, "late": 0, "expired": 0, "refused": 0, "unasked": 0}
        self.problem: str | None = None
        self._lessons_read_at = -np.inf

    @property
    def in_flight_count(self) -> int:
        return len(self.in_flight)

    async def adopt_in_flight(self) -> None:
        """Before it chooses anything: what is on its way is in flight."""
        for feed in await self._adopted.adopt():
            row = self.feed_table.find_row(feed)
            if row is not None:
                self.feed_table.in_flight[row] = True
                self._reserve(feed, row, self._first, self._clock())

    def recheck_in_flight(self) -> None:
        """What carries jobs has been made anew: those that were on their way may be lost."""
        self._adopted.recheck(self.in_flight)

    def _reserve(self, feed: int, row: int, generation: int, now: float) -> None:
        reserved = self.budget.reserve(now, int(self.feed_table.host[row]))
        self.in_flight[feed] = InFlightJob(generation, boot_clock() + self._timing.in_flight_seconds, reserved)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. A failure is logged and tried again; LeaseLost ends it through the seat."""
        saying, tick = RepeatFilter(), STEP_SECONDS
        while not stop.is_set():
            started, much = time.perf_counter(), self._capacity() // 8
            try:
                busy = await self.step(idle=IDLE_SECONDS) > much
                self.problem, tick = None, BUSY_STEP_SECONDS if len(self.in_flight) > much else STEP_SECONDS
                saying.reset()
            except Exception as error:
                self.problem, tick = str(error), min(2 * max(tick, STEP_SECONDS), MAX_STEP_SECONDS)
                if saying.is_news(repr(error)):
                    log.error("controller_failed", error=repr(error))
                busy = False
            # With a million feeds a step takes a while: most of the time is left to others, unless much is to be done.
            await pause(stop, BUSY_STEP_SECONDS if busy else max(tick, 4 * (time.perf_counter() - started)))

    async def step(self, idle: float = 0.0) -> int:
        """Learn what there is, expire, choose; how many refreshes were learned from or begun.

        While nothing is in flight lessons are looked for every `idle` seconds.
        """
        learned = 0
        if self.in_flight or boot_clock() >= self._lessons_read_at + idle:
            learned = await self.read_lessons()
            self._lessons_read_at = boot_clock()
        await self._release_ended_jobs()
        await self._expire_jobs()
        if await self._adopted.has_unstored_results():
            return learned
        return learned + await self._dispatch()

    # learning

    async def read_lessons(self) -> int:
        """Learn from everything that was stored since; how many refreshes that were."""
        total = 0
        while await self._store.read(job_rows.has_lessons):
            bodies = await self._store.write(job_rows.take_lessons, MAX_LESSON_ROWS)
            taught = [one for body in bodies for one in read_lessons(body)]
            self._apply_lessons(taught)
            total += len(taught)
            if len(bodies) < MAX_LESSON_ROWS:
                break
        return total

    def _apply_lessons(self, taught: Sequence[StoredLesson]) -> None:
        self.counts["late"] += sum(one.late and not one.unasked for one in taught)
        self._postpone([one.lesson.refresh.feed_id for one in taught if one.unasked])
        current = [one for one in taught if not one.late]
        now = self._clock()
        for one in current:
            self._land_job(one, now)
        if self.budget.has_host_pace:
            self._note_host_requests([one.lesson.refresh for one in current], now)
        self.release_feeds([one.lesson.refresh.feed_id for one in current])
        lessons = [one.lesson for one in current]
        if lessons:
            self.learn_lessons(lessons)
            self.counts["learned"] += len(lessons)
            self._on_learned(lessons)

    def _postpone(self, feeds: Sequence[int]) -> None:
        """Whoever was to ask for these reached nobody: as if they had not been chosen, but not again at once."""
        if feeds:
            self.counts["unasked"] += len(feeds)
            self._cancel_jobs(feeds)
            rows = self.feed_table.find_rows(feeds)
            self.feed_table.earliest[rows] = np.maximum(
                self.feed_table.earliest[rows], self._clock() + self._timing.lease / 4
            )

    def _land_job(self, one: StoredLesson, now: float) -> None:
        refresh = one.lesson.refresh
        flight = self.in_flight.pop(refresh.feed_id, None)
        row = self.feed_table.find_row(refresh.feed_id)
        if flight is None and row is not None:  # a person's wish, or of the controller before us: spent all the same
            reserved = self.budget.reserve(now, int(self.feed_table.host[row]))
            self.budget.charge(now, reserved, refresh.bytes, one.lesson.redirected)
        elif flight is not None:
            self.budget.charge(now, flight.reserved, refresh.bytes, one.lesson.redirected)

    def _note_host_requests(self, refreshes: Sequence[Refresh], now: float) -> None:
        """A job may have waited for a terminal; its host is left alone from when it was asked, not chosen."""
        begun = {
            row: one.at - one.elapsed for one in refreshes if (row := self.feed_table.find_row(one.feed_id)) is not None
        }
        self.budget.note_requests(self.feed_table.host[list(begun)], np.array(list(begun.values())), now)

    async def _expire_jobs(self) -> None:
        now = boot_clock()
        late = [feed for feed, flight in self.in_flight.items() if flight.deadline < now]
        if not late:
            return
        if await self._sender.count_backlog():
            for feed in late:
                self.in_flight[feed].deadline = now + self._timing.heartbeat_seconds
            return
        self.counts["expired"] += len(late)
        log.warning("jobs_expired", jobs=len(late))
        self._cancel_jobs(late)

    async def _release_ended_jobs(self) -> None:
        """A job of before us that was put down, as terminals do with an old controller's: its feed is due again."""
        ended = await self._adopted.pop_ended()
        if ended:
            await self.read_lessons()  # what came of the others is in the store by now
            self._cancel_jobs([feed for feed in ended if feed in self.in_flight])

    # choosing

    async def _dispatch(self) -> int:
        now = self._clock()
        self.follow_clock(now)
        tokens = min(self._capacity() - len(self.in_flight), self.budget.count_available(now))
        if tokens <= 0:
            return 0
        chosen = self.choose_feeds(tokens, now)
        if not chosen:
            return 0
        rows = np.array([row for row, _ in chosen], np.intp)
        self.feed_table.in_flight[rows] = True
        try:
            await self._send_jobs(chosen, now)
        except BaseException:
            self.release_feeds(feed for feed in self.feed_table.ids[rows].tolist() if feed not in self.in_flight)
            raise
        return len(chosen)

    async def _send_jobs(self, chosen: Sequence[tuple[int, str]], now: float) -> None:
        ids = [int(self.feed_table.ids[row]) for row, _ in chosen]
        known = await self._store.read(load_fetch_plans, ids)
        rates = self._estimate_rates(np.array([row for row, _ in chosen], np.intp)).tolist()
        jobs = []
        for (row, reason), feed, rate in zip(chosen, ids, rates, strict=True):
            if feed not in known:  # removed since it was chosen
                self.feed_table.remove_feeds([feed])
                continue
            self._next += 1
            believed = None if np.isnan(rate) else rate
            jobs.append(make_job(known[feed], self._next, reason, believed))
            self._reserve(feed, row, self._next, now)
        try:
            taken = await self._sender.send_jobs(jobs)
        except BaseException:
            self._cancel_jobs([job.feed_id for job in jobs])
            raise
        self.counts["chosen"] += len(taken)
        # A feed that has a job on its way, from the controller before us: it stays in flight and its result will come.
        self.counts["refused"] += len(jobs) - len(taken)

    def _cancel_jobs(self, feeds: Sequence[int]) -> None:
        for feed in feeds:
            flight = self.in_flight.pop(feed, None)
            if flight is not None:
                self.budget.charge_outcome(self._clock(), flight.reserved, None)
        self.release_feeds(feeds)
