"""Twenty-four hourly posting rates."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, HOUR, Bools, Floats, Ragged, Rows
from headwater.estimate.learner import FirstRefreshEstimator, spread_undated_items
from headwater.estimate.slots import SlotEstimator, iterate_blocks


class HourlyRate(SlotEstimator, FirstRefreshEstimator):
    """articles(now) = ∫ posting_rate(t)/3600 dt since the last retrieval (advaRSS, eq. 1).

    Starts with the same constant for every feed and hour; a minimum above nought keeps silent feeds alive. The paper
    does not say how new articles change the rates: here each hour's rate moves by α towards what was seen in it, by
    less if only a part of the hour was seen. Articles without a date are spread evenly over the interval.

    >>> e, row = HourlyRate(1, initial=2.0), np.array([0])  # two an hour
    >>> e.expected(row, np.array([1800.0]), np.array([5400.0])).round(4).tolist()  # 00:30 to 01:30
    [2.0]
    """

    name = "hourly"

    def __init__(self, feeds: int = 0, *, initial: float = 1 / 24, alpha: float = 0.1, least: float = 1 / 1000) -> None:
        self.alpha, self._least = alpha, least
        super().__init__(feeds, slots=24, period=DAY, rate=initial / HOUR)

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        known = ~np.isnan(rate)
        flat = np.maximum(rate[known] * HOUR, self._least)[:, None]
        self.set_slots(rows[known], np.repeat(flat, self.slots, axis=1))

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        came = spread_undated_items(start, end, new, published)
        _, slot, _ = self.locate(came.times)
        owner = came.owner()
        for part in iterate_blocks(len(rows)):
            mine = slice(came.offsets[part.start], came.offsets[part.stop])
            at = (owner[mine] - part.start) * 24 + slot[mine]
            counts = np.bincount(at, minlength=(part.stop - part.start) * 24).reshape(-1, 24)
            hours = self.coverage(start[part], end[part]) / HOUR
            # A date at the very edge may fall into an hour that was hardly covered: count it over a minute at least.
            seen = counts / np.maximum(hours, 1 / 60)
            weight = 1 - (1 - self.alpha) ** np.maximum(hours, np.where(counts > 0, 1 / 60, 0.0))
            old = self.per_slot(rows[part])
            self.set_slots(rows[part], np.maximum(old + weight * (seen - old), self._least))
