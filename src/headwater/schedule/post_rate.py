"""Due when the minutes of the day add up to one expected item."""

from __future__ import annotations

from headwater.estimate.post_rate import PostRate as Minutes
from headwater.schedule.predicted import PredictedInterval


class PostRateInterval(PredictedInterval):
    """u = t_goal − t_now with Σ postRate(t) ≥ 1 (Urbansky et al., eq. 3), within [2 min, 31 d].

    >>> import numpy as np
    >>> from headwater.schedule.base import Observed, Table
    >>> one, s = np.ones(1), PostRateInterval(1)  # starts with one item a day
    >>> s.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 0 * one, one, one, one > 1))
    >>> s.due.round(-1).tolist()
    [86400.0]
    """

    name = "post_rate"

    def __init__(self, feeds: int = 0, *, slots: int = 1440, scale: float = 1.0) -> None:
        super().__init__(feeds, estimator=Minutes(slots=slots), scale=scale)
