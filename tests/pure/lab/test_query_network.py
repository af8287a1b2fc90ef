"""Networks grow by their rule, and cascades agree with a simulation of every poll."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.query_network import (
    NetworkTree,
    grow_by_place,
    grow_by_profile,
    jaccard_distances,
    measure_nodes,
    run_cascade,
)


def random_profiles(seed: int, nodes: int, words: int = 6) -> np.ndarray:  # type: ignore[type-arg]
    profiles = make_rng(seed).random((nodes, words)) < 0.5
    profiles[0] = True
    profiles[~profiles.any(1), 0] = True
    return profiles


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 5.0, 50.0]), st.sampled_from([0.5, 0.8, 1.0]))
@settings(max_examples=40, deadline=None)
def test_every_member_reads_the_node_that_was_best_when_it_joined(seed: int, alpha: float, radius: float) -> None:
    profiles = random_profiles(seed, 25)
    tree = grow_by_profile(profiles, alpha, radius)
    coverage = profiles.sum(1)
    joined = [0]
    for node in tree.order[1:]:
        assert jaccard_distances(profiles[:1], profiles[node])[0] <= radius
        cost = {k: tree.hops[k] + alpha * jaccard_distances(profiles[[k]], profiles[node])[0] for k in joined}
        assert cost[int(tree.parents[node])] == pytest.approx(min(cost.values()))
        assert tree.hops[node] == tree.hops[tree.parents[node]] + 1
        joined.append(int(node))
    assert list(coverage[tree.order[1:]]) == sorted(coverage[tree.order[1:]], reverse=True)
    outside = set(range(25)) - set(joined)
    assert all(jaccard_distances(profiles[:1], profiles[k])[0] > radius for k in outside)
    assert tree.degrees.sum() == len(joined) - 1


def test_without_weight_on_distance_the_network_is_a_star() -> None:
    tree = grow_by_place(make_rng(1).random((300, 2)), 0.0)
    assert (tree.parents[1:] == 0).all()
    assert tree.degrees[0] == 299


@given(st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_a_cascade_delivers_the_same_items_as_polling_each_window(seed: int, window: int) -> None:
    rng = make_rng(seed, 5)
    profiles = random_profiles(seed, 6)
    tree = NetworkTree(np.array([-1, 0, 1, 2, 0, 4]), np.array([0, 1, 2, 3, 1, 2]), np.arange(6))
    times = np.sort(rng.random(60) * 100)
    words = 1 << rng.integers(0, 6, 60)
    phase = rng.random(6) * 10
    have = run_cascade(tree, profiles, times, words, window, 10.0, phase)
    published: dict[int, list[tuple[float, int]]] = {0: [(t, k) for k, t in enumerate(times)]}
    for node in range(1, 6):
        bits = sum(1 << k for k in np.flatnonzero(profiles[node]))
        got: list[tuple[float, int]] = []
        known: set[int] = set()
        for poll in phase[node] + 10.0 * np.arange(60):
            shown = [item for at, item in published[int(tree.parents[node])] if at <= poll][-window:]
            new = [item for item in shown if item not in known]
            known |= set(new)
            got += [(poll, item) for item in new if words[item] & bits]
        published[node] = got
        assert have[node].items.tolist() == [item for _, item in got]
        assert have[node].at == pytest.approx([at for at, _ in got])


def test_quality_counts_only_wanted_items() -> None:
    profiles = np.array([[True, True], [True, False]])
    tree = NetworkTree(np.array([-1, 0]), np.array([0, 1]), np.arange(2))
    times, words = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 2, 1, 1])
    have = run_cascade(tree, profiles, times, words, 10, 2.0, np.array([0.0, 0.5]))
    (node,) = measure_nodes(have, tree, profiles, times, words, 10, 0.0, 10.0, np.array([3.0, 100.0]))
    assert node.completeness == 1.0
    assert node.mean_delay == pytest.approx((1.5 + 1.5 + 0.5) / 3)  # polls at 2.5 and 4.5
    assert node.freshness == pytest.approx((0.5 + 1.0) / 2)  # at 3 it has the first of two wanted items
