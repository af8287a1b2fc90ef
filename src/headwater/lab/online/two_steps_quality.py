"""Runs two_steps with the models, on drawn and on real feeds, and compares them at equal cost (thesis figs 7.9, 7.10).

As in the thesis' algorithm 4.1, a refresh that a cycle does not use is lost, so models spend unequal shares of the same
budget. They are compared at the same number of refreshes made, the axis of figures 4.2 and 4.3 (decision 0250).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwater.arrays import Floats
from headwater.estimate.estimator import Estimator
from headwater.estimate.models.smoothing import PeriodicRate
from headwater.lab.experiment import (
    Check,
    LabSettings,
    Progress,
    Row,
    make_strategy,
    mean_sd,
    measure_intervals,
)
from headwater.lab.figures import line_style
from headwater.lab.online.divergence_errors import ALPHAS
from headwater.lab.online.shaped_feeds import FEEDS, SHAPES, draw_counts, make_model, select_real_counts
from headwater.lab.simulation.cycles import CycleScores, CycleSettings, make_random_world, make_rng, run_cycles
from headwater.lab.simulation.estimator_error import CYCLE_SECONDS, CYCLES_PER_DAY, ItemCounts
from headwater.lab.sweep import run_each, run_grid

RunsByKey = Mapping[tuple[str, str, float], Sequence[CycleScores]]
QualityByKey = Mapping[tuple[str, str, float], tuple[Floats, Floats]]
QUALITY_HOURS, QUALITY_DAYS = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 12.0, 24.0), 5  # what the budget allows
COST_HOURS = (4.0, 5.0, 6.0, 7.5, 9.0)  # between refreshes made; models are compared at these
CARRIED_HOURS = (6.0, 7.5)  # where the budget decides which refresh is missed
WINDOW = 20
USUAL_ALPHA = 0.1  # of the models inside two_steps
PAST_DAY = "past day"  # the mean day of the time before the measured days: what a perfect observer had learned
SLOWLY_LEARNED = (
    "its 24 rates are learned too slowly for real feeds, of 10 to 215 items a day here; with the true day two_steps is "
    "more complete than with either"
)


def run_two_steps(
    shape: str,
    name: str,
    hours: float,
    seed: int,
    carried: bool = False,
    window: int = WINDOW,
    strategy: str = "two_steps",
) -> CycleScores:
    """Run two_steps with a model on ten feeds of one shape, with a budget of one refresh per feed and `hours`.

    With `carried` a refresh that is owed and not used stays owed. `strategy` names another one, or its parameters.
    """
    days = 7 + QUALITY_DAYS
    rng = make_rng(seed, SHAPES.index(shape), 8)
    counts = draw_counts(shape, FEEDS, days, rng)
    return _run_two_steps(counts, name, USUAL_ALPHA, hours, seed, carried, rng, window, strategy)


def _run_two_steps(
    counts: ItemCounts,
    name: str,
    alpha: float,
    hours: float,
    seed: int,
    carried: bool,
    rng: np.random.Generator,
    window: int,
    strategy: str,
) -> CycleScores:
    """Measure the last days of the counts; all days before them are for learning."""
    feeds, measured = counts.shape[1], QUALITY_DAYS * CYCLES_PER_DAY
    size = CycleSettings(
        feeds=feeds,
        window=window,
        warmup=len(counts) - measured,
        measured=measured,
        seconds=CYCLE_SECONDS,
    )
    world = make_random_world(size, counts, np.ones(feeds), rng)
    if name in ("known", PAST_DAY):
        estimator: Estimator = _make_known_model(counts if name == "known" else counts[:-measured])
    else:
        estimator = make_model(name, alpha)
    made = make_strategy(strategy, feeds, estimator=estimator, rng=make_rng(seed, 9))
    return run_cycles(world, made, feeds / (hours * 6), knowledge="nothing", censored=False, carried=carried)


def run_trace_two_steps(shape: str, name: str, hours: float, path: Path, window: int, strategy: str) -> CycleScores:
    """Run two_steps with a model on real feeds of one shape, over the last twelve days of a trace (thesis 7.3.3)."""
    counts = select_real_counts(path)[shape][-12 * CYCLES_PER_DAY :]
    return _run_two_steps(counts, name, USUAL_ALPHA, hours, 0, False, make_rng(0, 8), window, strategy)


def run_long_learning(name: str, alpha: float, hours: float, path: Path, window: int) -> CycleScores:
    """Run two_steps on the wavy feeds of a trace with a model that has learned from all days before those measured."""
    counts = select_real_counts(path)["waves"]
    return _run_two_steps(counts, name, alpha, hours, 0, False, make_rng(0, 8), window, "two_steps")


def _make_known_model(counts: ItemCounts) -> PeriodicRate:
    """Make the mean day of these counts, as a model that is never updated (the thesis' offline case)."""
    days = counts.reshape(-1, 24, 6, counts.shape[1]).sum(2).mean(0).T
    known = PeriodicRate(counts.shape[1], alpha=0.0)
    known.set_slots(np.arange(counts.shape[1]), np.maximum(days, 1e-6))
    return known


def add_quality_rows(
    given: LabSettings,
    progress: Progress,
    seeds: int,
    hours: tuple[float, ...],
    models: Sequence[str],
    rows: list[Row],
    strategy: str,
) -> dict[tuple[str, str, float], tuple[Floats, Floats]]:
    """Run two_steps, or another strategy, with each model over the budgets; add the rows by budget and those at equal
    cost, and return completeness and freshness at equal cost."""
    names = ("known", *models)
    keys = [(shape, name, each) for shape in SHAPES for name in names for each in hours]
    shared = {"window": given.window or WINDOW, "strategy": strategy}
    runs = run_grid(run_two_steps, keys, seeds, given, progress, strategy, **shared)
    rows += [_make_quality_row(strategy, *key, mine) for key, mine in runs.items()]
    quality = {}
    for shape in SHAPES:
        for name in names:
            for cost in select_costs(runs, shape, names, hours):
                quality[shape, name, cost] = interpolate_quality(runs, shape, name, hours, cost)
                rows.append(_make_equal_row(strategy, shape, name, cost, quality[shape, name, cost]))
    return quality


def select_costs(
    runs: RunsByKey, shape: str, names: Sequence[str], hours: Sequence[float], feeds: int = FEEDS
) -> list[float]:
    """Return those of COST_HOURS that the budgets of every model bracket."""
    made = [[float(np.mean([score.requests for score in runs[shape, name, each]])) for each in hours] for name in names]
    low, high = max(min(each) for each in made), min(max(each) for each in made)
    return [cost for cost in COST_HOURS if low <= _count_requests(cost, feeds) <= high]


def interpolate_quality(
    runs: RunsByKey, shape: str, name: str, hours: Sequence[float], cost: float, feeds: int = FEEDS
) -> tuple[Floats, Floats]:
    """Return completeness and freshness of each seed at one refresh made per `cost` hours, on the line between the
    neighbouring budgets."""
    by_seed = list(zip(*(runs[shape, name, each] for each in sorted(hours, reverse=True)), strict=True))
    found = []
    for scores in by_seed:
        made = np.maximum.accumulate([float(score.requests) for score in scores])  # equal budgets may differ by one
        found.append(
            [
                float(np.interp(_count_requests(cost, feeds), made, [getattr(score, measure) for score in scores]))
                for measure in ("completeness", "freshness")
            ]
        )
    both = np.array(found)
    return both[:, 0], both[:, 1]


def _count_requests(hours: float, feeds: int = FEEDS) -> float:
    """Return the measured requests of all feeds, one per feed and `hours`."""
    return feeds * QUALITY_DAYS * 24 / hours


def check_trace_quality(
    runs: Mapping[tuple[str, str, float], CycleScores], hours: Sequence[float], feeds: int, trace: str
) -> list[Check]:
    """Check figure 7.9c on the wavy feeds of a trace, at the same number of refreshes made; and, with the true day, why
    it comes out otherwise."""
    singly = {key: [scores] for key, scores in runs.items()}
    names = ("known", "single", "periodic")
    if not {("waves", name, each) for name in names for each in hours} <= singly.keys():
        return []
    costs = select_costs(singly, "waves", names, hours, feeds)
    value = {
        (name, cost): float(interpolate_quality(singly, "waves", name, hours, cost, feeds)[0].mean())
        for name in names
        for cost in costs
    }
    checks = []
    for name, words, source, because in (
        ("periodic", "with the periodic model", "thesis fig. 7.9c", SLOWLY_LEARNED),
        ("known", "with the true day", "ours: what an exact model would give in thesis fig. 7.9c", ""),
    ):
        gaps = {f"{cost:g} h": value[name, cost] - value["single", cost] for cost in costs}
        checks.append(
            Check(
                f"on {trace}: for waves two_steps is more complete {words} than with a single rate, at equal cost",
                bool(gaps) and min(gaps.values()) > 0,
                "difference of completeness above 0 at every cost",
                gaps,
                source,
                because,
            )
        )
    return checks


def add_long_learning(
    given: LabSettings,
    progress: Progress,
    path: Path,
    hours: Sequence[float],
    rows: list[Row],
    alphas: Sequence[float] = ALPHAS,
) -> list[Check]:
    """Check why figure 7.9c comes out otherwise on real feeds: by longer learning, and by the past day itself.

    Each model has the best of several α. Rows are added at equal cost. A trace without wavy feeds has no such checks.
    """
    found = select_real_counts(path)
    if "waves" not in found:
        return []
    (cycles, feeds), window = found["waves"].shape, given.window or WINDOW
    models = [(name, alpha) for name in ("single", "periodic") for alpha in alphas] + [(PAST_DAY, 0.0)]
    keys = [(*model, each) for model in models for each in hours]
    done = run_each(run_long_learning, keys, given, progress, "long learning", path=path, window=window)
    labels = {(name, alpha): f"{name}, α = {alpha:g}" if alpha else name for name, alpha in models}
    runs = {("waves", labels[name, alpha], each): [scores] for (name, alpha, each), scores in done.items()}
    costs = select_costs(runs, "waves", list(labels.values()), hours, feeds)
    if not costs:
        return []
    days = cycles // CYCLES_PER_DAY - QUALITY_DAYS
    complete: dict[str, Floats] = {}
    for name in ("single", "periodic", PAST_DAY):
        tried = {
            label: np.array([interpolate_quality(runs, "waves", label, hours, cost, feeds) for cost in costs])[:, :, 0]
            for (each, _), label in labels.items()
            if each == name
        }
        label = max(tried, key=lambda each: float(tried[each][:, 0].sum()))
        complete[name] = tried[label][:, 0]
        for cost, (completeness, freshness) in zip(costs, tried[label].tolist(), strict=True):
            row: Row = {"shape": f"waves of {path.name}", "strategy": f"two_steps, {label}, after {days} days"}
            row |= {"hours": cost, "budget": 24.0 / cost, "requests": _count_requests(cost, feeds)}
            rows.append(row | {"completeness": completeness, "freshness": freshness})
    return [
        Check(
            f"on {path.name}: after {days} days two_steps is more complete for waves with {words} than with a single "
            "rate, at equal cost",
            bool((complete[name] > complete["single"]).all()),
            "best of three α for each model; difference of completeness above 0 at every cost",
            {f"{cost:g} h": float(gap) for cost, gap in zip(costs, complete[name] - complete["single"], strict=True)},
            "ours",
            because,
        )
        for name, words, because in (
            ("periodic", "the periodic model", "longer learning makes the models equal; a single rate learns faster"),
            (PAST_DAY, f"the mean day of those {days} days", ""),
        )
    ]


def add_carried_rows(
    given: LabSettings, progress: Progress, seeds: int, rows: list[Row]
) -> dict[tuple[str, float], list[CycleScores]]:
    """Run waves with refreshes that stay owed until they are used, so that every model spends the whole budget."""
    keys = [("waves", name, each) for name in ("single", "periodic") for each in CARRIED_HOURS]
    window = given.window or WINDOW
    runs = run_grid(run_two_steps, keys, seeds, given, progress, "two_steps, carrying", carried=True, window=window)
    rows += [
        _make_quality_row("two_steps", shape, f"{name}, unused kept", each, mine)
        for (shape, name, each), mine in runs.items()
    ]
    return {(name, each): mine for (_, name, each), mine in runs.items()}


def _make_quality_row(strategy: str, shape: str, name: str, hours: float, mine: Sequence[CycleScores]) -> Row:
    return {
        "shape": shape,
        "strategy": f"{strategy}, {name}",
        "hours": hours,
        "budget": 24.0 / hours,
        "requests": float(np.mean([score.requests for score in mine])),
        "completeness": mean_sd([score.completeness for score in mine]),
        "freshness": mean_sd([score.freshness for score in mine]),
    }


def _make_equal_row(strategy: str, shape: str, name: str, cost: float, quality: tuple[Floats, Floats]) -> Row:
    row: Row = {"shape": shape, "strategy": f"{strategy}, {name}, equal cost", "hours": cost, "budget": 24.0 / cost}
    row |= {"requests": _count_requests(cost)}
    return row | {"completeness": mean_sd(quality[0]), "freshness": mean_sd(quality[1])}


def _measure_gaps(quality: QualityByKey, shape: str, measure: int, model: str = "periodic") -> dict[str, Floats]:
    """Return the measure with a model less that with single of each world, by cost."""
    costs = [cost for each, name, cost in quality if (each, name) == (shape, model)]
    return {
        f"{cost:g} h": quality[shape, model, cost][measure] - quality[shape, "single", cost][measure] for cost in costs
    }


def _measure_true_day(quality: QualityByKey, shape: str) -> dict[str, Floats]:
    """Return how much fresher two_steps is with the true day than with a single rate: the most a model can bring."""
    return {f"{cost}, true day": gap for cost, gap in _measure_gaps(quality, shape, 1, "known").items()}


def _average(by_name: Mapping[str, Floats]) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in by_name.items()}


def check_quality(quality: QualityByKey) -> list[Check]:
    """Check figures 7.9 and 7.10: what the models are worth to two_steps at the same number of refreshes made."""
    parts = (("waves", 0), ("waves", 1), ("uniform", 0), ("peaks", 0), ("peaks", 1))
    gaps = [_measure_gaps(quality, shape, measure) for shape, measure in parts]
    waves, fresh, flat, peaks, peaks_fresh = (_average(each) for each in gaps)
    true_waves, true_peaks = (_measure_true_day(quality, shape) for shape in ("waves", "peaks"))
    width = [measure_intervals(each) for each in gaps]
    often, rare = next(iter(peaks)), list(peaks)[-1]
    generous = {
        f"{shape}, {name}": float(quality[shape, name, float(often[:-2])][0].mean())
        for shape in SHAPES
        for name in ("single", "periodic")
    }
    return [
        Check(
            "with frequent refreshes both models give very good completeness whatever the shape",
            min(generous.values()) >= 0.95,
            f"at one refresh per {often}: at least .95",
            generous,
            "thesis fig. 7.9",
        ),
        Check(
            "for waves two_steps is more complete with the periodic model at equal cost, however often feeds are "
            "refreshed",
            min(waves.values()) > 0,
            "completeness with periodic less that with single above 0 at every cost",
            waves,
            "thesis fig. 7.9c",
            intervals=width[0],
        ),
        Check(
            "for waves two_steps is fresher with the periodic model at equal cost",
            min(fresh.values()) > 0,
            "freshness with periodic less that with single above 0 at every cost",
            fresh | _average(true_waves),
            "thesis fig. 7.10c",
            because="when refreshes are rare it is not fresher with the true day either: saturated feeds come first, "
            "which serves completeness",
            intervals=width[1] | measure_intervals(true_waves),
        ),
        Check(
            "for uniform feeds both models serve two_steps alike",
            max(abs(value) for value in flat.values()) <= 0.03,
            "completeness within .03 of each other at every cost",
            flat,
            "thesis fig. 7.9b",
            intervals=width[2],
        ),
        Check(
            "for peaks two_steps is fresher with the periodic model when refreshes are frequent",
            peaks_fresh[often] > 0,
            f"freshness with periodic less that with single above 0 at one refresh per {often}",
            peaks_fresh | _average(true_peaks),
            "thesis fig. 7.10a",
            because="the true day makes it fresher; 24 rates learned in a week from refreshes hours apart do not",
            intervals=width[4] | measure_intervals(true_peaks),
        ),
        Check(
            "for peaks both models serve two_steps alike when refreshes are rare",
            max(abs(peaks[rare]), abs(peaks_fresh[rare])) <= 0.05,
            f"at one refresh per {rare}: within .05 of each other",
            {"completeness": peaks[rare], "freshness": peaks_fresh[rare]},
            "thesis figs 7.9a, 7.10a",
            intervals=measure_intervals({"completeness": gaps[3][rare], "freshness": gaps[4][rare]}),
        ),
    ]


def check_carried(carried: Mapping[tuple[str, float], Sequence[CycleScores]], quality: QualityByKey) -> list[Check]:
    """Check that refreshes which stay owed cost the periodic model most of its gain."""
    lost = _measure_gaps(quality, "waves", 0)
    gaps = {}
    for cost in (each for each in CARRIED_HOURS if f"{each:g} h" in lost):
        pairs = zip(carried["periodic", cost], carried["single", cost], strict=True)
        gaps[f"{cost:g} h, unused kept"] = np.array([p.completeness - s.completeness for p, s in pairs])
        gaps[f"{cost:g} h, unused lost"] = lost[f"{cost:g} h"]
    figures = _average(gaps)
    values = list(figures.values())
    return [
        Check(
            "for waves the periodic model gains less if unused refreshes are kept: owed ones lower τ until they are "
            "spent, also in hours without news",
            bool(values) and all(kept < gone / 2 for kept, gone in zip(values[::2], values[1::2], strict=True)),
            "gain of completeness at equal cost less than half of that with unused refreshes lost",
            figures,
            "ours",
            intervals=measure_intervals(gaps),
        )
    ]


def draw_quality(axis: Any, quality: QualityByKey, shape: str, measure: int, names: Sequence[str]) -> None:
    costs = [cost for each, name, cost in quality if (each, name) == (shape, names[0])]
    lowest = 0.5
    for place, name in enumerate(names):
        values = [float(quality[shape, name, cost][measure].mean()) for cost in costs]
        axis.plot(costs, values, label=name, **line_style(place))
        lowest = min(lowest, *values)
    axis.set_xscale("log", base=2)
    axis.set_xticks(costs, [f"{cost:g}" for cost in costs])
    axis.set_xlabel("hours between refreshes made (two_steps)")
    axis.set_ylabel(("completeness C_F", "freshness F_W")[measure])
    axis.set_ylim(lowest - 0.02, 1.02)
    axis.set_title(f"Fig. {('7.9: completeness', '7.10: freshness')[measure]}, {shape}", fontsize=10)
