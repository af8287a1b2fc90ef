"""Grows networks of aggregators that read each other's query feeds, and runs items through them (thesis 1.6).

A tree is grown for every source. Query feeds join in order of their number of words, each if its profile is near enough
to the source's, at the node that minimises hops + α·distance. A small α gives a star, a large one chains of similar
profiles. Then items run down the trees: each node polls its parent, keeps the items its query wants and publishes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats

Parents = NDArray[np.int64]  # node → the node it reads; −1 for the root, −2 for nodes outside the tree


def jaccard_distances(profiles: Bools, one: Bools) -> Floats:
    """Return the distance 1 − |A ∩ B| / |A ∪ B| of every profile to one.

    >>> sets = np.array([[True, True, False], [False, False, True]])
    >>> jaccard_distances(sets, np.array([True, False, False])).tolist()
    [0.5, 1.0]
    """
    both = (profiles & one).sum(1)
    either = (profiles | one).sum(1)
    return np.asarray(1.0 - both / np.maximum(either, 1))


@dataclass(frozen=True, slots=True)
class NetworkTree:
    """A tree over nodes 0 … n−1 whose root is node 0; `order` is the order in which they joined."""

    parents: Parents
    hops: NDArray[np.int64]
    order: NDArray[np.int64]

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Return how many members read each member."""
        inside = self.parents >= 0
        return np.bincount(self.parents[inside], minlength=len(self.parents))[self.members]

    @property
    def members(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.parents >= -1)


def grow_by_profile(profiles: Bools, alpha: float, radius: float) -> NetworkTree:
    """Grow the tree of the source in row 0; the other rows are query feeds and join widest interest first."""
    count = len(profiles)
    near = jaccard_distances(profiles, profiles[0]) <= radius
    near[0] = False
    coverage = profiles.sum(1)
    order = np.array([k for k in np.argsort(-coverage, kind="stable") if near[k]], dtype=np.int64)
    parents, hops = np.full(count, -2), np.zeros(count, dtype=np.int64)
    parents[0] = -1
    inside = np.zeros(count, dtype=bool)
    inside[0] = True
    for node in order:
        cost = np.where(inside, hops + alpha * jaccard_distances(profiles, profiles[node]), np.inf)
        parent = int(cost.argmin())
        parents[node], hops[node], inside[node] = parent, hops[parent] + 1, True
    return NetworkTree(parents, hops, np.concatenate([[0], order]))


def grow_by_place(points: Floats, alpha: float) -> NetworkTree:
    """Grow a tree by the same rule over points of the plane, in the order given; row 0 is the root (fig. 1.6)."""
    count = len(points)
    parents, hops = np.full(count, -1), np.zeros(count)
    for node in range(1, count):
        there = points[:node]
        distance = np.hypot(there[:, 0] - points[node, 0], there[:, 1] - points[node, 1])
        parent = int((hops[:node] + alpha * distance).argmin())
        parents[node], hops[node] = parent, hops[parent] + 1
    return NetworkTree(parents, hops.astype(np.int64), np.arange(count))


@dataclass(frozen=True, slots=True)
class ReceivedItems:
    """The items that a node has: positions in the source and arrival times, in order of arrival."""

    items: NDArray[np.int64]
    at: Floats


def run_cascade(
    tree: NetworkTree,
    profiles: Bools,
    times: Floats,
    words: NDArray[np.int64],
    window: int,
    interval: float,
    phase: Floats,
) -> dict[int, ReceivedItems]:
    """Run a source's items (at `times`, each with its words as bits) down a tree.

    A node polls its parent every `interval`, starting at its own `phase`. It sees an item if its first poll after the
    item's publication comes before W newer items have pushed it out, and publishes the wanted ones immediately.
    """
    wants = np.array([_profile_bits(profile) for profile in profiles], dtype=np.int64)
    have = {0: ReceivedItems(np.arange(len(times)), times)}
    for node in tree.order[1:]:
        above = have[int(tree.parents[node])]
        number = np.ceil((above.at - phase[node]) / interval)
        seen_at = phase[node] + np.maximum(number, 0.0) * interval
        pushed = np.append(above.at, np.full(window, np.inf))[window:]
        kept = (pushed > seen_at) & ((words[above.items] & wants[node]) != 0)
        # Items of one poll keep their order: the sort is stable and `above` is in order.
        order = np.argsort(seen_at[kept], kind="stable")
        have[int(node)] = ReceivedItems(above.items[kept][order], seen_at[kept][order])
    return have


def _profile_bits(profile: Bools) -> int:
    return int(sum(1 << int(k) for k in np.flatnonzero(profile)))


@dataclass(frozen=True, slots=True)
class NodeQuality:
    """The quality of one node, relative to all items of the source that its query wants."""

    hops: int
    completeness: float
    freshness: float
    mean_delay: float


def measure_nodes(
    have: dict[int, ReceivedItems],
    tree: NetworkTree,
    profiles: Bools,
    times: Floats,
    words: NDArray[np.int64],
    window: int,
    since: float,
    until: float,
    samples: Floats,
) -> list[NodeQuality]:
    """Measure completeness and delay of the items published in [since, until), and freshness at `samples`."""
    counted = (times >= since) & (times < until)
    found = []
    for node in tree.order[1:]:
        wanted = (words & _profile_bits(profiles[node])) != 0
        arrival = np.full(len(times), np.inf)
        arrival[have[int(node)].items] = have[int(node)].at
        mine = counted & wanted
        got = mine & np.isfinite(arrival)
        if not mine.any():
            continue
        delay = float((arrival[got] - times[got]).mean()) if got.any() else float("nan")
        fresh = measure_freshness(times, wanted, arrival, window, samples)
        found.append(NodeQuality(int(tree.hops[node]), float(got.sum() / mine.sum()), fresh, delay))
    return found


def measure_freshness(times: Floats, wanted: Bools, arrival: Floats, window: int, samples: Floats) -> float:
    """Return the mean share of the wanted items in the source's window that the node has; 1 where none is wanted."""
    end = np.searchsorted(times, samples, side="right")
    place = end[:, None] - 1 - np.arange(window)
    inside = place >= 0
    place = np.maximum(place, 0)
    relevant = inside & wanted[place]
    here = relevant & (arrival[place] <= samples[:, None])
    number = relevant.sum(1)
    return float(np.where(number > 0, here.sum(1) / np.maximum(number, 1), 1.0).mean())
