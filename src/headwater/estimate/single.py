"""One rate per feed, exponentially smoothed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.estimate.base import Bools, Column, Floats, Ragged, Rows
from headwater.estimate.learner import LEAST_RATE, PRIOR_RATE, FirstRefreshEstimator


class SingleRate(FirstRefreshEstimator):
    """λ ← α·x/Δt + (1 − α)·λ (Horincar's thesis, eq. 7.2); Div_est = λ·(t − T_r).

    A window that came back all new is taken at its face value, as the thesis does: x is then too small, and
    `likelihood` is the estimator that knows it.

    >>> e = SingleRate(1, alpha=0.5, rate=2.0)
    >>> row = np.array([0])
    >>> e.observe(row, np.array([0.0]), np.array([10.0]), np.array([40.0]), np.array([False]))
    >>> e.expected(row, np.array([10.0]), np.array([11.0])).tolist()  # halfway between 2 and 40/10
    [3.0]
    """

    name = "single"

    def __init__(
        self, feeds: int = 0, *, alpha: float = 0.1, rate: float = PRIOR_RATE, least: float = LEAST_RATE
    ) -> None:
        self.alpha, self._prior, self._least = alpha, rate, least
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {"rate": Column(self._prior)}

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        known = ~np.isnan(rate)
        self._columns["rate"][rows[known]] = np.maximum(rate[known], self._least)

    def learn(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None,
        alpha: Floats | float | None = None,
    ) -> None:
        a = self.alpha if alpha is None else alpha
        rate = a * new / (end - start) + (1 - a) * self._columns["rate"][rows]
        self._columns["rate"][rows] = np.maximum(rate, self._least)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self._columns["rate"][rows] * np.maximum(end - start, 0.0)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(self._columns["rate"][rows] * np.maximum(end - start, 0.0) ** 2 / 2)
