"""Refreshes in proportion to the root of rate and weight, at even intervals."""

from __future__ import annotations

from headwater.estimate.base import Floats
from headwater.schedule.allocating import AllocationStrategy
from headwater.schedule.frequencies import allocate_for_delay


class Allocation(AllocationStrategy):
    """m_i = k·√(w_i·λ_i) (Sia & Cho, Theorem 1; “resource allocation only”), evenly spaced.

    >>> import numpy as np
    >>> from headwater.estimate.fixed import Fixed
    >>> from headwater.schedule.base import Budget, Table
    >>> rates = Fixed(2)
    >>> rates.believe(np.arange(2), np.array([0.01, 0.04]))
    >>> s, table = Allocation(2, estimator=rates), Table.of(2)
    >>> table.last[:] = 0.0
    >>> s.choose(table, 16.0, Budget(9, rate=0.1)).rows.tolist()  # 1 : 2 of .1 a second: every 30 s and every 15 s
    [1]
    """

    name = "allocation"
    fair = True
    monotone = True

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return allocate_for_delay(rates, weights, total)
