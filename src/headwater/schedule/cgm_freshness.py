"""The optimal freshness policy for web pages, as a comparator."""

from __future__ import annotations

from headwater.estimate.base import Floats
from headwater.schedule.allocating import AllocationStrategy
from headwater.schedule.frequencies import allocate_for_freshness


class CgmFreshness(AllocationStrategy):
    """Frequencies of greatest average freshness (Cho & Garcia-Molina 2003; CGM03(Freshness) in Sia & Cho, Table 2).

    It gives up feeds that publish too often, so it promises neither fairness nor that a busier feed gets more.

    >>> import numpy as np
    >>> CgmFreshness().frequencies(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5), 5.0).round(2).tolist()
    [1.15, 1.36, 1.35, 1.14, 0.0]
    """

    name = "cgm_freshness"

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return allocate_for_freshness(rates, weights, total)
