"""Urbansky et al.: fixed, learned, moving-average and post-rate intervals, all within [2 min, 31 d]."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from headwater.arrays import Floats
from headwater.estimate.estimator import Estimator
from headwater.estimate.models.hour_histogram import PostRate
from headwater.estimate.models.mean_gap import LearnedOnce, MovingAverage
from headwater.schedule.strategy import IntervalStrategy, Observed, Table
from headwater.times import DAY, HOUR, MINUTE

SHORTEST = 2 * MINUTE
LONGEST = 31 * DAY


class FixedInterval(IntervalStrategy):
    """Refresh every feed after the same time u (Urbansky et al., 3.1)."""

    every: ClassVar[float]
    shortest, longest = SHORTEST, LONGEST
    monotone = True

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        return np.full(len(seen), self.every)


class Fix1h(FixedInterval):
    """Refresh every feed once an hour: u = 1 h.

    >>> one = np.ones(1)
    >>> strategy = Fix1h(1)
    >>> strategy.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 100 * one, one, one, one > 1))
    >>> strategy.due.tolist()  # 100 + 3600
    [3700.0]
    """

    name = "fix_1h"
    every = HOUR


class Fix1d(FixedInterval):
    """Refresh every feed once a day: u = 24 h.

    >>> one = np.ones(1)
    >>> strategy = Fix1d(1, scale=0.5)
    >>> strategy.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 0 * one, one, one, one > 1))
    >>> strategy.due.tolist()  # half a day
    [43200.0]
    """

    name = "fix_1d"
    every = DAY


class PredictedInterval(IntervalStrategy):
    """Refresh a feed when its estimator expects one new item (Urbansky et al., section 3)."""

    shortest, longest = SHORTEST, LONGEST
    monotone = True
    estimator: Estimator

    def __init__(self, feeds: int = 0, *, estimator: Estimator, scale: float = 1.0) -> None:
        super().__init__(feeds, scale=scale)
        self.estimator = self.adopt("estimator", estimator)

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        self.estimator.observe(seen.rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)
        return self.estimator.time_until(seen.rows, seen.end, 1.0, LONGEST)


class FixLearned(PredictedInterval):
    """Refresh after u = the mean gap of the first window, else 1 h (Urbansky et al., “Fix Learned”, eq. 1).

    >>> from headwater.arrays import Ragged
    >>> one, s = np.ones(1), FixLearned(1)
    >>> dates = Ragged(np.array([0, 3]), np.array([0.0, 100.0, 600.0]))
    >>> s.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 600 * one, 3 * one, 3 * one, one > 1, dates))
    >>> s.due.round().tolist()  # 600 + 600/2
    [900.0]
    """

    name = "fix_learned"

    def __init__(self, feeds: int = 0, *, scale: float = 1.0) -> None:
        super().__init__(feeds, estimator=LearnedOnce(), scale=scale)


class MovingAverageInterval(PredictedInterval):
    """Refresh after u = the mean gap of the last w items, with a virtual item at an empty poll (eq. 1–2).

    w is the number of items that the feed's document shows; `window` fixes one w for all feeds instead.

    >>> from headwater.arrays import Ragged
    >>> one, s, table, row = np.ones(1), MovingAverageInterval(1), Table.of(1), np.array([0])
    >>> dates = Ragged(np.array([0, 3]), np.array([0.0, 500.0, 1000.0]))
    >>> s.observe(table, Observed(row, -np.inf * one, 1000 * one, 3 * one, 3 * one, one > 1, dates))
    >>> s.observe(table, Observed(row, 1000 * one, 2000 * one, 0 * one, 3 * one, one > 1))
    >>> s.due.round().tolist()  # 2000 + (500 − 500/2 + 1000/2)
    [2750.0]
    """

    name = "moving_average"
    estimator: MovingAverage

    def __init__(self, feeds: int = 0, *, window: int | None = None, scale: float = 1.0) -> None:
        super().__init__(feeds, estimator=MovingAverage(window=window), scale=scale)

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        self.estimator.set_windows(seen.rows, seen.window)
        return super().next_interval(table, seen)


class PostRateInterval(PredictedInterval):
    """Refresh after u = t_goal − t_now, where Σ postRate(t) ≥ 1 (Urbansky et al., eq. 3).

    >>> one, s = np.ones(1), PostRateInterval(1)  # starts with one item a day
    >>> s.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 0 * one, one, one, one > 1))
    >>> s.due.round(-1).tolist()
    [86400.0]
    """

    name = "post_rate"

    def __init__(self, feeds: int = 0, *, slots: int = 1440, scale: float = 1.0) -> None:
        super().__init__(feeds, estimator=PostRate(slots=slots), scale=scale)
