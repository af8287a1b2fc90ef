"""Deciding which feeds to refresh, and learning from what came of it: the half of a crawler that fetches nothing.

One process fetches what it decides (`crawler`); in a cluster the controller decides and terminals fetch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from headwater.estimate.base import Floats, Rows
from headwater.node.aim import Aim
from headwater.node.courtesy import Courtesy
from headwater.node.learning import Lesson, learn
from headwater.node.roster import Roster
from headwater.node.spending import Spending
from headwater.schedule.base import Budget, Strategy, first
from headwater.schedule.budget import shares
from headwater.schedule.target import Reach
from headwater.store.store import Store
from headwater.store.values import ScheduleRow

CLOCK_STEP = 30.0  # a correction of the clock that is worth following; smaller ones are no matter

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Status:
    """What the crawler is doing at this moment."""

    feeds: int
    under_way: int
    strategy: str
    budget_per_minute: float
    budget_left: int
    next_due: float | None
    held_hosts: int
    spent: int = 0  # requests of the last minute
    spent_bytes: float = 0.0
    budget_bytes: float | None = None  # per minute
    problem: str | None = None  # what went wrong with a person's own strategy
    target: str | None = None  # in target mode: what is reached, or that it cannot be
    target_reached: bool | None = None
    queries: int = 0
    aims: tuple[Aim, ...] = ()  # TARGETs of queries, and whether the budget suffices
    network_away_since: float | None = None  # nobody answers: the network of this machine seems to be away


class Decider:
    """Knows the feeds of a store and what may be spent on them; a host bears `per_host` refreshes at once."""

    def __init__(
        self,
        store: Store,
        strategy: Strategy,
        spending: Spending,
        courtesy: Courtesy,
        *,
        per_host: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self.strategy = strategy
        self.roster = Roster()
        self.spending = spending
        self._problem: str | None = None
        self.aim: Reach | None = None  # in target mode: what the budget was set to and why
        self.courtesy = courtesy
        self._per_host = per_host
        self._clock = clock
        self._offset = clock() - time.monotonic()

    async def load(self) -> None:
        """Take all feeds over from the store, at the start and whenever somebody has changed them.

        What was not due before a restart is not due after it.
        """
        gone, first = self.roster.feeds(), not len(self.roster)
        since = time.monotonic()
        rows: list[ScheduleRow] = []
        async for chunk in self._store.all_known_schedule():
            gone.difference_update(row.feed_id for row in chunk)
            rows += chunk
            # All arrays are copied where rows come in: at a start they come in ever larger parts, or a million feeds
            # would take longer than ten times a hundred thousand.
            if not first or len(rows) >= len(self.roster) // 2:
                self._come_in(rows, since)
                rows, since = [], time.monotonic()
        self._come_in(rows, since)
        self.roster.drop(gone)
        for domain, until in self.courtesy.held.items():
            self.roster.hold_host(domain, until)

    def _come_in(self, rows: Sequence[ScheduleRow], since: float) -> None:
        due = {row.feed_id: row.next_refresh for row in rows if row.next_refresh is not None}
        self.roster.take(rows, due, since)
        # At once: the loop chooses while more is read, and both must be of one length.
        self.strategy.resize(len(self.roster))

    def status(self) -> Status:
        now = self._clock()
        waiting = self.roster.allowed[self.roster.active]
        due = self.strategy.due
        if due is not None:
            waiting = np.maximum(waiting, due[self.roster.active])
        spent = self.spending.spent(now)
        return Status(
            feeds=int(self.roster.active.sum()),
            under_way=self.under_way,
            strategy=self.strategy.name,
            budget_per_minute=spent.requests_allowed,
            budget_left=self.spending.available(now),
            next_due=float(np.maximum(waiting, now).min()) if len(waiting) else None,
            held_hosts=sum(until > now for until in self.courtesy.held.values()),
            spent=spent.requests,
            spent_bytes=spent.bytes,
            budget_bytes=spent.bytes_allowed,
            problem=self.strategy.problem,
            target=self.aim.message if self.aim else None,
            target_reached=self.aim.reached if self.aim else None,
        )

    @property
    def under_way(self) -> int:
        """How many refreshes have begun and are not over."""
        return int(self.roster.busy.sum())

    # choosing

    def remember_pace(self) -> None:
        """A host that was asked before we began is not asked sooner after it than if we had asked."""
        asked = np.flatnonzero(np.isfinite(self.roster.table.last))
        self.spending.asked(self.roster.host[asked], self.roster.table.last[asked], self._clock())

    def choose(self, tokens: int, now: float) -> list[tuple[int, str]]:
        """People's wishes first, then first refreshes, then what the strategy chooses; all out of the same budget."""
        wanted = self._wanted(now)
        candidates = self.roster.candidates(now)
        candidates[wanted] = False
        new = np.flatnonzero(candidates & self.roster.untried)
        people, firsts, _ = shares(tokens, len(wanted), len(new))
        room = self.spending.room(self.roster.room(self._per_host), now)
        untried = first(new, Budget(firsts, host=self.roster.host, room=room))
        candidates[new] = False
        np.subtract.at(room, self.roster.host[untried], 1)
        budget = Budget(tokens - people - len(untried), self.spending.rate, self.roster.host, np.maximum(room, 0))
        table = self.roster.table
        # Some rules of the papers may choose beyond the budget; here nobody spends more than there is.
        rows = self.strategy.choose(table, now, budget, candidates).rows[: budget.now]
        self._notice()
        return [
            *((row, "asked for by a person") for row in wanted[:people]),
            *((int(row), "its first refresh") for row in untried),
            *zip(rows.tolist(), self.strategy.reasons(table, rows, now) if len(rows) else (), strict=True),
        ]

    def _wanted(self, now: float) -> list[int]:
        """Rows that a person wants refreshed now."""
        return []

    def _notice(self) -> None:
        """Say once that a person's own strategy has broken down."""
        if self.strategy.problem != self._problem:
            self._problem = self.strategy.problem
            log.error("strategy_failed", strategy=self.strategy.name, problem=self._problem)

    def follow(self, now: float) -> None:
        """A clock that was set back must not freeze the feeds until it has caught up: their moments go back with it.

        Forward jumps, a suspended machine among them, need nothing: what became due is fetched within the budget.
        """
        offset = now - time.monotonic()
        back, self._offset = self._offset - offset, offset
        if back > CLOCK_STEP:
            log.warning("clock_set_back", seconds=round(back))
            roster = self.roster
            for moments in (roster.allowed, roster.host_until, roster.table.last, roster.learned):
                moments -= back
            self.spending.shift(back)
            due = self.strategy.due
            if due is not None:
                due -= back

    # learning

    def learn(self, lessons: Sequence[Lesson]) -> list[float | None]:
        """Learn from a batch; answers when each feed may and probably will be refreshed next (None: it was removed)."""
        found = [(self.roster.row(lesson.refresh.feed_id), lesson) for lesson in lessons]
        here = [(row, lesson) for row, lesson in found if row is not None]
        if not here:  # all removed while they were fetched
            return [None] * len(lessons)
        late = self.roster.learned  # what came by another way and was read from the log is not learned twice
        self._learn([one for one in here if one[1].refresh.ending.ok and one[1].refresh.at > late[one[0]]])
        self._fail([one for one in here if not one[1].refresh.ending.ok])
        rows = np.array([row for row, _ in here], np.intp)
        allowed = self.courtesy.allowed([lesson.known for _, lesson in here], self._rates(rows), self._clock())
        self.roster.allowed[rows] = allowed
        due = self.strategy.due
        next_at = allowed if due is None else np.maximum(allowed, due[rows])
        at = dict(zip(rows.tolist(), next_at.tolist(), strict=True))
        return [None if row is None else at[row] for row, _ in found]

    def _learn(self, well: Sequence[tuple[int, Lesson]]) -> None:
        if not well:
            return
        learn(self.strategy, self.roster, well)
        if self.courtesy.held:
            self._hear(well)

    def _fail(self, ill: Sequence[tuple[int, Lesson]]) -> None:
        if not ill:
            return
        rows = np.array([row for row, _ in ill], np.intp)
        at = np.array([lesson.refresh.at for _, lesson in ill])
        failures = np.array([lesson.known.failures for _, lesson in ill], np.intp)
        self.strategy.failed(self.roster.table, rows, at, failures)
        self.roster.active[rows[[lesson.gone for _, lesson in ill]]] = False
        self._hear(ill)

    def _hear(self, refreshed: Sequence[tuple[int, Lesson]]) -> None:
        for _, lesson in refreshed:
            said = self.courtesy.heard(lesson.refresh, lesson.url, lesson.retry_after)
            if said is not None:
                self.roster.hold_host(*said)

    # pushes

    async def tell(self, feed_id: int) -> None:
        """A signal says that something new waits at a feed. It may be polled as early as if a person asked, and a
        strategy that heeds signals does."""
        known = (await self._store.known([feed_id])).get(feed_id)
        row = self.roster.row(feed_id)
        if row is not None and known is not None:
            now = self._clock()
            self.roster.table.divergence[row] = 1.0
            earliest = max((known.last_refresh or 0.0) + self.courtesy.least, now)
            self.roster.allowed[row] = max(self.courtesy.must_wait(known, now) or now, earliest)

    async def reconsider(self, feed_ids: Iterable[int]) -> None:
        """Judge anew when feeds may be polled, after a hub has begun or ceased to push them."""
        known = list((await self._store.known(feed_ids)).values())
        here = [(row, one) for one in known if (row := self.roster.row(one.feed_id)) is not None]
        if here:
            rows = np.array([row for row, _ in here], np.intp)
            allowed = self.courtesy.allowed([one for _, one in here], self._rates(rows), self._clock())
            self.roster.allowed[rows] = allowed

    def believed_rate(self, feed_id: int) -> float | None:
        """Items per second of a feed, as believed now; None where nothing is."""
        row = self.roster.row(feed_id)
        if row is None:
            return None
        rate = float(self._rates(np.array([row], np.intp))[0])
        return None if np.isnan(rate) else rate

    def rates(self) -> Floats:
        """Items per second of every row, as believed now; NaN where the strategy believes nothing."""
        return self._rates(np.arange(len(self.roster), dtype=np.intp))

    def _rates(self, rows: Rows) -> Floats:
        """Items per second as believed now; NaN where the strategy believes nothing."""
        at = np.full(len(rows), self._clock())
        believed = self.strategy.believe(lambda estimator: estimator.rate(rows, at))
        return np.full(len(rows), np.nan) if believed is None else believed

    def release(self, feed_ids: Iterable[int]) -> None:
        """Their refreshes are over, however they ended."""
        self.roster.release(feed_ids, time.monotonic())
