"""Keeps the newest publication dates of each feed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, Ragged, Rows


def merge_dates(ring: NDArray[np.float64], rows: Rows, came: Ragged) -> None:
    """Merge dates into each row's ring, which stays ascending; empty places are −inf, the oldest dates are dropped.

    >>> ring = np.full((1, 3), -np.inf)
    >>> merge_dates(ring, np.array([0]), Ragged(np.array([0, 2]), np.array([5.0, 7.0])))
    >>> merge_dates(ring, np.array([0]), Ragged(np.array([0, 2]), np.array([6.0, 9.0])))
    >>> ring.tolist()
    [[6.0, 7.0, 9.0]]
    """
    width = ring.shape[1]
    from_right = np.repeat(came.offsets[1:], came.counts) - 1 - np.arange(len(came.times))
    fits = from_right < width
    fresh = np.full((len(rows), width), -np.inf)
    fresh[came.owner()[fits], width - 1 - from_right[fits]] = came.times[fits]
    both = np.concatenate([ring[rows], fresh], axis=1)
    both.sort(axis=1)
    ring[rows] = both[:, -width:]


def count_since(ring: NDArray[np.float64], rows: Rows, since: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the number of stored dates from `since` on, and the oldest and newest of them (±inf if there are none)."""
    times = ring[rows]
    inside = np.isfinite(times) & (times >= since[:, None])
    oldest = np.where(inside, times, np.inf).min(axis=1)
    newest = np.where(inside, times, -np.inf).max(axis=1)
    return inside.sum(axis=1).astype(np.float64), oldest, newest
