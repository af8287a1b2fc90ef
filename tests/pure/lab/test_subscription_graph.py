"""Trees of several sources are joined without cycles, and items run through the graph as by polling every window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.lab.experiment import LabSettings, ignore_progress, load_experiment
from headwater.lab.experiments import cascades
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.query_network import grow_by_profile
from headwater.lab.simulation.subscription_graph import (
    GraphRun,
    PublishedItems,
    SubscriptionGraph,
    Teamwork,
    join_trees,
    measure_pairs,
    run_graph,
)
from headwater.schedule.registry import make_strategy

SOURCES, QUERIES, WORDS = 3, 9, 6


def draw_graph(seed: int, alpha: float = 4.0) -> SubscriptionGraph:
    profiles = make_rng(seed, 1).random((SOURCES + QUERIES, WORDS)) < 0.5
    profiles[~profiles.any(1), 0] = True
    return join_trees(profiles, SOURCES, alpha, 0.8)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 4.0, 50.0]))
@settings(max_examples=40, deadline=None)
def test_a_query_feed_has_the_parent_that_each_sources_tree_gives_it(seed: int, alpha: float) -> None:
    graph = draw_graph(seed, alpha)
    expected: list[set[int]] = [set() for _ in range(SOURCES + QUERIES)]
    for source in range(SOURCES):
        own = [source, *range(SOURCES, SOURCES + QUERIES)]
        tree = grow_by_profile(graph.profiles[own], alpha, 0.8)
        for place, node in enumerate(own):
            inside = tree.parents[place] >= -1
            assert graph.hops[source, node] == (tree.hops[place] if inside else -1)
            if tree.parents[place] >= 0:
                expected[node].add(own[tree.parents[place]])
    for node, parents in enumerate(expected):
        assert set(graph.parents[node].tolist()) == parents
        assert all(graph.levels[parent] < graph.levels[node] for parent in parents)


@given(st.integers(0, 10_000), st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_a_graph_that_refreshes_everything_delivers_as_polling_each_window_does(seed: int, window: int) -> None:
    graph, rng = draw_graph(seed), make_rng(seed, 2)
    times = np.sort(rng.random(80) * 20)
    sources = rng.integers(0, SOURCES, 80)
    words = 1 << rng.integers(0, WORDS, 80)
    run = run_graph(
        graph, PublishedItems(times, sources, words), lambda _: make_strategy("uniform", rng=0), window, 1.0, 1.0
    )
    published: list[list[int]] = [[] for _ in range(SOURCES + QUERIES)]
    got = np.full((SOURCES + QUERIES, 80), np.inf)
    for cycle in range(1, int(np.ceil(times[-1])) + 1):
        for source in range(SOURCES):
            published[source] = np.flatnonzero((times <= cycle) & (sources == source)).tolist()
        shown = [each[-window:] for each in published]
        for node in range(SOURCES, SOURCES + QUERIES):
            seen = {item for parent in graph.parents[node] for item in shown[parent]}
            for item in sorted(seen):
                if np.isinf(got[node, item]) and graph.profiles[node][int(words[item]).bit_length() - 1]:
                    got[node, item] = cycle
                    published[node].append(item)
    assert np.array_equal(run.arrivals[SOURCES:], got[SOURCES:])


def test_pushed_items_reach_every_level_without_requests_or_windows() -> None:
    profiles = np.array([[True], [True], [True]])  # a source and a chain of two query feeds
    parents = tuple(np.array(each, dtype=np.int64) for each in ([], [0], [1]))
    graph = SubscriptionGraph(profiles, 1, parents, np.array([[0, 1, 2]]), np.array([0, 1, 2]))
    items = PublishedItems(np.arange(1.0, 7.0), np.zeros(6, int), np.ones(6, int))

    def run(teamwork: Teamwork) -> GraphRun:
        return run_graph(graph, items, lambda _: make_strategy("uniform", rng=0), 2, 1.0, 0.5, teamwork)

    alone, told, pushed = run("none"), run("told"), run("pushed")
    assert alone.requests == told.requests == pushed.requests == 6  # two aggregators, every second cycle
    assert np.isfinite(pushed.arrivals[1]).all()  # the requests of both go to the source
    assert np.array_equal(pushed.arrivals[2, :5], pushed.arrivals[1, :5] + 1)  # one cycle later, at no request
    assert np.isfinite(alone.arrivals[2]).sum() < 5


def test_a_feed_that_tells_how_much_it_has_published_is_polled_when_it_has_items() -> None:
    words = np.eye(4, dtype=bool)  # a source of four words, a query feed for each, and one that reads these four
    profiles = np.concatenate([np.ones((1, 4), bool), words, np.ones((1, 4), bool)])
    parents = tuple(np.array(each, dtype=np.int64) for each in ([], [0], [0], [0], [0], [1, 2, 3, 4]))
    graph = SubscriptionGraph(profiles, 1, parents, np.array([[0, 1, 1, 1, 1, 2]]), np.array([0, 1, 1, 1, 1, 2]))
    bursts = np.repeat(1 << make_rng(3).integers(0, 4, 40), 12)  # twelve items with the same word in a row
    items = PublishedItems(np.arange(0.25, 120.0, 0.25), np.zeros(479, int), bursts[:479])
    got = {}
    for teamwork in ("none", "told"):
        run = run_graph(graph, items, lambda _: make_strategy("top_utility", rng=0), 8, 1.0, 0.5, teamwork)
        got[teamwork] = int(np.isfinite(run.arrivals[5]).sum())
    assert got["told"] > 1.2 * got["none"]


def test_quality_is_measured_for_each_source_in_whose_radius_a_query_feed_is() -> None:
    profiles = np.array([[True, False], [False, True], [True, False]])
    graph = join_trees(profiles, 2, 4.0, 0.8)
    assert graph.hops[:, 2].tolist() == [1, -1]
    items = PublishedItems(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 0]), np.array([1, 2, 1]))
    run = GraphRun(np.array([[1.0, np.inf, 3.0], [np.inf, 2.0, np.inf], [5.0, np.inf, np.inf]]), 1)
    (pair,) = measure_pairs(graph, items, run, 10, 0.0, 10.0, np.array([4.0, 6.0]))
    assert (pair.level, pair.completeness, pair.mean_delay) == (1, 0.5, 4.0)
    assert pair.freshness == pytest.approx((0.0 + 0.5) / 2)


def test_a_lost_item_is_told_by_whether_a_feed_that_is_read_had_it() -> None:
    profiles = np.array([[True, True], [True, False], [True, False]])  # a source, and a chain of two query feeds
    parents = tuple(np.array(each, dtype=np.int64) for each in ([], [0], [1]))
    graph = SubscriptionGraph(profiles, 1, parents, np.array([[0, 1, 2]]), np.array([0, 1, 2]))
    items = PublishedItems(np.array([1.0, 2.0, 3.0]), np.zeros(3, int), np.ones(3, int))
    none = [np.inf] * 3
    run = GraphRun(np.array([none, [4.0, 4.0, np.inf], [5.0, np.inf, np.inf]]), 2)
    above, below = measure_pairs(graph, items, run, 10, 0.0, 10.0, np.array([6.0]))
    assert (above.got, above.lost, above.passed) == (2, 1, 1)  # the source had published all
    assert (below.got, below.lost, below.passed) == (1, 2, 1)  # one of the two had come to the feed above


def test_pairs_of_strategies_spend_the_same_and_are_compared_level_by_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascades, "DAYS", 3.0)
    monkeypatch.setattr(cascades, "EDGE", 1.0)
    result = load_experiment("cascades").run(LabSettings(seeds=1, jobs=1), ignore_progress)
    several, cost, losses, *effects = result.checks
    assert several.holds
    assert cost.holds
    assert losses.holds
    assert {(row["first"], row["below"]) for row in result.rows} == {
        (first, below) for first in ("uniform", "two_steps") for below in ("uniform", "two_steps")
    }
    below = next(check for check in effects if "all other levels" in check.statement)
    found = {
        (row["first"], row["below"], row["teamwork"], row["level"]): row["completeness"]["mean"] for row in result.rows
    }
    alone, other = ("uniform", "uniform", "none", 2), ("uniform", "two_steps", "none", 2)
    assert below.figures["level 2"] == pytest.approx(found[other] - found[alone])
    assert below.figures["level 2"] > 0
    pushed = next(check for check in effects if "push their items" in check.statement)
    assert pushed.holds
    assert pushed.figures["level 2"] == pytest.approx(
        found["two_steps", "two_steps", "pushed", 2] - found["two_steps", "two_steps", "none", 2]
    )
