"""Uses a posting rate that it is given."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows
from headwater.estimate.estimator import PRIOR_RATE, Estimator
from headwater.estimate.feed_columns import Column


class FixedRate(Estimator):
    """Expect items at a constant rate λ per feed: expected(a, b) = λ·(b − a).

    The baseline for every estimator that learns; the lab also uses it where the true rates are known.

    >>> e = FixedRate(1, rate=2.0)
    >>> e.expected(np.array([0]), np.array([10.0]), np.array([15.0])).tolist()  # 5 s at 2 a second
    [10.0]
    """

    name = "fixed"

    def __init__(self, feeds: int = 0, *, rate: float = PRIOR_RATE) -> None:
        self._prior = rate
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {"rate": Column(self._prior)}

    def set_rates(self, rows: Rows, rates: Floats) -> None:
        """Set the rates of some feeds."""
        self._columns["rate"][rows] = rates

    def observe(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None = None
    ) -> None:
        pass

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return self._columns["rate"][rows] * np.maximum(end - start, 0.0)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """Return λ(b − a)²/2 (Sia & Cho, Corollary 1)."""
        return np.asarray(self._columns["rate"][rows] * np.maximum(end - start, 0.0) ** 2 / 2)
