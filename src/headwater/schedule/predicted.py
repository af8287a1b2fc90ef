"""Interval strategies that wait for the next item their estimator predicts."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Estimator, Floats, Rows
from headwater.schedule.base import Interval, Observed, Table
from headwater.schedule.bounds import LONGEST, SHORTEST


def until(estimator: Estimator, rows: Rows, at: Floats, items: float = 1.0, longest: float = LONGEST) -> Floats:
    """Seconds from `at` until `items` are expected, at most `longest`; found by halving, to the second.

    >>> from headwater.estimate.fixed import Fixed
    >>> float(until(Fixed(1, rate=0.01), np.array([0]), np.array([0.0]))[0].round(1))  # one item in 100 s
    100.0
    """
    low, high = np.zeros(len(rows)), np.full(len(rows), longest)
    for _ in range(32):
        middle = (low + high) / 2
        enough = estimator.expected(rows, at, at + middle) >= items
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


class Predicted(Interval):
    """Due when the estimator expects one new item, within [2 min, 31 d] (Urbansky et al., section 3)."""

    shortest, longest = SHORTEST, LONGEST
    monotone = True
    estimator: Estimator

    def __init__(self, feeds: int = 0, *, estimator: Estimator, scale: float = 1.0) -> None:
        super().__init__(feeds, scale=scale)
        self.estimator = self.adopt("estimator", estimator)

    def interval(self, table: Table, seen: Observed) -> Floats:
        self.estimator.observe(seen.rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)
        return until(self.estimator, seen.rows, seen.end)
