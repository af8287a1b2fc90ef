"""CommaFeed's rule: half the mean gap of the document, less often the longer it is silent."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, HOUR, MINUTE, Column, Floats, Rows
from headwater.estimate.learned_once import compute_mean_gap
from headwater.schedule.base import IntervalStrategy, Observed, Table

COMMAFEED_SHORTEST, COMMAFEED_LONGEST = 5 * MINUTE, 4 * HOUR


class CommaFeed(IntervalStrategy):
    """Last publication ≥ 30 d ago or unknown: 4 h; ≥ 14 d: 2 h; ≥ 7 d: 1 h; else clamp(mean gap/2, 5 min, 1 h).

    After the k-th failure in a row: 5 min if k < 3, else (k − 2) hours, at most 4.

    >>> from headwater.estimate.base import Ragged
    >>> one, s = np.ones(1), CommaFeed(1)
    >>> shown = Ragged(np.array([0, 3]), np.array([0.0, 1200.0, 2400.0]))
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 2400 * one, 3 * one, 3 * one, one > 1, shown=shown))
    >>> s.due.tolist()  # 2400 + 1200/2
    [3000.0]
    """

    name = "commafeed"
    needs_shown = True

    def layout(self) -> dict[str, Column]:
        return {**super().layout(), "newest": Column(-np.inf, dtype=np.float64)}

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        newest = self._columns["newest"][seen.rows]
        for dates in (seen.published, seen.shown):
            if dates is not None:
                some = dates.counts > 0
                newest[some] = np.maximum(newest[some], dates.times[dates.offsets[1:][some] - 1])
        self._columns["newest"][seen.rows] = newest
        silent = seen.end - newest
        gap = compute_mean_gap(seen.shown, len(seen))
        pause = np.where(
            np.isnan(gap), COMMAFEED_LONGEST / 4, np.clip(gap / 2, COMMAFEED_SHORTEST, COMMAFEED_LONGEST / 4)
        )
        pause[silent >= 7 * DAY] = COMMAFEED_LONGEST / 4
        pause[silent >= 14 * DAY] = COMMAFEED_LONGEST / 2
        pause[silent >= 30 * DAY] = COMMAFEED_LONGEST
        return pause

    def observe_failures(self, table: Table, rows: Rows, at: Floats, failures: Rows) -> None:
        pause = np.where(failures < 3, COMMAFEED_SHORTEST, np.minimum(HOUR * (failures - 2), COMMAFEED_LONGEST))
        self.due[rows] = at + pause * self.scale
