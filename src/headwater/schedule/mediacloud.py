"""Media Cloud's rule: by how much two documents in a row overlap."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, HOUR, MINUTE, Column, Floats
from headwater.schedule.base import IntervalStrategy, Observed, Table


class MediaCloud(IntervalStrategy):
    """Duplicates < 33 %: 60 min sooner; ≥ 67 %: 10 min later (60 more if silent for 31 d); within [10 min, 24 h].

    >>> one, s = np.ones(1), MediaCloud(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 0 * one, 9 * one, 10 * one, one > 1))
    >>> s.due.tolist()  # starts at twelve hours; one in ten is a duplicate: eleven
    [39600.0]
    """

    name = "mediacloud"
    first = 12 * HOUR

    def layout(self) -> dict[str, Column]:
        return {
            **super().layout(),
            "pause": Column(self.first),
            "changed": Column(np.nan, dtype=np.float64),
        }

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        pause = self._columns["pause"][seen.rows].astype(np.float64)
        overlap = 1 - np.where(seen.window > 0, np.minimum(seen.new / np.maximum(seen.window, 1.0), 1.0), 0.0)
        changed = np.where(
            (seen.new > 0) | np.isnan(self._columns["changed"][seen.rows]),
            seen.end,
            self._columns["changed"][seen.rows],
        )
        self._columns["changed"][seen.rows] = changed
        silent = seen.end - changed > 31 * DAY
        later = 10 * MINUTE + np.where(silent, HOUR, 0.0)
        first = ~np.isfinite(seen.start)  # the first document overlaps with nothing: that says nothing
        step = np.select(
            [first, overlap < 0.33, overlap >= 0.67], [np.zeros(len(seen)), np.full(len(seen), -HOUR), later], 0.0
        )
        pause = np.clip(pause + step, 10 * MINUTE, DAY)
        self._columns["pause"][seen.rows] = pause
        return np.asarray(pause)
