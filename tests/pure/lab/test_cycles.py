"""The cycle world has the same counts as a simulation of single items."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Bools
from headwater.lab.simulation.cycles import (
    CycleSettings,
    CycleWorld,
    draw_cycle_world,
    make_rng,
    make_trace_world,
    run_cycles,
)
from headwater.lab.traces.trace import Trace
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategy import Observed, Strategy, Table

SMALL = CycleSettings(feeds=7, window=4, warmup=5, measured=12)


class Random(Strategy):
    """Refreshes random feeds and records its observations."""

    name = "random"

    def __init__(self, feeds: int = 0, seed: int = 0) -> None:
        super().__init__(feeds)
        self._rng = np.random.default_rng(seed)
        self.chosen: list[np.ndarray] = []  # type: ignore[type-arg]
        self.known: list[tuple[np.ndarray, np.ndarray]] = []  # type: ignore[type-arg]
        self.seen: list[Observed] = []

    def observe(self, table: Table, seen: Observed) -> None:
        self.seen.append(seen)

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        rows = self._rng.permutation(len(table))[: budget.now]
        self.chosen.append(rows)
        relevant = np.full(len(table), np.nan) if table.relevant is None else table.relevant
        self.known.append((table.divergence.copy(), relevant.copy()))
        return Choice(rows, np.ones(len(rows)))

    def why(self, table: Table, row: int, now: float) -> str:
        return "chance"


def brute_force(world: CycleWorld, chosen: list[np.ndarray]) -> tuple[float, float, list[list[int]]]:  # type: ignore[type-arg]
    """Compute completeness, freshness and Div_A of every cycle, item by item with sets."""
    size = world.settings
    streams = [
        np.diff(world.relevant[start : start + total + 1]).astype(bool)
        for start, total in zip(world.start, world.published[-1], strict=True)
    ]
    have: list[set[int]] = [set() for _ in range(size.feeds)]
    got = made = 0
    fresh: list[float] = []
    divergences = []
    for cycle in range(size.cycles):
        measured = cycle >= size.warmup
        windows = []
        for feed in range(size.feeds):
            end = int(world.published[cycle, feed])
            start = int(world.published[cycle - 1, feed]) if cycle else 0
            made += measured * sum(bool(streams[feed][n]) for n in range(start, end))
            windows.append({n for n in range(max(end - size.window, 0), end) if streams[feed][n]})
        divergences.append([len(windows[feed] - have[feed]) for feed in range(size.feeds)])
        for feed in chosen[cycle]:
            got += measured * len(windows[feed] - have[feed])
            have[feed] |= windows[feed]
        if measured:
            fresh.append(
                float(np.mean([len(w & h) / len(w) if w else 1.0 for w, h in zip(windows, have, strict=True)]))
            )
    return got / max(made, 1), float(np.mean(fresh)), divergences


@given(st.integers(0, 2**20), st.integers(0, 7))
@settings(max_examples=40, deadline=None)
def test_counts_are_those_of_a_simulation_item_by_item(seed: int, budget: int) -> None:
    world = draw_cycle_world(SMALL, make_rng(seed, 0))
    strategy = Random(seed=seed)
    scores = run_cycles(world, strategy, budget)
    completeness, freshness, divergences = brute_force(world, strategy.chosen)
    assert scores.completeness == pytest.approx(completeness)
    assert scores.freshness == pytest.approx(freshness)
    assert [known[1].tolist() for known in strategy.known] == divergences
    assert scores.requests == budget * SMALL.measured
    assert scores.lost >= 0


def test_a_strategy_without_knowledge_observes_only_its_refreshes() -> None:
    strategy = Random()
    run_cycles(draw_cycle_world(SMALL, make_rng(1, 0)), strategy, 3, knowledge="nothing")
    assert all(np.isnan(known[0]).all() and np.isnan(known[1]).all() for known in strategy.known)
    assert all((seen.new <= SMALL.window).all() for seen in strategy.seen)
    assert any(seen.saturated.any() for seen in strategy.seen)
    assert all((seen.new[seen.saturated] == SMALL.window).all() for seen in strategy.seen)


def test_a_budget_below_one_is_spent_over_several_cycles() -> None:
    strategy = Random()
    scores = run_cycles(draw_cycle_world(SMALL, make_rng(1, 0)), strategy, 0.5)
    assert scores.spent.tolist() == [0, 1] * 8 + [0]


def test_refreshing_everything_in_every_cycle_loses_only_the_overflow_of_one_cycle() -> None:
    world = draw_cycle_world(CycleSettings(feeds=7, window=1000, warmup=0, measured=9), make_rng(2, 0))
    assert run_cycles(world, Random(), 7).completeness == 1.0


def test_the_share_of_relevant_items_is_the_feeds_selectivity() -> None:
    world = draw_cycle_world(CycleSettings(feeds=40, warmup=0, measured=2000), make_rng(3, 0))
    totals = world.published[-1]
    shares = world.count_relevant(totals) / np.maximum(totals, 1)
    error = np.sqrt(world.selectivity * (1 - world.selectivity) / np.maximum(totals, 1))
    assert (np.abs(shares - world.selectivity) <= 4.5 * error + 1e-12).all()


def test_a_trace_becomes_a_world_with_its_own_items_and_its_own_relevance() -> None:
    trace = Trace.from_lists([[5.0, 15.0, 16.0, 29.0], [12.0, 30.0]])
    relevant = np.array([True, False, True, True, False, True])
    size = CycleSettings(feeds=2, window=2, warmup=0, measured=3, seconds=10.0)
    world = make_trace_world(trace, relevant, size)
    assert np.diff(world.published, axis=0, prepend=0).tolist() == [[1, 0], [2, 1], [1, 1]]
    assert world.count_relevant(world.published[1]).tolist() == [2, 0]
    assert world.count_relevant(world.published[2]).tolist() == [3, 1]
    assert world.selectivity.tolist() == [0.75, 0.5]
    late = make_trace_world(trace, relevant, CycleSettings(feeds=2, window=2, warmup=0, measured=2, seconds=10.0))
    assert late.published[-1].tolist() == [3, 2]
    assert late.count_relevant(late.published[-1]).tolist() == [2, 1]
