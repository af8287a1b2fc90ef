"""StormCrawler's adaptive rule, as Common Crawl's news crawler uses it."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, HOUR, MINUTE, Column, Floats
from headwater.schedule.base import IntervalStrategy, Observed, Table


class StormCrawler(IntervalStrategy):
    """Interval × 1.5 when nothing changed, × 0.8 when something did, within [90 min, 90 d], 12 h to begin with.

    >>> one, s = np.ones(1), StormCrawler(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 0 * one, 0 * one, one, one > 1))
    >>> (s.due / 3600).tolist()
    [18.0]
    """

    name = "stormcrawler"

    def layout(self) -> dict[str, Column]:
        return {**super().layout(), "pause": Column(12 * HOUR)}

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        pause = self._columns["pause"][seen.rows].astype(np.float64)
        factor = np.where(np.isfinite(seen.start), np.where(seen.new > 0, 0.8, 1.5), 1.0)
        pause = np.clip(pause * factor, 90 * MINUTE, 90 * DAY)
        self._columns["pause"][seen.rows] = pause
        return pause
