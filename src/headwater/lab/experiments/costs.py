"""Tries refreshes of unequal cost (thesis, future work; Sia & Cho 2.3): does it pay to know what a refresh costs?

Each strategy runs twice: once it sees each feed's cost (`Table.cost`), once it believes that all refreshes cost the
same. Both spend the same total cost. Costs are lognormal, once independent of the posting rates and once rising with
them, since busy feeds often have long documents.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.lab.experiment import (
    Check,
    Experiment,
    ExperimentResult,
    LabSettings,
    Progress,
    Row,
    make_strategy,
    mean_sd,
    measure_intervals,
)
from headwater.lab.figures import COLOURS, create_figure
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.simulation.scores import score_replay
from headwater.lab.sweep import run_grid
from headwater.lab.traces.synthetic_world import WorldSettings, draw_world
from headwater.lab.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRATEGY_NAMES = ("allocation", "top_utility", "two_steps", "value")
RELATIONS = ("independent", "with the rate")
SPREAD = 1.0  # standard deviation of the logarithm of a cost: 2.7 times as much or as little is ordinary
COST_PER_DAY = 1.0  # of each feed, in ordinary refreshes
CLOSE, MAX_REPLAYS = 0.02, 6


def draw_costs(rates: Any, relation: str, rng: np.random.Generator) -> Any:
    """Draw costs of mean 1. Those that follow the rate grow with its square root."""
    logs = rng.normal(0.0, SPREAD, len(rates))
    if relation == "with the rate":
        logs = 0.5 * SPREAD * logs + 0.5 * np.log(rates)
    costs = np.exp(logs)
    return costs / costs.mean()


def run_world(
    relation: str,
    name: str,
    knows: bool,
    seed: int,
    settings: WorldSettings,
    window: int = 20,
    cost: float = COST_PER_DAY,
) -> dict[str, float]:
    """Replay one strategy on one world at the common cost."""
    rng = make_rng(seed, 0)
    world = draw_world(settings, rng)
    costs = draw_costs(world.rates, relation, rng)
    seen = dataclasses.replace(world.trace, costs=costs if knows else None)
    return _replay_at_cost(name, seen, costs, seed, window, cost)


def _replay_at_cost(name: str, trace: Trace, costs: Any, seed: int, window: int, cost: float) -> dict[str, float]:
    """Replay a strategy until it spends `cost` per feed and day, in ordinary refreshes."""
    protocol = ReplaySettings(window=window, history_days=2.0, warmup_days=5.0)
    per_day, best = cost, None
    for _ in range(MAX_REPLAYS):
        run = replay_trace(make_strategy(name, trace.feeds, rng=make_rng(seed, 1)), trace, protocol, per_day)
        days = (run.end - run.measured) / 86_400
        spent = float((run.polls * costs).sum()) / trace.feeds / days
        scores = score_replay(run)
        off = math.log(max(spent, 1e-9) / cost)
        found = {
            "cost": spent,
            "requests": float(run.requests),
            "mean_delay_s": scores.mean_delay_s,
            "completeness": scores.completeness.mean,
        }
        if best is None or abs(off) < abs(math.log(best["cost"] / cost)):
            best = found
        if abs(off) < CLOSE:
            break
        per_day *= math.exp(-off)
    assert best is not None
    return best


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Compare strategies that know the costs with the same that do not."""
    names = given.add_estimators(given.choose_strategies(STRATEGY_NAMES))
    settings = WorldSettings(feeds=60 if given.quick else 200, days=14.0 if given.quick else 21.0, low=0.5, high=20.0)
    seeds = given.seeds or (2 if given.quick else 10)
    keys = [(relation, name, knows) for relation in RELATIONS for name in names for knows in (False, True)]
    window, cost = given.window or 20, given.single_rate("costs", COST_PER_DAY)
    found = run_grid(run_world, keys, seeds, given, progress, "worlds", settings=settings, window=window, cost=cost)
    rows: list[Row] = []
    gains: dict[str, dict[str, list[float]]] = {relation: {} for relation in RELATIONS}
    for relation in RELATIONS:
        for name in names:
            blind, aware = found[relation, name, False], found[relation, name, True]
            for knows, runs in ((False, blind), (True, aware)):
                row: Row = {"strategy": name, "costs": relation, "knows_costs": knows}
                rows.append(row | {key: mean_sd([run[key] for run in runs]) for key in runs[0]})
            pairs = zip(blind, aware, strict=True)
            gains[relation][name] = [1 - b["mean_delay_s"] / a["mean_delay_s"] for a, b in pairs]
    about = {"seeds": seeds, "feeds": settings.feeds, "days": settings.days, "window": window}
    about["cost_per_feed_and_day"] = cost
    means = {relation: {name: mean_sd(some) for name, some in each.items()} for relation, each in gains.items()}
    return ExperimentResult("costs", about, rows, check_gains(gains), data={"gains": means})


def check_gains(gains: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Check]:
    """Check that knowing the costs shortens the delay, and say by how much; `gains` are those of each world."""
    return [
        Check(
            f"{name}: knowing the costs shortens the mean delay at equal cost (costs {relation})",
            float(np.mean(some)) > 0,
            "mean over worlds > 0",
            {"gain": float(np.mean(some))},
            "thesis, future work; Sia & Cho 2.3",
            intervals=measure_intervals({"gain": some}),
        )
        for relation, by_name in gains.items()
        for name, some in by_name.items()
    ]


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw by how much the mean delay falls."""
    figure, (axis,) = create_figure()
    gains = result.data["gains"]
    for place, (relation, some) in enumerate(gains.items()):
        spots = np.arange(len(some)) + 0.4 * place
        bars = axis.bar(spots, [100 * gain["mean"] for gain in some.values()], 0.38, label=f"costs {relation}",
                        color=COLOURS[place], yerr=[100 * gain["sd"] for gain in some.values()], capsize=3)  # fmt: skip
        axis.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    axis.set_xticks(np.arange(len(gains[RELATIONS[0]])) + 0.2, list(gains[RELATIONS[0]]))
    axis.set_ylabel("mean delay saved, %")
    axis.set_title("What it saves to know the cost of a refresh", fontsize=10)
    axis.legend(fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "costs",
    "thesis, future work; Sia & Cho 2.3",
    "refreshes of unequal cost: strategies that know the costs beside the same that do not",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "strategies", "estimators", "window", "per_day"}),
    question="What does it bring to know that refreshes cost unequal amounts?",
)
