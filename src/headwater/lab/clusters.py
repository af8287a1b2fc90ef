"""K-means for daily posting patterns: feeds as 24 shares of their postings, grouped around K typical days."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import TraceError
from headwater.estimate.base import Floats


@dataclass(frozen=True, slots=True)
class Clusters:
    """K centres, largest cluster first, the cluster of each point, and the mean squared distance to the centres."""

    centres: Floats
    of: NDArray[np.int64]
    inertia: float

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.bincount(self.of, minlength=len(self.centres))


def patterns(totals: Floats) -> Floats:
    """Counts by hour as shares of each feed's postings (Sia & Cho 4.3.1)."""
    return np.asarray(totals / np.maximum(totals.sum(1, keepdims=True), 1.0))


def k_means(points: Floats, k: int, rng: np.random.Generator, starts: int = 4, rounds: int = 100) -> Clusters:
    """Lloyd's algorithm from k-means++ centres, the best of several starts; fewer points than K give fewer centres."""
    if not len(points):
        raise TraceError("There is no feed to group; take a trace with more items.")
    k = min(k, len(np.unique(points, axis=0)))
    found = [_once(points, k, rng, rounds) for _ in range(starts)]
    best = min(found, key=lambda each: each.inertia)
    order = np.argsort(-best.sizes, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Clusters(best.centres[order], place[best.of], best.inertia)


def _once(points: Floats, k: int, rng: np.random.Generator, rounds: int) -> Clusters:
    centres = _spread(points, k, rng)
    of = np.full(len(points), -1)
    for _ in range(rounds):
        distance = _squared(points, centres)
        nearest = distance.argmin(1)
        if (nearest == of).all():
            break
        of = nearest
        sums = np.zeros_like(centres)
        np.add.at(sums, of, points)
        sizes = np.bincount(of, minlength=k)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return Clusters(centres, of, float(_squared(points, centres)[np.arange(len(points)), of].mean()))


def _spread(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """k-means++: each next centre is drawn with probability proportional to its squared distance from the others."""
    centres = [points[rng.integers(len(points))]]
    nearest = _squared(points, np.array(centres))[:, 0]
    while len(centres) < k:
        pick = rng.choice(len(points), p=nearest / nearest.sum())
        centres.append(points[pick])
        nearest = np.minimum(nearest, _squared(points, points[pick][None])[:, 0])
    return np.array(centres)


def _squared(points: Floats, centres: Floats) -> Floats:
    cross = points @ centres.T
    distance = (points**2).sum(1)[:, None] - 2.0 * cross + (centres**2).sum(1)
    return np.asarray(np.maximum(distance, 0.0))
