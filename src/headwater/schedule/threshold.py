"""The refresh threshold τ, which finds by itself the price at which the budget is just spent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

THRESHOLD_UP, THRESHOLD_DOWN, THRESHOLD_SHARE = 1.05, 0.95, 0.9


def adjust_threshold(tau: float, used: int, budget: int) -> float:
    """Horincar's thesis, alg. 4.2: τ·1.05 if more than b was used, τ·0.95 if less than p·b (p = .9), else τ.

    >>> adjust_threshold(1.0, 11, 10), adjust_threshold(1.0, 8, 10), adjust_threshold(1.0, 9, 10), adjust_threshold(1.0, 10, 10)
    (1.05, 0.95, 1.0, 1.0)
    """
    if used > budget:
        return tau * THRESHOLD_UP
    return tau * THRESHOLD_DOWN if used < THRESHOLD_SHARE * budget else tau


def store_threshold(cell: NDArray[np.float64], tau: float) -> None:
    """Write τ back, never so small that ×1.05 could not raise it again within a day's ticks."""
    cell[...] = min(max(tau, 1e-12), 1e30)
