"""Fixed intervals of one hour and one day."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from headwater.estimate.base import DAY, HOUR, Floats
from headwater.schedule.base import IntervalStrategy, Observed, Table
from headwater.schedule.bounds import LONGEST, SHORTEST


class FixedInterval(IntervalStrategy):
    """Every feed after the same time (Urbansky et al., 3.1), within [2 min, 31 d]."""

    every: ClassVar[float]
    shortest, longest = SHORTEST, LONGEST
    monotone = True

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        return np.full(len(seen), self.every)


class Fix1h(FixedInterval):
    """Every feed once an hour: u = 1 h.

    >>> one = np.ones(1)
    >>> strategy = Fix1h(1)
    >>> strategy.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 100 * one, one, one, one > 1))
    >>> strategy.due.tolist()  # 100 + 3600
    [3700.0]
    """

    name = "fix_1h"
    every = HOUR


class Fix1d(FixedInterval):
    """Every feed once a day: u = 24 h.

    >>> one = np.ones(1)
    >>> strategy = Fix1d(1, scale=0.5)
    >>> strategy.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 0 * one, one, one, one > 1))
    >>> strategy.due.tolist()  # half a day
    [43200.0]
    """

    name = "fix_1d"
    every = DAY
