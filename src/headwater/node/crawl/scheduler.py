"""Chooses the feeds to refresh within the budget, learns from refreshes, and lists the upcoming ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from headwater.arrays import Floats, Rows
from headwater.errors import NotFound
from headwater.model import Known
from headwater.node.crawl.crawl_status import CrawlStatus, TargetOutcome
from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.lessons import Lesson, teach_strategy
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.budget import split_requests
from headwater.schedule.quality.least_budget import BudgetPlan
from headwater.schedule.selection import Budget, take_first
from headwater.schedule.strategy import Strategy
from headwater.store.content.feed_state import ScheduleRow, iterate_schedule_rows, load_feed_states
from headwater.store.store import Store

REQUESTED = "asked for by a person"
CLOCK_STEP = 30.0  # a correction of the clock that is worth following; smaller ones are no matter

log = structlog.get_logger()


class Scheduler:
    """Knows the feeds of a store and what may be spent on them; a host bears `per_host` refreshes at once."""

    def __init__(
        self,
        store: Store,
        strategy: Strategy,
        spending: BudgetAccount,
        courtesy: Politeness,
        *,
        per_host: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self.strategy = strategy
        self.feed_table = FeedTable()
        self.budget = spending
        self._problem: str | None = None
        self.target_result: BudgetPlan | None = None  # in target mode: what the budget was set to and why
        self.politeness = courtesy
        self._per_host = per_host
        self._clock = clock
        self._clock_offset = clock() - time.monotonic()
        self.target_outcomes: tuple[TargetOutcome, ...] = ()  # of queries with a TARGET
        self.on_changed: Callable[[], None] = lambda: None  # called when feeds may be due earlier than before

    async def load_feed(self, feed_id: int) -> Known:
        """Return the state of a feed, which gets a row if it was added a moment ago. Raises NotFound."""
        known = (await self._store.read(load_feed_states, [feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        if self.feed_table.find_row(feed_id) is None:
            await self.load_feeds()
        return known

    async def load_feeds(self) -> None:
        """Take all feeds over from the store, at the start and whenever somebody has changed them.

        What was not due before a restart is not due after it.
        """
        gone, first = self.feed_table.list_feed_ids(), not len(self.feed_table)
        since = time.monotonic()
        rows: list[ScheduleRow] = []
        async for chunk in iterate_schedule_rows(self._store):
            gone.difference_update(row.feed_id for row in chunk)
            rows += chunk
            # All arrays are copied where rows come in: at a start they come in ever larger parts, or a million feeds
            # would take longer than ten times a hundred thousand.
            if not first or len(rows) >= len(self.feed_table) // 2:
                self._add_rows(rows, since)
                rows, since = [], time.monotonic()
        self._add_rows(rows, since)
        self.feed_table.remove_feeds(gone)
        for domain, until in self.politeness.held_domains.items():
            self.feed_table.hold_host(domain, until)
        self.on_changed()

    def _add_rows(self, rows: Sequence[ScheduleRow], since: float) -> None:
        due = {row.feed_id: row.next_refresh for row in rows if row.next_refresh is not None}
        self.feed_table.upsert_feeds(rows, due, since)
        # At once: the loop chooses while more is read, and both must be of one length.
        self.strategy.resize(len(self.feed_table))

    def status(self) -> CrawlStatus:
        now = self._clock()
        waiting = self.feed_table.earliest[self.feed_table.active]
        due = self.strategy.due
        if due is not None:
            waiting = np.maximum(waiting, due[self.feed_table.active])
        spent = self.budget.measure_use(now)
        return CrawlStatus(
            feeds=int(self.feed_table.active.sum()),
            under_way=self.in_flight_count,
            strategy=self.strategy.name,
            budget_per_minute=spent.requests_allowed,
            budget_left=self.budget.count_available(now),
            next_due=float(np.maximum(waiting, now).min()) if len(waiting) else None,
            held_hosts=sum(until > now for until in self.politeness.held_domains.values()),
            spent=spent.requests,
            spent_bytes=spent.bytes,
            budget_bytes=spent.bytes_allowed,
            problem=self.strategy.problem,
            target=self.target_result.message if self.target_result else None,
            target_reached=self.target_result.reached if self.target_result else None,
            aims=self.target_outcomes,
        )

    @property
    def in_flight_count(self) -> int:
        """How many refreshes have begun and are not over."""
        return int(self.feed_table.in_flight.sum())

    # choosing

    def restore_host_pace(self) -> None:
        """A host that was asked before we began is not asked sooner after it than if we had asked."""
        asked = np.flatnonzero(np.isfinite(self.feed_table.table.last))
        self.budget.note_requests(self.feed_table.host[asked], self.feed_table.table.last[asked], self._clock())

    def choose_feeds(self, tokens: int, now: float, requested: Sequence[int] = ()) -> list[tuple[int, str]]:
        """Choose rows with a reason each: `requested` rows first, then first refreshes, then the strategy's choice.

        All come out of the same budget.
        """
        candidates = self.feed_table.find_candidates(now)
        candidates[list(requested)] = False
        new = np.flatnonzero(candidates & self.feed_table.untried)
        people, firsts, _ = split_requests(tokens, len(requested), len(new))
        room = self.budget.limit_host_room(self.feed_table.compute_host_room(self._per_host), now)
        untried = take_first(new, Budget(firsts, host=self.feed_table.host, room=room))
        candidates[new] = False
        np.subtract.at(room, self.feed_table.host[untried], 1)
        budget = Budget(tokens - people - len(untried), self.budget.rate, self.feed_table.host, np.maximum(room, 0))
        table = self.feed_table.table
        # Some rules of the papers may choose beyond the budget; here nobody spends more than there is.
        rows = self.strategy.choose(table, now, budget, candidates).rows[: budget.now]
        self._report_problem()
        return [
            *((row, REQUESTED) for row in requested[:people]),
            *((int(row), "its first refresh") for row in untried),
            *zip(rows.tolist(), self.strategy.reasons(table, rows, now) if len(rows) else (), strict=True),
        ]

    def find_next_due(self, now: float) -> float:
        """Return the earliest moment at which a feed may be chosen: `now` if one may be already, else inf if none is.

        Only a strategy that sets due times can wait; any other may choose whatever is allowed.
        """
        table = self.feed_table
        waiting = np.flatnonzero(table.active & ~table.in_flight & (table.table.last <= table.learned_until))
        if not len(waiting):
            return np.inf
        moments = np.maximum(table.earliest[waiting], table.host_until[table.host[waiting]])
        due = self.strategy.due
        if due is not None:
            moments = np.maximum(moments, due[waiting])
        return max(float(moments.min()), now)

    def _report_problem(self) -> None:
        """Say once that a person's own strategy has broken down."""
        if self.strategy.problem != self._problem:
            self._problem = self.strategy.problem
            log.error("strategy_failed", strategy=self.strategy.name, problem=self._problem)

    def follow_clock(self, now: float) -> None:
        """A clock that was set back must not freeze the feeds until it has caught up: their moments go back with it.

        Forward jumps, a suspended machine among them, need nothing: what became due is fetched within the budget.
        """
        offset = now - time.monotonic()
        back, self._clock_offset = self._clock_offset - offset, offset
        if back > CLOCK_STEP:
            log.warning("clock_set_back", seconds=round(back))
            roster = self.feed_table
            for moments in (roster.earliest, roster.host_until, roster.table.last, roster.learned_until):
                moments -= back
            self.budget.shift_clock(back)
            due = self.strategy.due
            if due is not None:
                due -= back

    # learning

    def learn_lessons(self, lessons: Sequence[Lesson]) -> list[float | None]:
        """Learn from a batch; answers when each feed may and probably will be refreshed next (None: it was removed)."""
        found = [(self.feed_table.find_row(lesson.refresh.feed_id), lesson) for lesson in lessons]
        here = [(row, lesson) for row, lesson in found if row is not None]
        if not here:  # all removed while they were fetched
            return [None] * len(lessons)
        late = self.feed_table.learned_until  # what came by another way and was read from the log is not learned twice
        self._learn_successes([one for one in here if one[1].refresh.ending.ok and one[1].refresh.at > late[one[0]]])
        self._learn_failures([one for one in here if not one[1].refresh.ending.ok])
        rows = np.array([row for row, _ in here], np.intp)
        allowed = self.politeness.compute_earliest(
            [lesson.known for _, lesson in here], self.estimate_rates(rows), self._clock()
        )
        self.feed_table.earliest[rows] = allowed
        due = self.strategy.due
        next_at = allowed if due is None else np.maximum(allowed, due[rows])
        at = dict(zip(rows.tolist(), next_at.tolist(), strict=True))
        return [None if row is None else at[row] for row, _ in found]

    def _learn_successes(self, well: Sequence[tuple[int, Lesson]]) -> None:
        if not well:
            return
        teach_strategy(self.strategy, self.feed_table, well)
        if self.politeness.held_domains:
            self._record_answers(well)

    def _learn_failures(self, ill: Sequence[tuple[int, Lesson]]) -> None:
        if not ill:
            return
        rows = np.array([row for row, _ in ill], np.intp)
        at = np.array([lesson.refresh.at for _, lesson in ill])
        failures = np.array([lesson.known.failures for _, lesson in ill], np.intp)
        self.strategy.observe_failures(self.feed_table.table, rows, at, failures)
        self.feed_table.active[rows[[lesson.gone for _, lesson in ill]]] = False
        self._record_answers(ill)

    def _record_answers(self, refreshed: Sequence[tuple[int, Lesson]]) -> None:
        for _, lesson in refreshed:
            said = self.politeness.record_answer(lesson.refresh, lesson.url, lesson.retry_after)
            if said is not None:
                self.feed_table.hold_host(*said)

    # pushes

    async def note_signal(self, feed_id: int) -> None:
        """A signal says that something new waits at a feed. It may be polled as early as if a person asked, and a
        strategy that heeds signals does."""
        known = (await self._store.read(load_feed_states, [feed_id])).get(feed_id)
        row = self.feed_table.find_row(feed_id)
        if row is not None and known is not None:
            now = self._clock()
            self.feed_table.table.divergence[row] = 1.0
            earliest = max((known.last_refresh or 0.0) + self.politeness.least_interval, now)
            self.feed_table.earliest[row] = max(self.politeness.find_hold(known, now) or now, earliest)
            self.on_changed()

    async def reconsider_feeds(self, feed_ids: Iterable[int]) -> None:
        """Judge anew when feeds may be polled, after a hub has begun or ceased to push them."""
        known = list((await self._store.read(load_feed_states, feed_ids)).values())
        here = [(row, one) for one in known if (row := self.feed_table.find_row(one.feed_id)) is not None]
        if here:
            rows = np.array([row for row, _ in here], np.intp)
            allowed = self.politeness.compute_earliest(
                [one for _, one in here], self.estimate_rates(rows), self._clock()
            )
            self.feed_table.earliest[rows] = allowed
            self.on_changed()

    def estimate_feed_rate(self, feed_id: int) -> float | None:
        """Items per second of a feed, as believed now; None where nothing is."""
        row = self.feed_table.find_row(feed_id)
        if row is None:
            return None
        rate = float(self.estimate_rates(np.array([row], np.intp))[0])
        return None if np.isnan(rate) else rate

    def estimate_all_rates(self) -> Floats:
        """Items per second of every row, as believed now; NaN where the strategy believes nothing."""
        return self.estimate_rates(np.arange(len(self.feed_table), dtype=np.intp))

    def estimate_rates(self, rows: Rows) -> Floats:
        """Items per second as believed now; NaN where the strategy believes nothing."""
        at = np.full(len(rows), self._clock())
        believed = self.strategy.ask_estimator(lambda estimator: estimator.rate(rows, at))
        return np.full(len(rows), np.nan) if believed is None else believed

    def release_feeds(self, feed_ids: Iterable[int]) -> None:
        """Their refreshes are over, however they ended."""
        self.feed_table.release_feeds(feed_ids, time.monotonic())


@dataclass(frozen=True, slots=True)
class UpcomingRefresh:
    """A feed that will be refreshed, not before `due`; what that is worth now, and the price of a refresh."""

    feed_id: int
    due: float
    value: float | None
    price: float | None
    why: str


def list_upcoming(decider: Scheduler, now: float, limit: int) -> list[UpcomingRefresh]:
    """The next `limit` feeds in the order of their moments; those that may go now, by their value."""
    roster, strategy = decider.feed_table, decider.strategy
    rows = np.flatnonzero(roster.active & ~roster.in_flight)
    moments = np.maximum(roster.earliest[rows], now)
    if strategy.due is not None:
        moments = np.maximum(moments, strategy.due[rows])
    finite = np.isfinite(moments)
    rows, moments = rows[finite], moments[finite]
    chosen = np.argsort(moments, kind="stable")[:limit]
    found = []
    for row, moment in zip(rows[chosen].tolist(), moments[chosen].tolist(), strict=True):
        told = strategy.explain(roster.table, row, now)
        found.append(UpcomingRefresh(int(roster.ids[row]), moment, told.value, told.price, told.reason))
    return sorted(found, key=lambda one: (one.due, -(one.value or 0.0)))
