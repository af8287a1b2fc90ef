"""Runs two_steps with the models, on drawn and on real feeds (thesis figs 7.9, 7.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwater.arrays import Floats
from headwater.estimate.models.smoothing import PeriodicRate
from headwater.lab.experiment import Check, LabSettings, Progress, Row, make_strategy, mean_sd
from headwater.lab.figures import line_style
from headwater.lab.online.shaped_feeds import FEEDS, SHAPES, draw_counts, make_model, select_real_counts
from headwater.lab.simulation.cycles import CycleScores, CycleSettings, make_random_world, make_rng, run_cycles
from headwater.lab.simulation.estimator_error import CYCLE_SECONDS, CYCLES_PER_DAY, ItemCounts
from headwater.lab.sweep import run_grid

QualityByKey = Mapping[tuple[str, str, float], tuple[Floats, Floats]]
QUALITY_HOURS, QUALITY_DAYS = (2.0, 4.0, 6.0, 8.0, 12.0, 24.0), 5
FORFEIT_HOURS = (4.0, 6.0, 8.0)  # where the budget decides which refresh is missed
WINDOW = 20


def run_two_steps(
    shape: str, name: str, hours: float, seed: int, carried: bool = True, window: int = WINDOW
) -> CycleScores:
    """Run two_steps with a model on ten feeds of one shape, each refreshed every `hours` on average.

    With `carried` a refresh that is owed and not used stays owed, so that all models spend the same.
    """
    days = 7 + QUALITY_DAYS
    rng = make_rng(seed, SHAPES.index(shape), 8)
    counts = draw_counts(shape, FEEDS, days, rng)
    return _run_two_steps(counts, name, hours, seed, carried, rng, window)


def _run_two_steps(
    counts: ItemCounts, name: str, hours: float, seed: int, carried: bool, rng: np.random.Generator, window: int
) -> CycleScores:
    feeds = counts.shape[1]
    size = CycleSettings(
        feeds=feeds,
        window=window,
        warmup=7 * CYCLES_PER_DAY,
        measured=len(counts) - 7 * CYCLES_PER_DAY,
        seconds=CYCLE_SECONDS,
    )
    world = make_random_world(size, counts, np.ones(feeds), rng)
    estimator = _make_known_model(counts) if name == "known" else make_model(name, 0.1)
    strategy = make_strategy("two_steps", feeds, estimator=estimator, rng=make_rng(seed, 9))
    return run_cycles(world, strategy, feeds / (hours * 6), knowledge="nothing", censored=False, carried=carried)


def run_trace_two_steps(shape: str, name: str, hours: float, path: Path, window: int) -> CycleScores:
    """Run two_steps with a model on real feeds of one shape, over the last twelve days of a trace (thesis 7.3.3)."""
    counts = select_real_counts(path)[shape][-12 * CYCLES_PER_DAY :]
    return _run_two_steps(counts, name, hours, 0, True, make_rng(0, 8), window)


def _make_known_model(counts: ItemCounts) -> PeriodicRate:
    """Make the true model of the whole run, which is never updated (the thesis' offline case)."""
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
) -> dict[tuple[str, str, float], tuple[Floats, Floats]]:
    """Measure two_steps with each model, and add the rows."""
    keys = [(shape, name, each) for shape in SHAPES for name in ("known", *models) for each in hours]
    runs = run_grid(run_two_steps, keys, seeds, given, progress, "two_steps", window=given.window or WINDOW)
    quality = {}
    for key, mine in runs.items():
        quality[key] = (
            np.array([score.completeness for score in mine]),
            np.array([score.freshness for score in mine]),
        )
        rows.append(_make_quality_row(key[0], f"two_steps, {key[1]}", key[2], mine))
    return quality


def add_forfeited_rows(
    given: LabSettings, progress: Progress, seeds: int, quality_hours: tuple[float, ...], rows: list[Row]
) -> dict[tuple[str, float], list[CycleScores]]:
    """Run waves as the paper's cycles do: a refresh that a cycle does not use is lost, and models spend unequally."""
    keys = [("waves", name, each) for name in ("single", "periodic") for each in FORFEIT_HOURS if each in quality_hours]
    runs = run_grid(
        run_two_steps,
        keys,
        seeds,
        given,
        progress,
        "two_steps, forfeiting",
        carried=False,
        window=given.window or WINDOW,
    )
    for (shape, name, each), mine in runs.items():
        rows.append(_make_quality_row(shape, f"two_steps, {name}, forfeiting", each, mine))
    return {(name, each): mine for (_, name, each), mine in runs.items()}


def _make_quality_row(shape: str, name: str, hours: float, mine: Sequence[CycleScores]) -> Row:
    return {
        "shape": shape,
        "strategy": name,
        "hours": hours,
        "budget": 24.0 / hours,
        "requests": float(np.mean([score.requests for score in mine])),
        "completeness": mean_sd([score.completeness for score in mine]),
        "freshness": mean_sd([score.freshness for score in mine]),
    }


def check_quality(quality: QualityByKey, hours: Sequence[float]) -> list[Check]:
    """Check figures 7.9 and 7.10: what the models are worth to two_steps at equal cost."""

    def gaps(shape: str, measure: int) -> dict[str, float]:
        return {
            f"{each:g} h": float(
                (quality[shape, "periodic", each][measure] - quality[shape, "single", each][measure]).mean()
            )
            for each in hours
        }

    first, last = hours[0], f"{hours[-1]:g} h"
    generous = {
        f"{shape}, {name}": float(quality[shape, name, first][0].mean())
        for shape in SHAPES
        for name in ("single", "periodic")
    }
    waves, fresh, flat = gaps("waves", 0), gaps("waves", 1), gaps("uniform", 0)
    rare = {"completeness": gaps("peaks", 0)[last], "freshness": gaps("peaks", 1)[last]}
    often = {key: value for key, value in gaps("peaks", 1).items() if float(key[:-2]) <= 4.0}
    tight = {key: value for key, value in waves.items() if 4.0 <= float(key[:-2]) <= 8.0}
    return [
        Check(
            "with frequent refreshes both models give very good completeness whatever the shape",
            min(generous.values()) >= 0.95,
            f"at one refresh per {first:g} h: at least .95",
            generous,
            "thesis fig. 7.9",
        ),
        Check(
            "for waves two_steps is more complete with the periodic model at equal cost",
            bool(tight) and float(np.mean(list(tight.values()))) > 0,
            "mean difference from 4 to 8 h above 0; below, nothing is lost, above, every refresh is full",
            waves,
            "thesis fig. 7.9c",
        ),
        Check(
            "for waves two_steps is fresher with the periodic model at equal cost",
            min(fresh.values()) > 0,
            "freshness with periodic less that with single above 0 at every rate",
            fresh,
            "thesis fig. 7.10c",
            because="at equal cost both models are equally fresh, within .01",
        ),
        Check(
            "for uniform feeds both models serve two_steps alike",
            max(abs(value) for value in flat.values()) <= 0.03,
            "completeness within .03 of each other",
            flat,
            "thesis fig. 7.9b",
        ),
        Check(
            "for peaks two_steps is fresher with the periodic model when refreshes are frequent",
            bool(often) and max(often.values()) > 0,
            "freshness with periodic above that with single at 2 or 4 h",
            often,
            "thesis fig. 7.10a",
        ),
        Check(
            "for peaks both models serve two_steps alike when refreshes are rare",
            max(abs(value) for value in rare.values()) <= 0.05,
            f"at one refresh per {last}: within .05 of each other",
            rare,
            "thesis figs 7.9a, 7.10a",
        ),
    ]


def check_forfeits(runs: Mapping[tuple[str, float], Sequence[CycleScores]]) -> list[Check]:
    """Check waves in the paper's cycles, where a refresh that is not used in its cycle is lost."""
    hours = sorted({each for _, each in runs})
    figures = {}
    for each in hours:
        one, two = (runs[name, each] for name in ("periodic", "single"))
        gap = [p.completeness - s.completeness for p, s in zip(one, two, strict=True)]
        figures[f"{each:g} h"] = float(np.mean(gap))
        figures[f"{each:g} h, requests"] = float(
            np.mean([p.requests - s.requests for p, s in zip(one, two, strict=True)])
        )
    return [
        Check(
            "for waves two_steps is more complete with the periodic model, and spends less, where unused ones are lost",
            max(figures[f"{each:g} h"] for each in hours) > 0.01
            and min(figures[f"{each:g} h, requests"] for each in hours) < 0,
            "difference of completeness above .01 at one rate at least, with fewer requests",
            figures,
            "thesis fig. 7.9c",
        )
    ]


def draw_quality(axis: Any, quality: Any, shape: str, hours: Any, measure: int, names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        values = [quality[shape, name, each][measure].mean() for each in hours]
        axis.plot(hours, values, label=name, **line_style(place))
    axis.set_xscale("log", base=2)
    axis.set_xticks(hours, [f"{each:g}" for each in hours])
    axis.set_xlabel("mean hours between refreshes (two_steps)")
    axis.set_ylabel(("completeness C_F", "freshness F_W")[measure])
    axis.set_ylim(0, 1.05)
    axis.set_title(f"{shape}: {('completeness', 'freshness')[measure]}", fontsize=10)
