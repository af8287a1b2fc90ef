"""Bright, Gal & Raschid: an interval that is a share of the age of the last change."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats
from headwater.estimate.feed_columns import Column
from headwater.schedule.strategies.learned_interval import LONGEST, SHORTEST
from headwater.schedule.strategy import IntervalStrategy, Observed, Table


class AdaptiveTTL(IntervalStrategy):
    """Refresh after TTL = share·(now − last change), within [2 min, 31 d] (compared by Bright, Gal & Raschid 2006).

    A feed that has not changed for long will probably not change soon. Web caches know the rule as the Alex protocol.

    >>> one, s = np.ones(1), AdaptiveTTL(1, share=0.2)
    >>> from headwater.arrays import Ragged
    >>> dates = Ragged(np.array([0, 1]), np.array([0.0]))
    >>> s.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 5000 * one, one, one, one > 1, dates))
    >>> s.due.tolist()  # 5000 + .2·5000
    [6000.0]
    """

    name = "adaptive_ttl"
    shortest, longest = SHORTEST, LONGEST

    def __init__(self, feeds: int = 0, *, share: float = 0.2, scale: float = 1.0) -> None:
        self.share = share
        super().__init__(feeds, scale=scale)

    def layout(self) -> dict[str, Column]:
        return {**super().layout(), "changed": Column(np.nan, dtype=np.float64)}

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        changed = np.where(seen.new > 0, seen.end, self._columns["changed"][seen.rows])
        if seen.published is not None:
            some = seen.published.counts > 0
            changed[some] = np.minimum(seen.published.times[seen.published.offsets[1:][some] - 1], seen.end[some])
        self._columns["changed"][seen.rows] = changed
        # A feed that never changed is as old as its first refresh, at least an hour.
        known = np.where(np.isnan(changed), np.fmin(seen.start, seen.end - 3600.0), changed)
        return self.share * (seen.end - np.where(np.isfinite(known), known, seen.end - 3600.0))
