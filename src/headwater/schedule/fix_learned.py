"""The first window's mean gap as interval, for ever."""

from __future__ import annotations

from headwater.estimate.learned_once import LearnedOnce
from headwater.schedule.predicted import PredictedInterval


class FixLearned(PredictedInterval):
    """u = mean gap of the first window (Urbansky et al., “Fix Learned”, eq. 1), within [2 min, 31 d]; else 1 h.

    >>> import numpy as np
    >>> from headwater.estimate.base import Ragged
    >>> from headwater.schedule.base import Observed, Table
    >>> one, s = np.ones(1), FixLearned(1)
    >>> dates = Ragged(np.array([0, 3]), np.array([0.0, 100.0, 600.0]))
    >>> s.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 600 * one, 3 * one, 3 * one, one > 1, dates))
    >>> s.due.round().tolist()  # 600 + 600/2
    [900.0]
    """

    name = "fix_learned"

    def __init__(self, feeds: int = 0, *, scale: float = 1.0) -> None:
        super().__init__(feeds, estimator=LearnedOnce(), scale=scale)
