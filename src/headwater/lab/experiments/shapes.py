"""Measures activity, periodicity and daily shapes of feeds (thesis chapter 6) on worlds of known shapes, and on a
trace.

The thesis read its statements off two collections that are not public. Worlds in which every feed's shape is known show
what the heuristic itself contributes; the statements are checked on any given trace.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.lab.description import activity
from headwater.lab.description.activity import CLASS_NAMES, DayShape
from headwater.lab.description.description import describe_trace
from headwater.lab.experiment import (
    Check,
    Experiment,
    ExperimentResult,
    LabSettings,
    Progress,
    Row,
    half_widths,
    mean_sd,
)
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.sweep import run_grid
from headwater.lab.traces.synthetic_world import WorldSettings, draw_world
from headwater.lab.traces.trace import load_trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRUTHS = ("peaks", "uniform", "waves")
CLASS_RATES = (0.5, 3.0, 7.0, 16.0, 36.0, 100.0)  # one typical rate (items per day) for each activity class
DAYS = 28.0  # as long as the thesis crawled
FEEDS = 40
STRICT, RELAXED = 1.0, 0.8
# Shares of feeds in the thesis (6.2, 6.3, 7.3.2): news feeds by items a day; those that repeat their day; uniform ones.
PUBLISHED_CLASSES = {"below 1": 0.25, "1–10": 0.52, "above 10": 0.23}
PUBLISHED_OF_DIRECTORIES = {"below 1": 0.5, "1–10": 0.37, "above 10": 0.14}  # its other data set
PUBLISHED_REGULAR = {"above 10 a day": 0.2, "above 48 a day": 0.5}
PUBLISHED_UNIFORM = {"24 a day and more": 0.57}


def run_world(truth: str, rate: float, seed: int) -> dict[str, Any]:
    """Label the feeds of one shape and rate, strictly and by the 80 % variant, and measure how regular they are."""
    kind: Any = truth
    settings = WorldSettings(feeds=FEEDS, days=DAYS, low=rate, high=rate, shape=kind)
    trace = draw_world(settings, make_rng(seed, TRUTHS.index(truth), int(rate * 10))).trace
    counts = activity.count_by_hour(trace)
    labels = {
        name: np.bincount(activity.classify_shapes(counts.mean, share=share), minlength=3) / FEEDS
        for name, share in (("strict", STRICT), ("relaxed", RELAXED))
    }
    return {"labels": labels, "regular": float((activity.measure_variation(counts) <= 1.0).mean())}


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Label feeds whose true shape is known, and the feeds of the trace if there is one."""
    seeds = given.seeds or (5 if given.quick else 20)
    keys = [(truth, rate) for truth in TRUTHS for rate in CLASS_RATES]
    rows: list[Row] = []
    for (truth, rate), mine in run_grid(run_world, keys, seeds, given, progress).items():
        row: Row = {"truth": truth, "items_per_day": rate}
        for shape in DayShape:
            label = shape.name.lower()
            row[f"labelled_{label}"] = mean_sd([world["labels"]["strict"][shape] for world in mine])
            row[f"labelled_{label}_80"] = mean_sd([world["labels"]["relaxed"][shape] for world in mine])
        row["cv_at_most_1"] = mean_sd([world["regular"] for world in mine])
        rows.append(row)
    checks = _check_worlds(rows, seeds)
    result = ExperimentResult(
        "shapes", {"seeds": seeds, "feeds": FEEDS, "days": DAYS, "high": 1.5, "low": 0.5}, rows, checks
    )
    if given.trace is not None:
        _add_trace(result, given.trace)
    return result


def _label_share(rows: list[Row], truth: str, rate: float, label: str) -> dict[str, float]:
    row = next(row for row in rows if row["truth"] == truth and row["items_per_day"] == rate)
    share: dict[str, float] = row[f"labelled_{label}"]
    return share


def _check_worlds(rows: list[Row], seeds: int) -> list[Check]:
    """Check what the heuristic finds where the true shapes are known. The rows are means over `seeds` worlds."""
    fast, slow = CLASS_RATES[-1], CLASS_RATES[0]
    flat = [row for row in rows if row["truth"] == "uniform"]
    shares = (
        {truth: _label_share(rows, truth, fast, f"{truth}_80") for truth in TRUTHS},
        {truth: _label_share(rows, truth, slow, "peaks") for truth in TRUTHS},
        {f"{row['items_per_day']:g} a day": row["cv_at_most_1"] for row in flat},
    )
    recovered, seeming, regular = ({name: each["mean"] for name, each in part.items()} for part in shares)
    intervals = [half_widths({name: each["sd"] for name, each in part.items()}, seeds) for part in shares]
    return [
        Check(
            "the heuristic names the true shape of very productive feeds",
            min(recovered.values()) >= 0.9,
            "at 100 items a day, 80 % variant: ≥ 90 % of the feeds of each shape",
            recovered,
            "thesis alg. 6.1",
            intervals=intervals[0],
        ),
        Check(
            "most slow feeds are labelled as peaks whatever their true shape, because most of their hours stay empty",
            min(seeming.values()) > 0.5,
            "at .5 items a day over 28 days: more than half of the feeds of each shape",
            seeming,
            "ours: what the heuristic adds to thesis figs 6.6, 6.7",
            intervals=intervals[1],
        ),
        Check(
            "CV ≤ 1 needs a rate above 24 items a day for feeds without memory",
            regular["16 a day"] <= 0.1 and regular["36 a day"] >= 0.9,
            "Poisson feeds: ≤ 10 % at 16 a day, ≥ 90 % at 36 a day (σ/μ = 1/√μ per hour)",
            regular,
            "ours: what chance alone gives in thesis 6.3",
            intervals=intervals[2],
        ),
    ]


def _add_trace(result: ExperimentResult, path: Path) -> None:
    """Add the shapes of a real trace and check the thesis' statements on it."""
    found = describe_trace(load_trace(path, text=True))
    strict = found.count_shapes(found.shapes)
    relaxed = found.count_shapes(found.shapes_relaxed)
    result.settings["trace"] = path.name
    result.data["trace"] = relaxed
    for name in CLASS_NAMES:
        total = sum(strict[name].values())
        row: Row = {"truth": path.name, "items_per_day": name, "feeds": total}
        if total:
            for label in TRUTHS:
                row[f"labelled_{label}"] = strict[name][label] / total
                row[f"labelled_{label}_80"] = relaxed[name][label] / total
        result.rows.append(row)

    def part(which: dict[str, dict[str, int]], label: str, names: tuple[str, ...]) -> float:
        total = sum(sum(which[name].values()) for name in names)
        return sum(which[name][label] for name in names) / total if total else float("nan")

    slow, fast = CLASS_NAMES[:1], CLASS_NAMES[4:]
    peaks = {"below 1 a day": part(strict, "peaks", slow), "all others": part(strict, "peaks", CLASS_NAMES[1:])}
    uniform = {"24 a day and more": part(relaxed, "uniform", fast)}
    uniform["below 24"] = part(relaxed, "uniform", CLASS_NAMES[:4])
    waves = {name: part(relaxed, "waves", (name,)) for name in CLASS_NAMES if sum(relaxed[name].values())}
    cv = {"above 10 a day": found.regular_share(10.0), "above 48 a day": found.regular_share(48.0)}
    share = {
        "below 1": float((found.per_day < 1.0).mean()),
        "1–10": float(((found.per_day >= 1.0) & (found.per_day <= 10.0)).mean()),
        "above 10": float((found.per_day > 10.0).mean()),
    }
    for key, ours, theirs in (
        ("share_of_feeds", share, PUBLISHED_CLASSES),
        ("cv_at_most_1", cv, PUBLISHED_REGULAR),
        ("labelled_uniform_80", uniform, PUBLISHED_UNIFORM),
    ):
        result.rows += [
            {"truth": path.name, "items_per_day": name, key: ours[name], "paper": {key: published}}
            for name, published in theirs.items()
        ]
    result.checks += [
        Check(
            "very slow feeds tend to publish with peaks",
            peaks["below 1 a day"] >= 0.5 and not peaks["below 1 a day"] <= peaks["all others"],
            "more than half, and more than among the others",
            peaks,
            "thesis 6.4",
        ),
        Check(
            "the uniform shape is very much present among very productive feeds",
            uniform["24 a day and more"] >= 0.4,
            "80 % variant: ≥ 40 % (thesis 7.3.2: 57 % of those above one an hour)",
            uniform,
            "thesis 6.4, 7.3.2",
            because="most busy feeds publish less at night",
        ),
        Check(
            "waves appear in every activity class from low to high",
            bool(waves) and min(waves.values()) > 0.05,
            "more than 5 % of every class that has feeds",
            waves,
            "thesis 6.4",
        ),
        Check(
            "a fifth of the feeds above 10 items a day and half of those above 48 repeat their day (CV ≤ 1)",
            abs(cv["above 10 a day"] - 0.2) <= 0.1 and abs(cv["above 48 a day"] - 0.5) <= 0.15,
            "20 % ± 10 points, and 50 % ± 15 points",
            cv,
            "thesis 6.3",
            because="chance alone gives CV ≤ 1 from 24 items a day on, if a feed rarely pauses",
        ),
        Check(
            "news feeds of 1 to 10 items a day are the largest class",
            share["1–10"] == max(share.values()),
            "largest of three (thesis, news feeds: 25, 52, 23 %; feeds of directories: 50, 37, 14 %)",
            share,
            "thesis 6.2, fig. 6.2",
            because="the news trace has every publisher that a news service picked, most of them a few times",
        ),
    ]


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw the labels by true shape and rate, and the shapes of the trace."""
    from headwater.lab.description.description_figure import draw_shapes
    from headwater.lab.figures import create_figure

    traced = result.data.get("trace")
    figure, axes = create_figure(1, 3 + 2 * bool(traced), width=4.3)
    for axis, truth in zip(axes, TRUTHS, strict=False):
        mine = [row for row in result.rows if row["truth"] == truth]
        by_class = {
            name: {label: round(1000 * row[f"labelled_{label}_80"]["mean"]) for label in TRUTHS}
            for name, row in zip(CLASS_NAMES, mine, strict=True)
        }
        draw_shapes(axis, by_class, legend=truth == TRUTHS[0])
        axis.set_title(
            {"peaks": "Peaks stay peaks", "uniform": "Slow uniform feeds look like peaks"}.get(
                truth, "Slow waves look like peaks"
            )
        )
    if traced:
        draw_shapes(axes[3], traced, legend=False)
        axes[3].set_title(f"{result.settings['trace']}")
        _draw_classes(axes[4], result)
    figure.suptitle("How the shape heuristic (80 % variant) labels feeds of known shape over 28 days")
    return figure


def _draw_classes(axis: Any, result: ExperimentResult) -> None:
    """Draw the three classes of the thesis' figure 6.2, with its values as crosses."""
    from headwater.lab.figures import COLOURS

    share = {row["items_per_day"]: 100 * row["share_of_feeds"] for row in result.rows if "share_of_feeds" in row}
    axis.bar(list(share), list(share.values()), color=COLOURS[0], label=result.settings["trace"])
    for classes, label, mark in (
        (PUBLISHED_CLASSES, "thesis, news feeds", "x"),
        (PUBLISHED_OF_DIRECTORIES, "thesis, feeds of directories", "+"),
    ):
        axis.plot(list(classes), [100 * each for each in classes.values()], mark, color=COLOURS[1], ms=10, label=label)
    axis.set_xlabel("items per feed and day")
    axis.set_ylabel("feeds (%)")
    axis.set_title("Fig. 6.2: activity classes")
    axis.legend(fontsize=8)


EXPERIMENT = Experiment(
    "shapes",
    "Horincar's thesis, chapter 6",
    "activity classes, periodicity and daily shapes, on worlds of known shape and on a real trace",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace"}),
    question="Do real feeds have the shapes, rates and periodicity of the thesis' data set?",
)
