"""A rate per slot of the day or week, exponentially smoothed."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, Bools, Floats, Ragged, Rows
from headwater.estimate.learner import LEAST_RATE, PRIOR_RATE, FirstRefreshEstimator
from headwater.estimate.slots import SlotEstimator, iterate_blocks


class PeriodicRate(SlotEstimator, FirstRefreshEstimator):
    """λ_j ← α·(λ_j / Div_est)·x + (1 − α)·λ_j for every slot j touched (Horincar's thesis, eq. 7.3).

    The x new items are spread over the interval in proportion to what was expected of its slots, so a count is enough;
    dates are not needed. `slots=24` and a day is the thesis's setting, `slots=168, period=WEEK` a week of hours.

    >>> e = PeriodicRate(1, slots=2, period=20.0, alpha=0.5, rate=1.0)  # two slots of 10 s, one item a second
    >>> row = np.array([0])
    >>> e.observe(row, np.array([0.0]), np.array([10.0]), np.array([30.0]), np.array([False]))
    >>> e.per_slot(row).tolist()  # the first slot goes halfway from 10 to 30, the second was not touched
    [[20.0, 10.0]]
    """

    name = "periodic"

    def __init__(
        self,
        feeds: int = 0,
        *,
        slots: int = 24,
        period: float = DAY,
        alpha: float = 0.1,
        rate: float = PRIOR_RATE,
        least: float = LEAST_RATE,
    ) -> None:
        self.alpha, self._least = alpha, least
        super().__init__(feeds, slots=slots, period=period, rate=rate)

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        known = ~np.isnan(rate)
        flat = np.maximum(rate[known], self._least)[:, None] * self.width
        self.set_slots(rows[known], np.repeat(flat, self.slots, axis=1))

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
        a = np.broadcast_to(np.asarray(self.alpha if alpha is None else alpha, np.float64), new.shape)
        ratio = new / np.maximum(self.expected(rows, start, end), 1e-12)
        factor = a * ratio + (1 - a)
        for part in iterate_blocks(len(rows)):
            items = self.per_slot(rows[part])
            touched = self.coverage(start[part], end[part]) > 0
            items = np.where(touched, items * factor[part, None], items)
            self.set_slots(rows[part], np.maximum(items, self._least * self.width))
