"""Sia & Cho: a feed's own rate × the daily pattern of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows, iterate_blocks
from headwater.estimate.clustering import assign_nearest, kmeans
from headwater.estimate.estimator import MIN_RATE, PRIOR_RATE, FirstRefreshEstimator, spread_undated_items
from headwater.estimate.feed_columns import Column
from headwater.estimate.slot_rates import running_items
from headwater.times import DAY, HOUR

FLAT = np.full(24, 1 / 24)
ENOUGH_ITEMS = 10.0  # a feed with fewer keeps the flat pattern


class ClusterPattern(FirstRefreshEstimator):
    """Expect λ(t) = rate × 24·share(hour) (Sia & Cho, 4.2–4.3): K-means over 24-hour histograms, K = 12.

    Counts fade with a time constant of 14 days, the paper's estimation window. Until `recluster` is called (once a day)
    every feed has the flat pattern. A feed with few items keeps the flat pattern.

    >>> e, row = ClusterPattern(1, rate=24 / DAY), np.array([0])
    >>> e.expected(row, np.array([0.0]), np.array([HOUR])).round(3).tolist()  # 24 a day, one an hour
    [1.0]
    """

    name = "pattern"

    def __init__(
        self,
        feeds: int = 0,
        *,
        clusters: int = 12,
        memory: float = 14 * DAY,
        rate: float = PRIOR_RATE,
        enough: float = ENOUGH_ITEMS,
    ) -> None:
        self.clusters, self.memory, self._prior, self._enough = clusters, memory, rate, enough
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        # The prior counts as one day observed at the prior rate.
        return {
            "counts": Column(self._prior * HOUR, (24,)),
            "seen": Column(DAY),
            "cluster": Column(0, dtype=np.int16),
        }

    def shared(self) -> Mapping[str, Any]:
        return {"shapes": np.tile(FLAT, (self.clusters + 1, 1))}  # line 0 stays flat

    @property
    def shapes(self) -> Floats:
        """The share of a day's items in each hour, one line per cluster; line 0 is flat."""
        return self._shared["shapes"]

    def cluster(self, rows: Rows) -> Rows:
        return self._columns["cluster"][rows].astype(np.intp)

    def daily_rate(self, rows: Rows, at: Floats) -> Floats:
        counts = self._columns["counts"][rows].sum(axis=1, dtype=np.float64)
        return np.asarray(np.maximum(counts / self._columns["seen"][rows], MIN_RATE))

    def recluster(self) -> None:
        """Compute the daily patterns again and give every feed the nearest one."""
        totals = self._columns["counts"].sum(axis=1)
        rows = np.flatnonzero(totals >= self._enough)
        self._columns["cluster"][:] = 0
        if len(rows) < 2:
            return
        # A sample is enough for twelve shapes; every feed then gets the nearest.
        sample = rows if len(rows) <= 50_000 else rows[:: len(rows) // 50_000 + 1]
        centres, _ = kmeans(self._hour_shares(sample), self.clusters)
        self._shared["shapes"][1:] = FLAT
        self._shared["shapes"][1 : len(centres) + 1] = centres
        for part in iterate_blocks(len(rows), 65_536):
            self._columns["cluster"][rows[part]] = assign_nearest(self._hour_shares(rows[part]), centres) + 1

    def _hour_shares(self, rows: Rows) -> Floats:
        counts = self._columns["counts"][rows].astype(np.float64)
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        known = np.flatnonzero(~np.isnan(rate))
        if published is None or not len(known):
            return
        dates = published.take(known)
        # The first date only opens the interval and does not count.
        self._columns["seen"][rows[known]] = np.maximum(end[known] - dates.times[dates.offsets[:-1]], HOUR)
        counts = self._count_by_hour(dates, len(known))
        scale = (dates.counts - 1) / np.maximum(dates.counts, 1)
        self._columns["counts"][rows[known]] = counts * scale[:, None]

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        kept = np.exp(-(end - start) / self.memory)
        counts = self._count_by_hour(spread_undated_items(start, end, new, published), len(rows))
        self._columns["counts"][rows] = self._columns["counts"][rows] * kept[:, None] + counts
        self._columns["seen"][rows] = self._columns["seen"][rows] * kept + (end - start)

    def _count_by_hour(self, came: Ragged, lines: int) -> Floats:
        hour = np.floor(np.mod(came.times, DAY) / HOUR).astype(np.intp)
        at = came.owner() * 24 + np.minimum(hour, 23)
        return np.bincount(at, minlength=lines * 24).reshape(lines, 24).astype(np.float64)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        upto = np.cumsum(self.shapes, axis=1)
        line = self.cluster(rows)
        share = running_items(upto, line, DAY, end) - running_items(upto, line, DAY, start)
        return np.maximum(share, 0.0) * self.daily_rate(rows, start) * DAY
