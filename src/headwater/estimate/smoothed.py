"""A smoothing constant that each feed finds for itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.errors import SettingsError
from headwater.estimate.base import DAY, Bools, Column, Floats, Ragged, Rows
from headwater.estimate.learner import PRIOR_RATE, FirstRefreshEstimator
from headwater.estimate.periodic import PeriodicRate
from headwater.estimate.single import SingleRate


class AdaptiveSmoothing(FirstRefreshEstimator):
    """`single` or `periodic` with α moved by the stability ratio of its errors (thesis 7.2.4).

    ratio = mean of the last n1 errors / mean of the last n2; at most 1 is stable and α shrinks by `shrink`, above 1 it
    grows by `grow`, within [lowest, highest]. An error is |x − Div_est| of one refresh.

    >>> e, row = AdaptiveSmoothing(1, alpha=0.2, n1=1, n2=2, shrink=0.5, grow=2.0, rate=1.0), np.array([0])
    >>> no = np.array([False])
    >>> for new in (14.0, 50.0):  # expected are 10, then 10.8: the error jumps from 4 to 39.2
    ...     e.observe(row, np.array([0.0]), np.array([10.0]), np.array([new]), no)
    >>> e.alpha(row).round(3).tolist()  # 4/4 ≤ 1: halved to .1; then 39.2/21.6 > 1: doubled
    [0.2]
    """

    name = "smoothed"

    def __init__(
        self,
        feeds: int = 0,
        *,
        inner: str = "single",
        alpha: float = 0.1,
        lowest: float = 0.02,
        highest: float = 0.5,
        n1: int = 3,
        n2: int = 10,
        shrink: float = 0.95,
        grow: float = 1.1,
        slots: int = 24,
        period: float = DAY,
        rate: float = PRIOR_RATE,
    ) -> None:
        if not 0 < n1 < n2:
            raise SettingsError(f"The stability ratio needs n1 < n2, got n1 = {n1} and n2 = {n2}.")
        if inner not in ("single", "periodic"):
            raise SettingsError(f"Smoothing controls single or periodic, not “{inner}”.")
        self._start, self._bounds, self._factors = alpha, (lowest, highest), (shrink, grow)
        self.n1, self.n2 = n1, n2
        super().__init__(feeds)
        model = SingleRate(rate=rate) if inner == "single" else PeriodicRate(slots=slots, period=period, rate=rate)
        self._model: SingleRate | PeriodicRate = self.adopt("model", model)

    def layout(self) -> Mapping[str, Column]:
        return {"alpha": Column(self._start), "errors": Column(np.nan, (self.n2,))}

    def alpha(self, rows: Rows) -> Floats:
        return self._columns["alpha"][rows].astype(np.float64)

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        self._model.learn_first(rows, end, rate, published)

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        wrong = np.abs(new - self._model.expected(rows, start, end))
        errors = np.column_stack([self._columns["errors"][rows][:, 1:], wrong])
        self._columns["errors"][rows] = errors
        self._model.learn(rows, start, end, new, saturated, published, alpha=self.alpha(rows))
        known = ~np.isnan(errors)
        enough = known[:, -self.n1 :].all(axis=1)
        past = np.where(known, errors, 0.0).sum(axis=1) / known.sum(axis=1)
        recent = errors[enough, -self.n1 :].mean(axis=1)
        stable = recent <= past[enough] * (1 + 1e-6)
        shrink, grow = self._factors
        moved = self.alpha(rows[enough]) * np.where(stable, shrink, grow)
        self._columns["alpha"][rows[enough]] = np.clip(moved, *self._bounds)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self._model.expected(rows, start, end)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self._model.delay(rows, start, end)
