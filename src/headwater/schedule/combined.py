"""Refreshes in proportion to the root of rate and weight, each at the best moments of the feed's day."""

from __future__ import annotations

from headwater.estimate.base import Floats
from headwater.schedule.frequencies import allocate_for_delay
from headwater.schedule.scheduled import RetrievalScheduleStrategy


class Combined(RetrievalScheduleStrategy):
    """m_i = k·√(w_i·λ_i) at the times of Theorems 2 and 3 (Sia & Cho, “combined”).

    >>> import numpy as np
    >>> Combined().frequencies(np.array([1.0, 9.0]), np.ones(2), 4.0).tolist()
    [1.0, 3.0]
    """

    name = "combined"
    fair = True
    monotone = True

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return allocate_for_delay(rates, weights, total)
