"""The rule of lemon24's reader: the next point of a fixed grid."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import HOUR, Floats
from headwater.schedule.base import IntervalStrategy, Observed, Table
from headwater.schedule.bounds import LONGEST
from headwater.schedule.miniflux import read_hints


class LemonReader(IntervalStrategy):
    """The next full `grid` (60 min) after the refresh, later if the server said so, at most 31 d (lemon24/reader).

    `scale` stretches the grid itself.

    >>> one, s = np.ones(1), LemonReader(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 5000 * one, one, one, one > 1))
    >>> s.due.tolist()
    [7200.0]
    """

    name = "reader"
    monotone = True

    def __init__(self, feeds: int = 0, *, grid: float = HOUR, scale: float = 1.0) -> None:
        self.grid = grid
        super().__init__(feeds, scale=scale)

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        step = self.grid * self.scale
        earliest = seen.end + np.minimum(read_hints(seen), LONGEST)
        point = (np.floor(earliest / step) + 1) * step
        return (point - seen.end) / self.scale  # `observe` multiplies it back
