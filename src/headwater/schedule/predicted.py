"""Interval strategies that wait for the next item their estimator predicts."""

from __future__ import annotations

from headwater.estimate.base import Estimator, Floats
from headwater.schedule.base import IntervalStrategy, Observed, Table
from headwater.schedule.bounds import LONGEST, SHORTEST


class PredictedInterval(IntervalStrategy):
    """Due when the estimator expects one new item, within [2 min, 31 d] (Urbansky et al., section 3)."""

    shortest, longest = SHORTEST, LONGEST
    monotone = True
    estimator: Estimator

    def __init__(self, feeds: int = 0, *, estimator: Estimator, scale: float = 1.0) -> None:
        super().__init__(feeds, scale=scale)
        self.estimator = self.adopt("estimator", estimator)

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        self.estimator.observe(seen.rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)
        return self.estimator.time_until(seen.rows, seen.end, 1.0, LONGEST)
