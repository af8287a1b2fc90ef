"""Chooses the feeds to refresh within the budget, learns from refreshes, and lists the upcoming ones.

The settings name its strategy, budget and politeness.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from headwater.arrays import Floats, Rows
from headwater.errors import NotFound
from headwater.estimate.models.learned_forecast import LearnedForecast
from headwater.model import Ending, Known
from headwater.node.crawl.crawl_status import CrawlStatus, TargetOutcome
from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.lessons import Lesson, teach_strategy
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.budget import RequestCap, split_requests
from headwater.schedule.group_share import GroupShare, limit_group
from headwater.schedule.plan_facts import RESERVE
from headwater.schedule.politeness.host_pace import HostPace
from headwater.schedule.politeness.host_rate import HostRate
from headwater.schedule.quality.least_budget import BudgetPlan
from headwater.schedule.registry import build_strategy, parse_strategy
from headwater.schedule.selection import Budget, take_first
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.objective import NAMED_OBJECTIVES, parse_objective
from headwater.schedule.value.value import Value
from headwater.settings import Settings
from headwater.store.content.feed_state import MovedTime, ScheduleRow, iterate_schedule_rows, load_feed_states
from headwater.store.store import Store
from headwater.times import DAY, MINUTE

REQUESTED = "asked for by a person"
PACE_SECONDS = 60.0  # between two computations of the hosts' paces
MOVED, MAX_MOVED = 0.1, 1000  # share of its pause by which a refresh must move to be stored anew, and how many at once
CLOCK_STEP = 30.0  # seconds by which the clock must be set back to matter

log = structlog.get_logger()


class Scheduler:
    """Decides which feeds of a store to refresh, within a budget and at most `per_host` at a time on one host."""

    def __init__(
        self,
        store: Store,
        strategy: Strategy,
        budget: BudgetAccount,
        politeness: Politeness,
        *,
        per_host: int = 1,
        reader_share: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`reader_share` is the share of the budget for feeds to which only readers subscribe."""
        self._store = store
        self.reader_share = GroupShare(reader_share)
        self.strategy = strategy
        self.feed_table = FeedTable()
        self.budget = budget
        self._problem: str | None = None
        self._host_pace = HostPace()
        self._paces: Floats = np.empty(0)
        self._paced_at = -np.inf
        self.target_result: BudgetPlan | None = None  # in target mode: the budget found, and why
        self.target_broken: str | None = None  # why the target is measured as not kept
        self.politeness = politeness
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
        """Load all feeds from the store, at the start and whenever they have been changed.

        Only politeness is computed anew. Due times are the strategy's: those stored with a feed are as old as its last
        refresh, and the plan may have changed since.
        """
        gone, first = self.feed_table.list_feed_ids(), not len(self.feed_table)
        since = time.monotonic()
        rows: list[ScheduleRow] = []
        async for chunk in iterate_schedule_rows(self._store):
            gone.difference_update(row.feed_id for row in chunk)
            rows += chunk
            # Adding rows copies all arrays, so at a start they are added in growing parts: time stays linear.
            if not first or len(rows) >= len(self.feed_table) // 2:
                self._add_rows(rows, since)
                rows, since = [], time.monotonic()
        self._add_rows(rows, since)
        self.feed_table.remove_feeds(gone)
        for domain, until in self.politeness.held_domains.items():
            self.feed_table.hold_host(domain, until)
        self.on_changed()

    def _add_rows(self, rows: Sequence[ScheduleRow], since: float) -> None:
        asked = [row for row in rows if row.last_refresh is not None]
        facts = self.politeness.gather_facts([row.to_known() for row in asked])
        stored = np.array([-np.inf if row.next_refresh is None else row.next_refresh for row in asked])
        allowed = self.politeness.compute_earliest(facts, self._clock())
        if self.strategy.due is None:  # then only politeness, with its jitter, has set the stored times
            allowed = np.where(np.isfinite(stored), stored, allowed)
        earliest = dict(zip((row.feed_id for row in asked), allowed.tolist(), strict=True))
        # The first refresh of a feed that was added from its document is about to be stored.
        earliest |= {row.feed_id: row.not_before for row in rows if row.last_refresh is None and row.not_before}
        self.feed_table.upsert_feeds(rows, earliest, since)
        known = self.feed_table.find_rows(row.feed_id for row in asked)
        self.feed_table.set_politeness(known, facts, *self.politeness.compute_pauses(facts))
        self.strategy.note_change()
        # At once: the dispatcher chooses while more rows are read, and needs as many rows in the strategy.
        self.strategy.resize(len(self.feed_table))
        due = self.strategy.due
        if due is not None:  # a strategy without its saved state begins with the times that were stored with the feeds
            unplanned = np.isneginf(due[known])
            due[known[unplanned]] = stored[unplanned]

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
            target=self._describe_target(),
            target_reached=self.target_result.reached and not self.target_broken if self.target_result else None,
            aims=self.target_outcomes,
        )

    def _describe_target(self) -> str | None:
        if self.target_result is None:
            return None
        return f"{self.target_broken or ''} {self.target_result.message}".strip()

    @property
    def in_flight_count(self) -> int:
        """The number of feeds that are being refreshed."""
        return int(self.feed_table.in_flight.sum())

    # choosing

    def restore_host_pace(self) -> None:
        """Count the last refreshes before the start in the pace of their hosts."""
        asked = np.flatnonzero(np.isfinite(self.feed_table.table.last))
        self.budget.note_requests(self.feed_table.host[asked], self.feed_table.table.last[asked], self._clock())

    def choose_feeds(self, tokens: int, now: float, requested: Sequence[int] = ()) -> list[tuple[int, str]]:
        """Choose rows with a reason each: `requested` rows first, then first refreshes, then the strategy's choice.

        All come out of the same budget.
        """
        candidates = self.feed_table.find_candidates(now)
        candidates[list(requested)] = False
        share, of_readers = self.reader_share, self.feed_table.of_readers
        readers_room = share.count_room(now, self.budget.cap.requests) if share.limits else tokens
        readers_room -= int(of_readers[list(requested)].sum())  # a person waits, so these are counted and not limited
        new = limit_group(np.flatnonzero(candidates & self.feed_table.untried), of_readers, readers_room)
        people, firsts, _ = split_requests(tokens, len(requested), len(new))
        room = self.budget.limit_host_room(self.feed_table.compute_host_room(self._per_host), now)
        untried = take_first(new, Budget(firsts, host=self.feed_table.host, room=room))
        candidates &= ~self.feed_table.untried
        readers_room -= int(of_readers[untried].sum())
        if readers_room <= 0:
            candidates &= ~of_readers
        np.subtract.at(room, self.feed_table.host[untried], 1)
        budget = Budget(
            tokens - people - len(untried),
            self.budget.rate,
            self.feed_table.host,
            np.maximum(room, 0),
            self.limit_host_paces(now),
        )
        table = self.feed_table.table
        # Some rules of the papers choose more than the budget allows.
        rows = self.strategy.choose(table, now, budget, candidates).rows[: budget.now]
        if share.limits:  # others take the places of the rest at the next step
            rows = limit_group(rows, of_readers, readers_room)
            share.spend(now, int(of_readers[[*requested[:people], *untried, *rows]].sum()))
        self._report_problem()
        return [
            *((row, REQUESTED) for row in requested[:people]),
            *((int(row), "its first refresh") for row in untried),
            *zip(rows.tolist(), self.strategy.reasons(table, rows, now) if len(rows) else (), strict=True),
        ]

    def limit_host_paces(self, now: float) -> Floats:
        """Return how many requests per minute each host bears; computed anew every minute, and after refusals."""
        table = self.feed_table
        if now >= self._paced_at + PACE_SECONDS or len(self._paces) < table.host_count:
            feeds = np.bincount(table.host[table.active], minlength=table.host_count)
            gaps = {
                host: gap
                for domain, gap in self.politeness.slow_domains.items()
                if (host := table.find_host(domain)) is not None
            }
            self._paces = self._host_pace.limit(feeds, table.is_own_host[: len(feeds)], gaps)
            if self.budget.host_limit is not None:
                self._paces = np.minimum(self._paces, self.budget.host_limit)
            self._price_refreshes()
            self._paced_at = now
        return self._paces

    def _price_refreshes(self) -> None:
        """Set the cost of a refresh of each feed: its bytes and seconds, where these are scarcer than requests."""
        table = self.feed_table
        costs = self.budget.compute_costs(table.mean_bytes, table.mean_seconds)
        if (np.abs(costs - table.table.cost) > 0.1 * costs).any():
            self.strategy.note_change()
        table.table.cost[:] = costs

    def find_next_due(self, now: float) -> float:
        """Return when the next feed may be chosen: `now` if one may be already, infinity if there is none.

        A strategy without due times may choose every feed that politeness allows.
        """
        table = self.feed_table
        waiting = np.flatnonzero(table.active & ~table.in_flight & (table.table.last <= table.learned_until))
        if not len(waiting):
            return np.inf
        moments = np.maximum(table.earliest[waiting], table.host_until[table.host[waiting]])
        due = self.strategy.due
        if due is not None:
            moments = np.maximum(moments, due[waiting])
        if self.reader_share.limits:
            refill = self.reader_share.find_refill(now, self.budget.cap.requests)
            moments = np.where(table.of_readers[waiting], np.maximum(moments, refill), moments)
        return max(float(moments.min()), now)

    def _report_problem(self) -> None:
        """Log once that a custom strategy has failed."""
        if self.strategy.problem != self._problem:
            self._problem = self.strategy.problem
            log.error("strategy_failed", strategy=self.strategy.name, problem=self._problem)

    def follow_clock(self, now: float) -> None:
        """Shift all times with a clock that was set back, so that feeds do not wait until it has caught up.

        A jump forward, as after a suspended machine, needs nothing: due feeds are fetched within the budget.
        """
        offset = now - time.monotonic()
        back, self._clock_offset = self._clock_offset - offset, offset
        if back > CLOCK_STEP:
            log.warning("clock_set_back", seconds=round(back))
            feeds = self.feed_table
            for moments in (feeds.earliest, feeds.host_until, feeds.table.last, feeds.learned_until):
                moments -= back
            self.budget.shift_clock(back)
            due = self.strategy.due
            if due is not None:
                due -= back

    # learning

    def learn_lessons(self, lessons: Sequence[Lesson]) -> list[float | None]:
        """Learn from a batch; return when each feed will probably be refreshed next (None: it was removed)."""
        found = [(self.feed_table.find_row(lesson.refresh.feed_id), lesson) for lesson in lessons]
        here = [(row, lesson) for row, lesson in found if row is not None]
        if not here:  # removed while they were fetched
            return [None] * len(lessons)
        learned = self.feed_table.learned_until  # a refresh that was read from the log already is not learned twice
        self._learn_successes([one for one in here if one[1].refresh.ending.ok and one[1].refresh.at > learned[one[0]]])
        self._learn_failures([one for one in here if not one[1].refresh.ending.ok])
        rows = np.array([row for row, _ in here], np.intp)
        allowed = self._apply_politeness(rows, [lesson.known for _, lesson in here])
        due = self.strategy.due
        if due is not None:
            next_at = np.maximum(allowed, due[rows])
        else:  # a ranking: a pause of the strategy's own is all that is known beforehand
            table = self.feed_table.table
            next_at = np.maximum(allowed, [self.strategy.ready_at(table, row) for row in rows.tolist()])
        self.feed_table.shown_next[rows] = next_at
        at = dict(zip(rows.tolist(), next_at.tolist(), strict=True))
        return [None if row is None else at[row] for row, _ in found]

    def list_moved_times(self) -> list[MovedTime]:
        """Return the next refreshes that a plan has moved since they were stored, the soonest first; each only once."""
        due, feeds = self.strategy.due, self.feed_table
        if due is None:  # politeness alone sets the times
            return []
        at, shown, last = np.maximum(feeds.earliest, due[: len(feeds)]), feeds.shown_next, feeds.table.last
        rows = np.flatnonzero(
            feeds.active & ~feeds.in_flight & np.isfinite(at) & np.isfinite(shown) & np.isfinite(last)
        )
        rows = rows[np.abs(at[rows] - shown[rows]) > np.maximum(MOVED * (at[rows] - last[rows]), MINUTE)]
        rows = rows[np.argsort(at[rows], kind="stable")[:MAX_MOVED]]
        moved = [
            MovedTime(*one)
            for one in zip(feeds.ids[rows].tolist(), shown[rows].tolist(), at[rows].tolist(), strict=True)
        ]
        feeds.shown_next[rows] = at[rows]
        return moved

    def _learn_successes(self, lessons: Sequence[tuple[int, Lesson]]) -> None:
        if not lessons:
            return
        teach_strategy(self.strategy, self.feed_table, lessons)
        asked = [(row, lesson.refresh) for row, lesson in lessons if lesson.refresh.status is not None]
        rows = np.array([row for row, _ in asked], np.intp)
        seconds = np.array([refresh.elapsed for _, refresh in asked])
        self._host_pace.note_answers(self.feed_table.host[rows], seconds)
        self.feed_table.note_costs(rows, np.array([float(refresh.bytes) for _, refresh in asked]), seconds)
        self.budget.note_seconds(seconds)
        if self.politeness.has_refusals:
            self._record_answers(lessons)

    def _learn_failures(self, lessons: Sequence[tuple[int, Lesson]]) -> None:
        if not lessons:
            return
        rows = np.array([row for row, _ in lessons], np.intp)
        at = np.array([lesson.refresh.at for _, lesson in lessons])
        failures = np.array([lesson.known.failures for _, lesson in lessons], np.intp)
        self.strategy.observe_failures(self.feed_table.table, rows, at, failures)
        self.feed_table.deactivate(rows[[lesson.gone for _, lesson in lessons]])
        self._record_answers(lessons)

    def _record_answers(self, lessons: Sequence[tuple[int, Lesson]]) -> None:
        for _, lesson in lessons:
            hold = self.politeness.record_answer(lesson.refresh, lesson.url, lesson.retry_after)
            if hold is not None:
                self.feed_table.hold_host(*hold)
            if lesson.refresh.ending is Ending.THROTTLED:
                self._paced_at = -np.inf
                self.strategy.note_change()

    # pushes

    async def note_signal(self, feed_id: int) -> None:
        """Note that a hub announced something new at a feed: it may be polled as early as for a person."""
        known = (await self._store.read(load_feed_states, [feed_id])).get(feed_id)
        row = self.feed_table.find_row(feed_id)
        if row is not None and known is not None:
            now = self._clock()
            self.feed_table.table.divergence[row] = 1.0
            earliest = max((known.last_refresh or 0.0) + self.politeness.least_interval, now)
            self.feed_table.earliest[row] = max(self.politeness.find_hold(known, now) or now, earliest)
            self.on_changed()

    async def reconsider_feeds(self, feed_ids: Iterable[int]) -> None:
        """Compute anew when feeds may be polled, after a hub has begun or ceased to push them."""
        known = list((await self._store.read(load_feed_states, feed_ids)).values())
        here = [(row, one) for one in known if (row := self.feed_table.find_row(one.feed_id)) is not None]
        if here:
            self._apply_politeness(np.array([row for row, _ in here], np.intp), [one for _, one in here])
            self.strategy.note_change()
            self.on_changed()

    def _apply_politeness(self, rows: Rows, known: Sequence[Known]) -> Floats:
        """Note what politeness asks of these feeds; return when each may be asked again."""
        facts = self.politeness.gather_facts(known)
        allowed = self.politeness.compute_earliest(facts, self._clock())
        self.feed_table.earliest[rows] = allowed
        self.feed_table.set_politeness(rows, facts, *self.politeness.compute_pauses(facts))
        return allowed

    def estimate_feed_rate(self, feed_id: int) -> float | None:
        """Return the estimated items per second of a feed; None if there is no estimate."""
        row = self.feed_table.find_row(feed_id)
        if row is None:
            return None
        rate = float(self.estimate_rates(np.array([row], np.intp))[0])
        return None if np.isnan(rate) else rate

    def estimate_all_rates(self) -> Floats:
        """Return the estimated items per second of every row; NaN where there is no estimate."""
        return self.estimate_rates(np.arange(len(self.feed_table), dtype=np.intp))

    def estimate_rates(self, rows: Rows) -> Floats:
        """Return the items per second, averaged over the hours of the day; NaN where there is no estimate.

        Budgets and deadlines are planned by them. By the rates of the present hour, plans would change with the hour.
        """
        if isinstance(self.strategy, Value):
            return self.strategy.mean_rate(rows) / DAY
        at = np.full(len(rows), self._clock())
        believed = self.strategy.ask_estimator(lambda estimator: estimator.daily_rate(rows, at))
        return np.full(len(rows), np.nan) if believed is None else believed

    def estimate_past_rates(self, rows: Rows) -> Floats:
        """Return the estimated items per second since the last refresh of each row; NaN where there is no estimate."""
        now = self._clock()
        last = np.minimum(self.feed_table.table.last[rows], now)
        start = np.where(np.isfinite(last), last, now - MINUTE)
        believed = self.strategy.ask_estimator(
            lambda estimator: estimator.past_rate(rows, start, np.full(len(rows), now))
        )
        return np.full(len(rows), np.nan) if believed is None else believed

    def release_feeds(self, feed_ids: Iterable[int]) -> None:
        """Note that the refreshes of these feeds have ended."""
        self.feed_table.release_feeds(feed_ids, time.monotonic())


@dataclass(frozen=True, slots=True)
class UpcomingRefresh:
    """A feed that will be refreshed, not before `due`, with the value of doing so now and the strategy's price."""

    feed_id: int
    due: float
    value: float | None
    price: float | None
    why: str


def list_upcoming(scheduler: Scheduler, now: float, limit: int) -> list[UpcomingRefresh]:
    """Return the next `limit` feeds by their due times; those that are due now by their value."""
    feeds, strategy = scheduler.feed_table, scheduler.strategy
    rows = np.flatnonzero(feeds.active & ~feeds.in_flight)
    moments = np.maximum(feeds.earliest[rows], now)
    if strategy.due is not None:
        moments = np.maximum(moments, strategy.due[rows])
    finite = np.isfinite(moments)
    rows, moments = rows[finite], moments[finite]
    chosen = np.argsort(moments, kind="stable")[:limit]
    found = []
    for row, moment in zip(rows[chosen].tolist(), moments[chosen].tolist(), strict=True):
        why = strategy.explain(feeds.table, row, now)
        found.append(UpcomingRefresh(int(feeds.ids[row]), moment, why.value, why.price, why.reason))
    return sorted(found, key=lambda one: (one.due, -(one.value or 0.0)))


def build_configured_strategy(settings: Settings) -> Strategy:
    """Return the strategy of the settings, without any feeds yet.

    A strategy without an objective is refused only if somebody set one.
    """
    objective = parse_objective(settings.objective)
    strategy = build_strategy(
        settings.strategy, _choose_estimator(settings), None if objective == NAMED_OBJECTIVES["balanced"] else objective
    )
    apply_thrift(strategy, settings)
    return strategy


def _choose_estimator(settings: Settings) -> str | None:
    """Return the estimator of the settings. If they name none, `value` has the learned forecast (decision 0241)."""
    if settings.estimator is not None:
        return settings.estimator
    chosen = parse_strategy(settings.strategy)
    return LearnedForecast.name if chosen.name == Value.name and "estimator" not in chosen.options else None


def apply_thrift(strategy: Strategy, settings: Settings) -> None:
    """Let thrift hold where the budget is given; with a wanted quality the budget found is thrift enough."""
    if isinstance(strategy, Value):
        strategy.reserve = RESERVE if settings.target is None else 0.0


def make_budget_account(settings: Settings) -> BudgetAccount:
    """Make the budget of the settings."""
    bytes_per_minute = None if settings.budget_bytes is None else MINUTE * settings.budget_bytes
    return BudgetAccount(
        RequestCap(settings.budget, bytes_per_minute), HostRate(settings.host_budget), settings.concurrency
    )


def make_politeness(settings: Settings) -> Politeness:
    """Make the politeness of the settings, without any refusals yet."""
    return Politeness(random.Random(), least=settings.least_interval)


def make_scheduler(store: Store, settings: Settings) -> Scheduler:
    """Make the scheduler of the settings, without any feeds yet."""
    return Scheduler(
        store,
        build_configured_strategy(settings),
        make_budget_account(settings),
        make_politeness(settings),
        per_host=settings.per_host,
        reader_share=settings.reader_share,
    )
