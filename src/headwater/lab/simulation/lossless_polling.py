"""Simulates polling where nothing is lost, with exact delays, by running sums.

Sia & Cho and advaRSS count delays and pending items only; their feeds never push an item out. The delay of a whole
refresh is then a difference of running sums of the items' times, so a run costs as much as its refreshes, not its
items. A strategy first learns from a history of given length. Then every feed is polled once at a random moment of one
day, so that no schedule begins in step with the clock. Measuring starts after that day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats, Ragged, Rows
from headwater.errors import TraceError
from headwater.lab.traces.trace import Trace
from headwater.schedule.selection import Budget
from headwater.schedule.strategies.resource_allocation import AllocationStrategy
from headwater.schedule.strategy import Observed, Strategy, Table
from headwater.times import DAY


@dataclass(frozen=True, slots=True)
class PollingScores:
    """The scores of a run. Delays are in seconds; an item that still waits at the end counts with its age.

    `mean_age` and `fresh_copies` are age and freshness of Cho & Garcia-Molina, means over feeds and time: the copy of a
    feed is as old as its oldest waiting item, and fresh while none waits (Sia & Cho, figure 2).
    `pending` and `fullest` are the items waiting in all feeds and in the fullest one, every hour from `first_hour` on.
    """

    requests: int
    items: int
    mean_delay: float
    sd_delay: float
    max_delay: float
    mean_age: float
    fresh_copies: float
    pending: Floats
    fullest: Floats
    first_hour: float = 0.0

    @property
    def polls_per_item(self) -> float:
        return self.requests / max(self.items, 1)


def simulate_polling(
    strategy: Strategy,
    trace: Trace,
    per_day: float,
    learn_days: float,
    rng: np.random.Generator,
    tick: float = 1800.0,
    begin: float | None = None,
    end: float | None = None,
) -> PollingScores:
    """Let a strategy poll a trace, `per_day` times per feed and day on average, after `learn_days` of history.

    Ranking strategies get an even share of the budget at every tick. Strategies that plan their own day
    (`AllocationStrategy`) may refresh as planned, because their plan keeps the budget.
    """
    begin = trace.start + learn_days * DAY if begin is None else begin
    end = trace.end if end is None else end
    if begin + DAY >= end:
        raise TraceError(
            f"The trace has {trace.days:.1f} days; {learn_days:g} of learning and one to begin leave nothing to "
            "measure. Use fewer --warmup-days or a longer trace."
        )
    feeds = trace.feeds
    state = _PollingRun(trace, begin)
    strategy.resize(feeds)
    state.teach_history(strategy, begin - learn_days * DAY, begin)
    first = begin + np.floor(rng.random(feeds) * DAY / tick) * tick
    rate = per_day * feeds / DAY
    plans = isinstance(strategy, AllocationStrategy)
    started = np.zeros(feeds, dtype=bool)
    owed = 0.0
    hour = begin + DAY
    for now in np.arange(begin, end, tick).tolist():
        measured = now >= begin + DAY
        while measured and hour <= now:
            state.sample_pending(hour)
            hour += 3600.0
        if not started.all():
            rows = np.flatnonzero(~started & (first <= now))
            state.refresh_feeds(strategy, rows, now, measured)
            started[rows] = True
        owed += rate * tick
        allowed = feeds if plans else int(owed)
        owed -= int(owed)
        rows = strategy.choose(state.table, now, Budget(allowed, rate), started).rows
        state.refresh_feeds(strategy, rows, now, measured)
    return state.score(begin + DAY, end)


class _PollingRun:
    """The state of a run: running sums of every feed's times, and how far each feed has been read."""

    def __init__(self, trace: Trace, begin: float) -> None:
        self.trace, self.origin = trace, begin
        # All feeds lie on one ascending axis, so that one search serves all of them.
        self._span = trace.end - trace.start + 10 * DAY
        self._keys = trace.item_feeds() * self._span + (trace.times - trace.start)
        relative = trace.times - begin
        self.sums = np.concatenate([[0.0], np.cumsum(relative)])
        self.squares = np.concatenate([[0.0], np.cumsum(relative**2)])
        self.table = Table.of(trace.feeds, 1e9)
        trace.fill_table(self.table)
        self.read = self.count_published(begin)
        self.requests = 0
        self.delay = self.delay_squared = self.longest = 0.0
        self.stale = self.age = 0.0
        self.count = 0
        self.pending: list[float] = []
        self.fullest: list[float] = []

    def count_published(self, when: float, rows: Rows | None = None) -> Rows:
        """Return how far each feed's items reach at `when`, as positions in the trace."""
        rows = np.arange(self.trace.feeds) if rows is None else rows
        offset = min(max(when - self.trace.start, -DAY), self._span - DAY)
        found: Rows = np.searchsorted(self._keys, rows * self._span + offset, side="right")
        return np.clip(found, self.trace.offsets[rows], self.trace.offsets[rows + 1])

    def teach_history(self, strategy: Strategy, start: float, end: float) -> None:
        """Let the strategy observe everything published in [start, end] as one refresh of every feed."""
        rows = np.arange(self.trace.feeds)
        first, last = self.count_published(start), self.count_published(end)
        self.read = first
        self.table.last[:] = start
        strategy.observe(self.table, self._observe(rows, last, end))
        self.read = last
        self.table.last[:] = end

    def refresh_feeds(self, strategy: Strategy, rows: Rows, now: float, measured: bool) -> None:
        if not len(rows):
            return
        upto = self.count_published(now, rows)
        if measured:
            self.requests += len(rows)
        self._add_delays(rows, upto, now, self.origin + DAY)
        self._add_staleness(rows, upto, now, self.origin + DAY)
        strategy.observe(self.table, self._observe(rows, upto, now))
        self.read[rows] = upto
        self.table.last[rows] = now

    def _add_delays(self, rows: Rows, upto: Rows, now: float, since: float) -> None:
        """Add the delays of the items read now that were published after `since`."""
        start = np.maximum(self.read[rows], self.count_published(since, rows))
        some = upto > start
        start, upto = start[some], upto[some]
        number = upto - start
        at = now - self.origin
        total = self.sums[upto] - self.sums[start]
        self.count += int(number.sum())
        self.delay += float((number * at - total).sum())
        squares = self.squares[upto] - self.squares[start]
        self.delay_squared += float((number * at * at - 2 * at * total + squares).sum())
        if len(start):
            self.longest = max(self.longest, float(now - self.trace.times[start].min()))

    def _add_staleness(self, rows: Rows, upto: Rows, now: float, since: float) -> None:
        """Add for how long after `since` the copies read now were stale, and their ages in that time."""
        first = self.trace.times[self.read[rows[upto > self.read[rows]]]]
        begin = np.maximum(first, since)
        lasted = np.maximum(now - begin, 0.0)
        self.stale += float(lasted.sum())
        self.age += float((lasted * ((begin + now) / 2 - first)).sum())

    def _observe(self, rows: Rows, upto: Rows, now: float) -> Observed:
        number = upto - self.read[rows]
        offsets = np.concatenate([[0], np.cumsum(number)]).astype(np.intp)
        items = np.repeat(self.read[rows] - offsets[:-1], number) + np.arange(offsets[-1])
        return Observed(
            rows=rows,
            start=self.table.last[rows],
            end=np.full(len(rows), now),
            new=number.astype(float),
            window=np.full(len(rows), 1e9),
            saturated=np.zeros(len(rows), dtype=bool),
            published=Ragged(offsets, self.trace.times[items]),
        )

    def sample_pending(self, when: float) -> None:
        """Record how many items wait in all feeds and in the fullest one."""
        waiting = self.count_published(when) - self.read
        self.pending.append(float(waiting.sum()))
        self.fullest.append(float(waiting.max()))

    def score(self, since: float, end: float) -> PollingScores:
        everyone = np.arange(self.trace.feeds)
        upto = self.count_published(end)
        self._add_delays(everyone, upto, end, since)
        self._add_staleness(everyone, upto, end, since)
        watched = self.trace.feeds * (end - since)
        mean = self.delay / max(self.count, 1)
        variance = max(self.delay_squared / max(self.count, 1) - mean**2, 0.0)
        return PollingScores(
            requests=self.requests,
            items=self.count,
            mean_delay=mean,
            sd_delay=float(np.sqrt(variance)),
            max_delay=self.longest,
            mean_age=self.age / watched,
            fresh_copies=1.0 - self.stale / watched,
            pending=np.array(self.pending),
            fullest=np.array(self.fullest),
            first_hour=since,
        )
