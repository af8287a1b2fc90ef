"""Posting rates by minute or hour of the day: `post_rate` (Urbansky et al.) and `hourly` (advaRSS)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows, iterate_blocks
from headwater.estimate.estimator import PRIOR_RATE, FirstRefreshEstimator, spread_undated_items
from headwater.estimate.feed_columns import Column
from headwater.estimate.slot_rates import SlotEstimator
from headwater.times import DAY, HOUR


class HourlyRate(SlotEstimator, FirstRefreshEstimator):
    """Expect articles(now) = ∫ posting_rate(t)/3600 dt since the last retrieval (advaRSS, eq. 1).

    Every feed and hour starts with the same constant, which the dates in the first document replace; a minimum above 0
    keeps silent feeds alive. The paper does not say how new articles change the rates. Here the rate of each hour moves
    by α towards the rate observed in it, by less if only a part of the hour was observed. Articles without a date are
    spread evenly over the interval.

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
            # A date at the edge may fall into an hour that was hardly covered: count it over at least a minute.
            seen = counts / np.maximum(hours, 1 / 60)
            weight = 1 - (1 - self.alpha) ** np.maximum(hours, np.where(counts > 0, 1 / 60, 0.0))
            old = self.per_slot(rows[part])
            self.set_slots(rows[part], np.maximum(old + weight * (seen - old), self._least))


class PostRate(SlotEstimator, FirstRefreshEstimator):
    """Expect newItems(t_goal) = Σ postRate(t), one slot per minute of the day (Urbansky et al., eq. 3).

    The rate of a slot is the number of items ever posted in that minute, divided by the days observed. Items without a
    date are spread evenly over their interval.

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
        some = np.flatnonzero(came.counts)  # rewrite 1440 slots only for rows with items
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
