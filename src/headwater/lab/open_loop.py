"""The open loop: intervals in proportion to 1/√λ, every feed's true mean rate known; a yardstick with foresight."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, Floats
from headwater.lab.replay import ReplaySettings
from headwater.lab.traces import Trace
from headwater.schedule.base import IntervalStrategy, Observed, Table


class OpenLoopStrategy(IntervalStrategy):
    """T = 1 / √λ days, shortened where the window would overflow; it learns nothing and needs nothing."""

    name = "open_loop"

    def __init__(self, feeds: int = 0, *, scale: float = 1.0, intervals: Floats | None = None) -> None:
        self._every = np.full(feeds, DAY) if intervals is None else intervals
        super().__init__(feeds, scale=scale)

    @classmethod
    def from_trace(cls, trace: Trace, protocol: ReplaySettings) -> OpenLoopStrategy:
        """For the mean rates of the measured span."""
        _, measured, end = protocol.time_span(trace)
        counted = trace.item_feeds()[trace.times >= measured]
        # A feed that publishes nothing in the span would never be polled; half an item keeps it in the round.
        rate = np.maximum(np.bincount(counted, minlength=trace.feeds), 0.5) / ((end - measured) / DAY)
        return cls(trace.feeds, intervals=DAY / np.sqrt(rate))

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        return self._every[seen.rows]
