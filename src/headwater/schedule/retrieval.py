"""Every feed equally often, each at the best moments of its day."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Floats
from headwater.schedule.scheduled import RetrievalScheduleStrategy


class Retrieval(RetrievalScheduleStrategy):
    """m_i = M/n for all, at the times of Theorems 2 and 3 (Sia & Cho, “retrieval scheduling only”).

    >>> Retrieval().frequencies(np.array([1.0, 9.0]), np.ones(2), 4.0).tolist()
    [2.0, 2.0]
    """

    name = "retrieval"
    fair = True
    monotone = True

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return np.full(len(rates), total / max(len(rates), 1))
