"""FreshRSS's rule: a fixed hour, and nothing before the cache expires."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, HOUR, MINUTE, Floats
from headwater.schedule.base import IntervalStrategy, Observed, Table
from headwater.schedule.miniflux import read_hints


class FreshRSS(IntervalStrategy):
    """Due after `ttl` (1 h, at least 15 min), oldest first; not before the cache expiry, kept within [800 s, 24 h].

    >>> one, s = np.ones(1), FreshRSS(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 0 * one, one, one, one > 1, hint=1e9 * one))
    >>> s.due.tolist()  # whatever the server asks, a day at most
    [86400.0]
    """

    name = "freshrss"
    monotone = True

    def __init__(self, feeds: int = 0, *, ttl: float = HOUR, scale: float = 1.0) -> None:
        self.ttl = max(ttl, 15 * MINUTE)
        super().__init__(feeds, scale=scale)

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        asked = read_hints(seen)
        return np.maximum(self.ttl, np.where(asked > 0, np.clip(asked, 800.0, DAY), 0.0))
