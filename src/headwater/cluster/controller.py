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

from headwater.cluster.inherited import Buffers, Inherited
from headwater.cluster.messages import EPOCH_SHIFT, Job, Taught, job_for, read_taught
from headwater.cluster.seat import pause
from headwater.cluster.timing import Timing, awake
from headwater.model import Refresh
from headwater.node.courtesy import Courtesy
from headwater.node.deciding import Decider
from headwater.node.learning import Lesson
from headwater.node.saying import Saying
from headwater.node.spending import Spending
from headwater.schedule.base import Strategy
from headwater.store import jobs as job_rows
from headwater.store.store import Store

TICK, LONGEST = 0.25, 2.0  # seconds between two steps, and between two that fail again and again
PACE = 0.1  # seconds between two steps while much is done or on its way; each is a few statements, however much it does
IDLE = 1.0  # seconds between two looks for lessons while nothing of ours is in flight: of others' wishes, of before us
LEARN_AT_ONCE = 64  # batches of storers, each of some hundred refreshes at most

log = structlog.get_logger()


class Outgoing(Buffers, Protocol):
    """What carries jobs to terminals, and results from them."""

    async def offer(self, jobs: Sequence[Job]) -> set[int]:
        """Feeds whose jobs were taken on; one whose feed has a job on its way already is refused."""
        ...

    async def unstored(self) -> int:
        """Results that wait to be stored: while there are any, a job of which nothing was heard may be among them."""
        ...


@dataclass(slots=True)
class Flight:
    """A job that was handed out."""

    generation: int
    deadline: float
    reserved: float


class Controller(Decider):
    """Decides for a cluster, under the lease whose epoch its jobs carry."""

    def __init__(
        self,
        store: Store,
        strategy: Strategy,
        spending: Spending,
        courtesy: Courtesy,
        outgoing: Outgoing,
        *,
        epoch: int,
        timing: Timing,
        per_host: int = 1,
        capacity: Callable[[], int],
        on_learned: Callable[[Sequence[Lesson]], None] = lambda lessons: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(store, strategy, spending, courtesy, per_host=per_host, clock=clock)
        self._outgoing = outgoing
        self._timing = timing
        self._capacity = capacity
        self._on_learned = on_learned
        self._next = self._first = epoch << EPOCH_SHIFT
        self._inherited = Inherited(outgoing)
        self.flights: dict[int, Flight] = {}
        self.counts = {"chosen": 0, "learned": 0, "late": 0, "expired": 0, "refused": 0, "unasked": 0}
        self.problem: str | None = None
        self._looked = -np.inf

    @property
    def under_way(self) -> int:
        return len(self.flights)

    async def inherit(self) -> None:
        """Before it chooses anything: what is on its way is in flight."""
        for feed in await self._inherited.begin():
            row = self.roster.row(feed)
            if row is not None:
                self.roster.busy[row] = True
                self._fly(feed, row, self._first, self._clock())

    def doubt(self) -> None:
        """What carries jobs has been made anew: those that were on their way may be lost."""
        self._inherited.doubt(self.flights)

    def _fly(self, feed: int, row: int, generation: int, now: float) -> None:
        reserved = self.spending.begin(now, int(self.roster.host[row]))
        self.flights[feed] = Flight(generation, awake() + self._timing.flight, reserved)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. A failure is logged and tried again; LeaseLost ends it through the seat."""
        saying, tick = Saying(), TICK
        while not stop.is_set():
            started, much = time.perf_counter(), self._capacity() // 8
            try:
                busy = await self.step(idle=IDLE) > much
                self.problem, tick = None, PACE if len(self.flights) > much else TICK
                saying.over()
            except Exception as error:
                self.problem, tick = str(error), min(2 * max(tick, TICK), LONGEST)
                if saying.worth(repr(error)):
                    log.error("controller_failed", error=repr(error))
                busy = False
            # With a million feeds a step takes a while: most of the time is left to others, unless much is to be done.
            await pause(stop, PACE if busy else max(tick, 4 * (time.perf_counter() - started)))

    async def step(self, idle: float = 0.0) -> int:
        """Learn what there is, expire, choose; how many refreshes were learned from or begun.

        While nothing is in flight lessons are looked for every `idle` seconds.
        """
        learned = 0
        if self.flights or awake() >= self._looked + idle:
            learned = await self.catch_up()
            self._looked = awake()
        await self._disown()
        await self._expire()
        if await self._inherited.waits():
            return learned
        return learned + await self._dispatch()

    # learning

    async def catch_up(self) -> int:
        """Learn from everything that was stored since; how many refreshes that were."""
        total = 0
        while await self._store.read(job_rows.anything_to_learn):
            bodies = await self._store.write(job_rows.learn, LEARN_AT_ONCE)
            taught = [one for body in bodies for one in read_taught(body)]
            self._take(taught)
            total += len(taught)
            if len(bodies) < LEARN_AT_ONCE:
                break
        return total

    def _take(self, taught: Sequence[Taught]) -> None:
        self.counts["late"] += sum(one.late and not one.unasked for one in taught)
        self._put_off([one.lesson.refresh.feed_id for one in taught if one.unasked])
        current = [one for one in taught if not one.late]
        now = self._clock()
        for one in current:
            self._land(one, now)
        if self.spending.paced:
            self._pace([one.lesson.refresh for one in current], now)
        self.release([one.lesson.refresh.feed_id for one in current])
        lessons = [one.lesson for one in current]
        if lessons:
            self.learn(lessons)
            self.counts["learned"] += len(lessons)
            self._on_learned(lessons)

    def _put_off(self, feeds: Sequence[int]) -> None:
        """Whoever was to ask for these reached nobody: as if they had not been chosen, but not again at once."""
        if feeds:
            self.counts["unasked"] += len(feeds)
            self._unsend(feeds)
            rows = self.roster.rows(feeds)
            self.roster.allowed[rows] = np.maximum(self.roster.allowed[rows], self._clock() + self._timing.lease / 4)

    def _land(self, one: Taught, now: float) -> None:
        refresh = one.lesson.refresh
        flight = self.flights.pop(refresh.feed_id, None)
        row = self.roster.row(refresh.feed_id)
        if flight is None and row is not None:  # a person's wish, or of the controller before us: spent all the same
            reserved = self.spending.begin(now, int(self.roster.host[row]))
            self.spending.ended(now, reserved, refresh.bytes, one.lesson.redirected)
        elif flight is not None:
            self.spending.ended(now, flight.reserved, refresh.bytes, one.lesson.redirected)

    def _pace(self, refreshes: Sequence[Refresh], now: float) -> None:
        """A job may have waited for a terminal; its host is left alone from when it was asked, not chosen."""
        begun = {row: one.at - one.elapsed for one in refreshes if (row := self.roster.row(one.feed_id)) is not None}
        self.spending.asked(self.roster.host[list(begun)], np.array(list(begun.values())), now)

    async def _expire(self) -> None:
        now = awake()
        late = [feed for feed, flight in self.flights.items() if flight.deadline < now]
        if not late:
            return
        if await self._outgoing.unstored():
            for feed in late:
                self.flights[feed].deadline = now + self._timing.beat
            return
        self.counts["expired"] += len(late)
        log.warning("jobs_expired", jobs=len(late))
        self._unsend(late)

    async def _disown(self) -> None:
        """A job of before us that was put down, as terminals do with an old controller's: its feed is due again."""
        ended = await self._inherited.ended()
        if ended:
            await self.catch_up()  # what came of the others is in the store by now
            self._unsend([feed for feed in ended if feed in self.flights])

    # choosing

    async def _dispatch(self) -> int:
        now = self._clock()
        self.follow(now)
        tokens = min(self._capacity() - len(self.flights), self.spending.available(now))
        if tokens <= 0:
            return 0
        chosen = self.choose(tokens, now)
        if not chosen:
            return 0
        rows = np.array([row for row, _ in chosen], np.intp)
        self.roster.busy[rows] = True
        try:
            await self._begin(chosen, now)
        except BaseException:
            self.release(feed for feed in self.roster.ids[rows].tolist() if feed not in self.flights)
            raise
        return len(chosen)

    async def _begin(self, chosen: Sequence[tuple[int, str]], now: float) -> None:
        ids = [int(self.roster.ids[row]) for row, _ in chosen]
        known = await self._store.asking(ids)
        rates = self._rates(np.array([row for row, _ in chosen], np.intp)).tolist()
        jobs = []
        for (row, reason), feed, rate in zip(chosen, ids, rates, strict=True):
            if feed not in known:  # removed since it was chosen
                self.roster.drop([feed])
                continue
            self._next += 1
            believed = None if np.isnan(rate) else rate
            jobs.append(job_for(known[feed], self._next, reason, believed))
            self._fly(feed, row, self._next, now)
        try:
            taken = await self._outgoing.offer(jobs)
        except BaseException:
            self._unsend([job.feed_id for job in jobs])
            raise
        self.counts["chosen"] += len(taken)
        # A feed that has a job on its way, from the controller before us: it stays in flight and its result will come.
        self.counts["refused"] += len(jobs) - len(taken)

    def _unsend(self, feeds: Sequence[int]) -> None:
        for feed in feeds:
            flight = self.flights.pop(feed, None)
            if flight is not None:
                self.spending.end(self._clock(), flight.reserved, None)
        self.release(feeds)
