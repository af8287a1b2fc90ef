"""The last window's mean gap as interval, longer while nothing comes."""

from __future__ import annotations

from headwater.estimate.moving_average import MovingAverage as Gaps
from headwater.schedule.predicted import PredictedInterval


class MovingAverageInterval(PredictedInterval):
    """u = mean gap of the last window with a virtual item at an empty poll (Urbansky et al., eq. 1–2).

    >>> import numpy as np
    >>> from headwater.estimate.base import Ragged
    >>> from headwater.schedule.base import Observed, Table
    >>> one, s, table, row = np.ones(1), MovingAverageInterval(1), Table.of(1), np.array([0])
    >>> dates = Ragged(np.array([0, 3]), np.array([0.0, 500.0, 1000.0]))
    >>> s.observe(table, Observed(row, -np.inf * one, 1000 * one, 3 * one, 3 * one, one > 1, dates))
    >>> s.observe(table, Observed(row, 1000 * one, 2000 * one, 0 * one, 3 * one, one > 1))
    >>> s.due.round().tolist()  # 2000 + (500 − 500/2 + 1000/2)
    [2750.0]
    """

    name = "moving_average"

    def __init__(self, feeds: int = 0, *, window: int = 20, scale: float = 1.0) -> None:
        super().__init__(feeds, estimator=Gaps(window=window), scale=scale)
