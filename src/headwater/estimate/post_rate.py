"""A histogram of the minutes of the day at which a feed posts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.estimate.base import DAY, Bools, Column, Floats, Ragged, Rows
from headwater.estimate.learner import PRIOR_RATE, FirstRefreshEstimator, spread_undated_items
from headwater.estimate.slots import SlotEstimator, iterate_blocks


class PostRate(SlotEstimator, FirstRefreshEstimator):
    """newItems(t_goal) = Σ postRate(t), one slot per minute of the day (Urbansky et al., eq. 3).

    A slot's rate is the number of items ever posted in that minute, divided by the days observed. Items without a
    date are spread evenly over the interval in which they came.

    >>> e, row = PostRate(1, slots=2, period=20.0, rate=0.05), np.array([0])
    >>> e.observe(row, np.array([0.0]), np.array([20.0]), np.array([3.0]), np.array([False]),
    ...           Ragged(np.array([0, 3]), np.array([1.0, 2.0, 3.0])))
    >>> e.expected(row, np.array([40.0]), np.array([50.0])).tolist()  # (½ + 3) items in two days
    [1.75]
    """

    name = "post_rate"

    def __init__(self, feeds: int = 0, *, slots: int = 1440, period: float = DAY, rate: float = PRIOR_RATE) -> None:
        super().__init__(feeds, slots=slots, period=period, rate=rate)

    def layout(self) -> Mapping[str, Column]:
        # The prior counts as one day observed at the prior rate.
        return {**super().layout(), "observed": Column(self.period)}

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        known = np.flatnonzero(~np.isnan(rate))
        if published is None or not len(known):
            return
        dates = published.take(known)
        oldest = dates.times[dates.offsets[:-1]]
        self._columns["observed"][rows[known]] = np.maximum(end[known] - oldest, self.period / 24)
        self._count_by_slot(rows[known], dates, fresh=True)

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        self._columns["observed"][rows] += end - start
        came = spread_undated_items(start, end, new, published)
        some = np.flatnonzero(came.counts)  # 1440 slots are rewritten only where something is to be added
        self._count_by_slot(rows[some], came.take(some), fresh=False)

    def _count_by_slot(self, rows: Rows, came: Ragged, fresh: bool) -> None:
        _, slot, _ = self.locate(came.times)
        owner = came.owner()
        for part in iterate_blocks(len(rows), 512):
            mine = slice(came.offsets[part.start], came.offsets[part.stop])
            at = (owner[mine] - part.start) * self.slots + slot[mine]
            counts = np.bincount(at, minlength=(part.stop - part.start) * self.slots).reshape(-1, self.slots)
            old = np.zeros(counts.shape) if fresh else self.per_slot(rows[part])
            self.set_slots(rows[part], old + counts)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return super().expected(rows, start, end) * (self.period / self._columns["observed"][rows])

    def time_until(self, rows: Rows, at: Floats, items: float, longest: float) -> Floats:
        days = self._columns["observed"][rows].astype(np.float64) / self.period
        return np.minimum(self._find_time_until(rows, at, items * days), longest)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return super().delay(rows, start, end) * (self.period / self._columns["observed"][rows])
