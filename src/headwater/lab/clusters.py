"""K-means for daily posting patterns: feeds as 24 shares of their postings, grouped around K typical days."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import TraceError
from headwater.estimate.base import Floats, Rows
from headwater.estimate.kmeans import kmeans


@dataclass(frozen=True, slots=True)
class PatternClusters:
    """K centres, largest cluster first, the cluster of each point, and the mean squared distance to the centres."""

    centres: Floats
    of: Rows
    inertia: float

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.bincount(self.of, minlength=len(self.centres))


def hour_shares(totals: Floats) -> Floats:
    """Counts by hour as shares of each feed's postings (Sia & Cho 4.3.1)."""
    return np.asarray(totals / np.maximum(totals.sum(1, keepdims=True), 1.0))


def cluster_patterns(points: Floats, k: int, rng: np.random.Generator, starts: int = 4) -> PatternClusters:
    """The best of several starts of the estimators' own K-means; fewer distinct points than K give fewer centres."""
    if not len(points):
        raise TraceError("There is no feed to group; take a trace with more items.")
    found = [_measure_clusters(points, *kmeans(points, k, rng)) for _ in range(starts)]
    best = min(found, key=lambda each: each.inertia)
    order = np.argsort(-best.sizes, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return PatternClusters(best.centres[order], place[best.of], best.inertia)


def _measure_clusters(points: Floats, centres: Floats, of: Rows) -> PatternClusters:
    return PatternClusters(centres, of, float(((points - centres[of]) ** 2).sum(1).mean()))
