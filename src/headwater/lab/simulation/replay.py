"""Replays a trace against a strategy of the server, under a virtual clock.

A feed's document shows its newest W items; W is the replay's or the feed's own. A strategy learns only from its polls;
an item that was pushed out of the document before a poll is lost. The first days of a trace are history that the first
poll may find, then comes a warm-up, and the rest is measured.

Interval strategies are polled at the exact moments they choose. Feeds do not influence each other between two steering
calls, so all feeds that are due before the next one are polled together, each at its own time, in waves until none is
due. Ranking strategies choose at every tick.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, Ragged, Rows
from headwater.errors import StrategyError, TraceError
from headwater.lab.traces.trace import Trace
from headwater.schedule.selection import Budget
from headwater.schedule.strategies.ranking import RankingStrategy
from headwater.schedule.strategy import IntervalStrategy, Observed, Strategy, Table
from headwater.times import DAY

MIN_INTERVAL = 60.0  # seconds; the server's politeness forbids shorter ones too
_TICKS = 1024  # a second has 1024 ticks: exact in binary, fine enough for any poll
HEADER_BYTES, ENTRY_BYTES = (
    500.0,
    1200.0,
)  # bytes of a response without a document, and of each item: a model, not data


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The settings of a replay: the window W, days of visible history and of warm-up, seconds between rankings."""

    window: int = 20
    history_days: float = 7.0
    warmup_days: float = 14.0
    tick: float | None = None

    def __post_init__(self) -> None:
        if self.window < 1:
            raise TraceError(f"The window is {self.window}; it must be at least 1.")
        if self.history_days < 0 or self.warmup_days < 0:
            raise TraceError("Days of history and of warm-up cannot be negative.")

    def time_span(self, trace: Trace) -> tuple[float, float, float]:
        """Return when polling starts, when measuring starts, and when both end."""
        begin = trace.start + self.history_days * DAY
        measured = begin + self.warmup_days * DAY
        if measured >= trace.end:
            raise TraceError(
                f"The trace has {trace.days:.1f} days; {self.history_days:g} of history and {self.warmup_days:g} of "
                "warm-up leave nothing to measure. Use fewer --warmup-days or a longer trace."
            )
        return begin, measured, trace.end

    def tick_seconds(self, trace: Trace, per_day: float) -> float:
        """Return the seconds between two rankings.

        Twenty minutes at one poll a day, ten at four, forty at a quarter. Longer where few feeds leave less than five
        polls to choose, or where a trace of years would need more than 30,000 ticks; never longer than six hours.
        """
        if self.tick is not None:
            return self.tick
        begin, _, end = self.time_span(trace)
        apart = max(600.0, 1200.0 / math.sqrt(per_day), 5 * DAY / (trace.feeds * per_day), (end - begin) / 30_000)
        return min(math.ceil(apart / 600) * 600.0, DAY / 4)


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome of a replay: when each item was obtained (NaN: never), and each feed's measured polls and bytes."""

    trace: Trace
    window: int
    begin: float
    measured: float
    end: float
    obtained: Floats
    polls: NDArray[np.int64]
    bytes: float

    @property
    def requests(self) -> int:
        return int(self.polls.sum())

    @property
    def per_day(self) -> float:
        """Return the polls per feed and day in the measured span."""
        return self.requests / self.trace.feeds / ((self.end - self.measured) / DAY)

    @property
    def windows(self) -> NDArray[np.int64]:
        """Return the size of each feed's document."""
        return window_sizes(self.trace, self.window)


def window_sizes(trace: Trace, window: int) -> NDArray[np.int64]:
    """Return the feeds' own window sizes where the trace has them, else `window` for all."""
    return np.full(trace.feeds, window, dtype=np.int64) if trace.windows is None else trace.windows


class _Publishers:
    """The publishers' side of a replay: answers polls and counts."""

    def __init__(self, trace: Trace, protocol: ReplaySettings) -> None:
        self.trace, self.window = trace, protocol.window
        self.windows = window_sizes(trace, protocol.window)
        self.begin, self.measured, self.end = protocol.time_span(trace)
        # One sorted array of integers for all feeds: (feed, time) as feed · 2^shift + ticks since the first item.
        self._shift = max(int((self.end - trace.start + DAY) * _TICKS).bit_length(), 1)
        if self._shift + trace.feeds.bit_length() > 62:
            raise TraceError("The trace is too long for its number of feeds; split it in time.")
        self._origin = trace.start
        ticks = np.floor((trace.times - self._origin) * _TICKS).astype(np.int64)
        self._keys = (trace.item_feeds().astype(np.int64) << self._shift) + ticks
        self._known = trace.offsets[:-1].astype(np.int64).copy()  # items published up to the last poll
        self.table = Table.of(trace.feeds)
        self.table.window[:] = self.windows
        trace.fill_table(self.table)
        self.obtained = np.full(len(trace.times), np.nan)
        self.polls = np.zeros(trace.feeds, dtype=np.int64)
        self.bytes = 0.0

    def poll_feeds(self, rows: Rows, at: Floats, shown: bool) -> Observed:
        """Poll the documents of `rows` at times `at` and compare them with the known items. The table is not yet
        updated."""
        keys = (rows << self._shift) + ((at - self._origin) * _TICKS).astype(np.int64)
        upto = np.searchsorted(self._keys, keys, side="right")
        known, first = self._known[rows], self.trace.offsets[rows]
        windows = self.windows[rows]
        oldest = np.maximum(upto - windows, first)
        fresh = np.maximum(known, oldest)
        new = upto - fresh
        changed = new > 0
        owner_at = np.repeat(at, new)
        self.obtained[_expand_ranges(fresh, new)] = owner_at
        saturated = (upto - known >= windows) & (known > first)
        counted = at >= self.measured
        self.polls[rows] += counted
        self.bytes += float(counted.sum() * HEADER_BYTES + ENTRY_BYTES * ((upto - oldest) * (changed & counted)).sum())
        self._known[rows] = upto
        size = upto - oldest
        dated = 1 if self.trace.dated is None else self.trace.dated[rows]  # a feed without dates shows items, not times
        return Observed(
            rows=rows,
            start=self.table.last[rows],
            end=at,
            new=new.astype(np.float64),
            window=size.astype(np.float64),
            saturated=saturated,
            published=_slice_times(self.trace.times, fresh, new * dated),
            shown=_slice_times(self.trace.times, oldest, size * dated) if shown else None,
        )

    def mark_polled(self, seen: Observed) -> None:
        self.table.last[seen.rows] = seen.end

    def build_replay(self) -> Replay:
        return Replay(
            self.trace, self.window, self.begin, self.measured, self.end, self.obtained, self.polls, self.bytes
        )


def _expand_ranges(first: Rows, counts: Rows) -> Rows:
    """Return first[0], first[0] + 1, … (counts[0] of them), first[1], …"""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - (ends - counts), counts) + np.arange(total)


def _slice_times(times: Floats, first: Rows, counts: Rows) -> Ragged:
    offsets = np.zeros(len(counts) + 1, dtype=np.intp)
    np.cumsum(counts, out=offsets[1:])
    return Ragged(offsets, times[_expand_ranges(first, counts)])


def replay_trace(
    strategy: Strategy, trace: Trace, protocol: ReplaySettings | None = None, per_day: float = 1.0, stretch: float = 1.0
) -> Replay:
    """Let a new strategy poll a trace with a budget of `per_day` polls per feed; `stretch` lengthens its intervals.

    Every feed is polled once when polling begins. For interval strategies these first polls are spread evenly over a
    day, so that fixed intervals do not run in step.
    """
    sources = _Publishers(trace, protocol or ReplaySettings())
    strategy.resize(trace.feeds)
    rate = per_day * trace.feeds / DAY
    if isinstance(strategy, IntervalStrategy):
        _replay_intervals(strategy, sources, rate, stretch)
    else:
        _replay_rankings(strategy, sources, rate, (protocol or ReplaySettings()).tick_seconds(trace, per_day))
    return sources.build_replay()


def _spread_first_polls(sources: _Publishers) -> tuple[Rows, Floats]:
    feeds = sources.trace.feeds
    rows = np.arange(feeds)
    # The golden ratio spreads any number of feeds evenly over the day, neighbours far apart.
    phase = np.modf(rows.astype(np.float64) * 0.6180339887498949)[0]
    first: Floats = sources.begin + phase * min(DAY, sources.end - sources.begin)
    return rows, first


def _replay_intervals(strategy: IntervalStrategy, sources: _Publishers, rate: float, stretch: float) -> None:
    rows, first = _spread_first_polls(sources)
    due = strategy.due
    due[rows] = first
    for start, stop in _steering_periods(sources, strategy.steering):
        strategy.steer(sources.table, start, Budget(now=0, rate=rate))
        due = strategy.due
        active = np.flatnonzero(due < stop)
        while len(active):
            at = np.maximum(due[active], sources.table.last[active] + MIN_INTERVAL)
            at = np.minimum(np.maximum(at, start), np.nextafter(stop, -np.inf))
            seen = sources.poll_feeds(active, at, strategy.needs_shown)
            strategy.observe(sources.table, seen)
            due = strategy.due
            if stretch != 1.0:
                due[active] = at + stretch * (due[active] - at)
            if np.isnan(due[active]).any():
                raise StrategyError(f"{strategy.name} returned a time that is not a number.")
            sources.mark_polled(seen)
            again = np.maximum(due[active], at + MIN_INTERVAL) < stop
            active = active[again]


def _steering_periods(sources: _Publishers, length: float) -> Iterator[tuple[float, float]]:
    """Yield the periods between two steering calls, to the end of the trace."""
    if length <= 0:
        yield sources.begin, sources.end
        return
    edges = np.append(np.arange(sources.begin, sources.end, length), sources.end)
    yield from zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)


def _replay_rankings(strategy: Strategy, sources: _Publishers, rate: float, tick: float) -> None:
    rows = np.arange(sources.trace.feeds)
    seen = sources.poll_feeds(rows, np.full(len(rows), sources.begin), strategy.needs_shown)
    strategy.observe(sources.table, seen)
    sources.mark_polled(seen)
    spent = 0
    for k, now in enumerate(np.arange(sources.begin + tick, sources.end, tick).tolist()):
        quota = int(rate * tick * (k + 1)) - spent
        spent += quota  # unspent budget expires, as in the papers' cycles
        # A ranking needs a number; a strategy that keeps the rate by itself may take more at good moments of the day.
        budget = Budget(now=quota if isinstance(strategy, RankingStrategy) else len(rows), rate=rate)
        choice = strategy.choose(sources.table, now, budget)
        if not len(choice.rows):
            continue
        chosen = np.sort(choice.rows)
        seen = sources.poll_feeds(chosen, np.full(len(chosen), now), strategy.needs_shown)
        strategy.observe(sources.table, seen)
        sources.mark_polled(seen)
