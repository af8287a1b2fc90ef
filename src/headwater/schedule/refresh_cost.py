"""Turns the bytes and seconds that refreshes take into costs relative to an ordinary refresh.

The requests of a budget count alike. Where its bytes or the parallel fetches are the scarcer resource, a refresh costs
as much of that resource as it is expected to take: the Lagrangian of Sia & Cho's Theorem 1 with unequal costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats

LEARNING = 0.3  # weight of the latest refresh in a feed's means
LOWEST, HIGHEST = 0.05, 20.0  # of a cost: nothing is free, and one huge answer does not end a feed's refreshes
SLACK, SCARCE = 0.8, 1.2  # use of a resource at which costs begin to follow it, and at which they follow it wholly


@dataclass(frozen=True, slots=True)
class Pressure:
    """The use of bytes and of parallel fetches, as shares of what there is, if all requests were made."""

    bytes: float = 0.0
    seconds: float = 0.0

    @property
    def stretch(self) -> float:
        """The factor by which ordinary refreshes exceed what the scarcest resource allows; 1 if they fit."""
        return max(self.bytes, self.seconds, 1.0)


def update_means(mean: Floats, measured: Floats) -> Floats:
    """Return the learned means after another refresh of each feed; NaN stands for none yet.

    >>> update_means(np.array([np.nan, 100.0]), np.array([50.0, 200.0])).tolist()
    [50.0, 130.0]
    """
    return np.where(np.isnan(mean), measured, mean + LEARNING * (measured - mean))


def compute_costs(
    size: Floats, seconds: Floats, typical_size: float, typical_seconds: float, pressure: Pressure
) -> Floats:
    """Return the cost of each feed's refresh; 1 for an ordinary one, and for all as long as requests are scarcer.

    >>> size, seconds = np.array([100.0, 300.0, np.nan]), np.array([1.0, 1.0, np.nan])
    >>> compute_costs(size, seconds, 200.0, 1.0, Pressure(bytes=0.5)).tolist()  # half of the bytes are enough
    [1.0, 1.0, 1.0]
    >>> compute_costs(size, seconds, 200.0, 1.0, Pressure(bytes=2.0)).tolist()
    [0.5, 1.5, 1.0]
    """
    shares = [_scarcity(pressure.bytes), _scarcity(pressure.seconds)]
    total = max(sum(shares), 1.0)
    cost = np.ones(len(size))
    for share, measured, typical in zip(shares, (size, seconds), (typical_size, typical_seconds), strict=True):
        if share > 0 and typical > 0:
            cost += share / total * (np.where(np.isnan(measured), typical, measured) / typical - 1)
    return np.clip(cost, LOWEST, HIGHEST)


def _scarcity(use: float) -> float:
    return min(max((use - SLACK) / (SCARCE - SLACK), 0.0), 1.0)
