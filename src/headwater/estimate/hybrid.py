"""Whichever of two models erred less at the last refresh."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.estimate.base import DAY, Bools, Column, Floats, Ragged, Rows
from headwater.estimate.learner import PRIOR_RATE, FirstRefreshEstimator
from headwater.estimate.periodic import PeriodicRate
from headwater.estimate.single import SingleRate


class HybridRate(FirstRefreshEstimator):
    """`single` or `periodic`, per feed, whichever had the smaller |x − Div_est| at its last refresh (thesis 7.2.3).

    Both learn from every refresh; only the answer switches.

    >>> e, row, no = HybridRate(1, alpha=1.0, slots=2, period=20.0, rate=1.0), np.array([0]), np.array([False])
    >>> for start, new in ((0.0, 30.0), (10.0, 10.0), (20.0, 30.0)):  # three a second, one, three: a pattern
    ...     e.observe(row, np.array([start]), np.array([start + 10]), np.array([new]), no)
    >>> e.expected(row, np.array([30.0]), np.array([40.0])).tolist()  # single says 30, periodic 10: it was right
    [10.0]
    """

    name = "hybrid"

    def __init__(
        self, feeds: int = 0, *, alpha: float = 0.1, slots: int = 24, period: float = DAY, rate: float = PRIOR_RATE
    ) -> None:
        super().__init__(feeds)
        self._single: SingleRate = self.adopt("single", SingleRate(alpha=alpha, rate=rate))
        self._periodic: PeriodicRate = self.adopt(
            "periodic", PeriodicRate(alpha=alpha, slots=slots, period=period, rate=rate)
        )

    def layout(self) -> Mapping[str, Column]:
        return {"periodic_wins": Column(0, dtype=np.int8)}

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        self._single.learn_first(rows, end, rate, published)
        self._periodic.learn_first(rows, end, rate, published)

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        by_single = np.abs(new - self._single.expected(rows, start, end))
        by_periodic = np.abs(new - self._periodic.expected(rows, start, end))
        self._columns["periodic_wins"][rows] = by_periodic < by_single
        self._single.learn(rows, start, end, new, saturated, published)
        self._periodic.learn(rows, start, end, new, saturated, published)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        periodic = self._columns["periodic_wins"][rows] == 1
        return np.where(periodic, self._periodic.expected(rows, start, end), self._single.expected(rows, start, end))

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        periodic = self._columns["periodic_wins"][rows] == 1
        answer = self._single.delay(rows, start, end)
        answer[periodic] = self._periodic.delay(rows[periodic], start[periodic], end[periodic])
        return answer
