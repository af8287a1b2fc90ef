"""The optimal age policy for web pages, as a comparator."""

from __future__ import annotations

from headwater.estimate.base import Floats
from headwater.schedule.allocating import AllocationStrategy
from headwater.schedule.frequencies import allocate_for_age


class CgmAge(AllocationStrategy):
    """Frequencies of least average age (Cho & Garcia-Molina 2003; CGM03(Age) in Sia & Cho, Table 2), evenly spaced.

    >>> import numpy as np
    >>> CgmAge().frequencies(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5), 5.0).round(3).tolist()
    [0.835, 0.968, 1.034, 1.071, 1.093]
    """

    name = "cgm_age"
    fair = True
    monotone = True

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return allocate_for_age(rates, weights, total)
