"""Groups short vectors by k-means."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats, Rows, iterate_blocks

FAR = 0.95  # the next centre is farther from the others than this share of the points


def kmeans(points: Floats, k: int, rounds: int = 50) -> tuple[Floats, Rows]:
    """Run Lloyd's algorithm: return `k` centres (fewer if there are fewer distinct points) and each point's nearest.

    It starts at the point nearest the mean and adds, each time, a point farther from all centres than 95 % of the
    others. The farthest itself is often an outlier that stays alone. The result does not depend on the order of the
    points.

    >>> centres, label = kmeans(np.array([[0.0], [1.0], [9.0], [10.0]]), 2)
    >>> centres.ravel().tolist(), label.tolist()
    ([0.5, 9.5], [0, 0, 1, 1])
    """
    chosen = [int(np.argmin(((points - points.mean(axis=0)) ** 2).sum(axis=1)))]
    near = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < min(k, len(points)) and near.max() > 0:
        apart = np.flatnonzero(near > 0)
        pick = int(apart[np.argsort(near[apart], kind="stable")[int(FAR * (len(apart) - 1))]])
        chosen.append(pick)
        near = np.minimum(near, ((points - points[pick]) ** 2).sum(axis=1))
    centres = points[chosen].astype(np.float64)
    label = assign_nearest(points, centres)
    for _ in range(rounds):
        sums = np.zeros_like(centres)
        np.add.at(sums, label, points)
        size = np.bincount(label, minlength=len(centres))
        centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
        moved = assign_nearest(points, centres)
        if np.array_equal(moved, label):
            break
        label = moved
    order = np.lexsort(centres.T[::-1])
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    return centres[order], rank[label]


def assign_nearest(points: Floats, centres: Floats) -> Rows:
    """Return the index of each point's nearest centre."""
    label = np.empty(len(points), np.intp)
    squared = (centres**2).sum(axis=1)
    for part in iterate_blocks(len(points), 65_536):
        label[part] = np.argmin(squared - 2 * points[part] @ centres.T, axis=1)
    return label
