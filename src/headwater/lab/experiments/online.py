"""Measures online estimation of publication times, alone and inside two_steps (thesis 7.3, figs 7.6–7.10).

It has three parts: how fast a periodic model follows a feed that changes its shape (7.6, 7.7), the divergence error of
single, periodic and hybrid by shape and refresh rate (7.8), and completeness and freshness of two_steps with each of
them (7.9, 7.10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats
from headwater.errors import TraceError
from headwater.estimate import ESTIMATORS
from headwater.estimate.estimator import Estimator
from headwater.estimate.models.smoothing import PeriodicRate
from headwater.lab.description import activity
from headwater.lab.description.activity import DayShape
from headwater.lab.experiment import (
    Check,
    Experiment,
    ExperimentResult,
    LabSettings,
    Progress,
    Row,
    make_strategy,
    mean_sd,
)
from headwater.lab.figures import create_figure, line_style
from headwater.lab.simulation.cycles import CycleScores, CycleSettings, make_random_world, make_rng, run_cycles
from headwater.lab.simulation.estimator_error import (
    CYCLE_SECONDS,
    CYCLES_PER_DAY,
    ItemCounts,
    average_day,
    draw_refreshes,
    measure_error,
)
from headwater.lab.sweep import run_each, run_grid
from headwater.lab.traces import daily_shapes
from headwater.lab.traces.synthetic_world import list_shapes
from headwater.lab.traces.trace import load_trace
from headwater.times import DAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ErrorsByKey = Mapping[tuple[str, str, float], Floats]
QualityByKey = Mapping[tuple[str, str, float], tuple[Floats, Floats]]
SHAPES = ("peaks", "uniform", "waves")
MODELS = ("single", "periodic", "hybrid")
HOURS = (0.5, 1.0, 2.0, 4.0, 8.0, 24.0)
ALPHAS = (0.02, 0.07, 0.2)  # the best is used for each model, shape and refresh rate, as in the thesis
PER_FEED = 48.0  # items a day, the same for all feeds, so that only shapes differ
FEEDS = 10
WARMUP_DAYS, MEASURED_DAYS = 14, 14
QUALITY_HOURS, QUALITY_DAYS = (1.0, 4.0, 24.0), 5
PHASE_WEEKS = 16
WINDOW = 20


def draw_counts(shape: str, feeds: int, days: int, rng: np.random.Generator) -> ItemCounts:
    """Draw the items of feeds of one shape in every cycle of ten minutes."""
    kind: Any = shape
    choices = list_shapes(kind)
    chosen = [choices[int(rng.integers(len(choices)))] for _ in range(feeds)]
    edges = np.arange(CYCLES_PER_DAY + 1) * CYCLE_SECONDS
    day = np.array([np.diff(daily_shapes.integrate_shape(each, edges)) for each in chosen]).T * PER_FEED / DAY
    return np.asarray(rng.poisson(np.tile(day, (days, 1))))


def make_model(name: str, alpha: float) -> Estimator:
    """Make an estimator with this smoothing factor."""
    kind: Any = ESTIMATORS[name]  # all three take α; estimators in general do not
    made: Estimator = kind(0, alpha=alpha)
    return made


def measure_errors(shape: str, name: str, hours: float, alpha: float, seeds: int) -> Floats:
    """Return eq. 7.4 for every seed, as a share of a day's items. Feeds are independent, so all seeds run as one
    array."""
    days = WARMUP_DAYS + MEASURED_DAYS
    rngs = [make_rng(seed, SHAPES.index(shape), 7) for seed in range(seeds)]
    counts = np.hstack([draw_counts(shape, FEEDS, days, rng) for rng in rngs])
    plan = np.hstack([draw_refreshes(days * CYCLES_PER_DAY, FEEDS, hours, rng) for rng in rngs])
    groups = np.repeat(np.arange(seeds), FEEDS)
    return (
        measure_error(make_model(name, alpha), counts, plan, groups, WARMUP_DAYS * CYCLES_PER_DAY).divergence / PER_FEED
    )


def follow_changing_feed(hours: float, seeds: int, phase_weeks: int) -> Floats:
    """Return the distance between the true and the periodic model at the end of every week: weeks × seeds."""
    weeks = 3 * phase_weeks
    parts, plans = [], []
    for seed in range(seeds):
        rng = make_rng(seed, 99)
        order = ("uniform", "peaks", "waves")
        parts.append(np.vstack([draw_counts(shape, 1, phase_weeks * 7, rng) for shape in order]))
        plans.append(draw_refreshes(weeks * 7 * CYCLES_PER_DAY, 1, hours, rng))
    counts = np.hstack(parts)
    everyone = np.zeros(seeds, dtype=np.int64)
    found = measure_error(make_model("periodic", 0.1), counts, np.hstack(plans), everyone, counts.shape[0], weekly=True)
    truth = np.array([average_day(counts, week + 1) for week in range(weeks)])
    return np.asarray(np.sqrt(((found.models - truth) ** 2).sum(2)) / PER_FEED)


def run_two_steps(shape: str, name: str, hours: float, seed: int) -> CycleScores:
    """Run two_steps with a model on ten feeds of one shape, each refreshed every `hours` on average."""
    days = 7 + QUALITY_DAYS
    rng = make_rng(seed, SHAPES.index(shape), 8)
    counts = draw_counts(shape, FEEDS, days, rng)
    size = CycleSettings(
        feeds=FEEDS,
        window=WINDOW,
        warmup=7 * CYCLES_PER_DAY,
        measured=QUALITY_DAYS * CYCLES_PER_DAY,
        seconds=CYCLE_SECONDS,
    )
    world = make_random_world(size, counts, np.ones(FEEDS), rng)
    if name == "known":
        estimator: Estimator = _make_known_model(counts)
    else:
        estimator = make_model(name, 0.1)
    strategy = make_strategy("two_steps", FEEDS, estimator=estimator, rng=make_rng(seed, 9))
    return run_cycles(world, strategy, FEEDS / (hours * 6), knowledge="nothing", censored=False)


def _make_known_model(counts: ItemCounts) -> PeriodicRate:
    """Make the true model of the whole run, which is never updated (the thesis' offline case)."""
    days = counts.reshape(-1, 24, 6, counts.shape[1]).sum(2).mean(0).T
    known = PeriodicRate(counts.shape[1], alpha=0.0)
    known.set_slots(np.arange(counts.shape[1]), np.maximum(days, 1e-6))
    return known


def measure_trace_errors(path: Path, hours: tuple[float, ...]) -> dict[str, dict[str, list[float]]]:
    """Measure divergence errors on a trace, by shape and model.

    Up to ten feeds of each shape with at least ten items a day count, over their last four weeks.
    """
    trace = load_trace(path)
    last = trace.select_period(trace.end - 28 * DAY, trace.end + 1)
    counted = activity.count_by_hour(last)
    labels = activity.classify_shapes(counted.mean, share=0.8)
    found: dict[str, dict[str, list[float]]] = {}
    for shape in DayShape:
        busy = np.flatnonzero((last.counts >= 280) & (labels == shape))[:FEEDS]
        if not len(busy):
            continue
        chosen = last.select_feeds(busy)
        cycle = ((chosen.times - last.start) // CYCLE_SECONDS).astype(np.int64)
        counts = np.zeros((28 * CYCLES_PER_DAY, len(busy)))
        inside = cycle < len(counts)
        np.add.at(counts, (cycle[inside], chosen.item_feeds()[inside]), 1)
        # Normalised as in the thesis, because only the shape counts. Ten thousandths of a day's items keep the counts
        # whole.
        normal = np.round(counts / counts.sum(0) * 28 * 10_000).astype(np.int64)
        label = shape.name.lower()
        found[label] = {name: [] for name in MODELS}
        for each in hours:
            plan = draw_refreshes(len(counts), len(busy), each, make_rng(0, int(shape), round(each * 10)))
            for name in MODELS:
                errors = [
                    measure_error(
                        make_model(name, a),
                        normal,
                        plan,
                        np.zeros(len(busy), dtype=np.int64),
                        WARMUP_DAYS * CYCLES_PER_DAY,
                    )
                    for a in ALPHAS
                ]
                found[label][name].append(min(float(each_error.divergence[0]) for each_error in errors) / 10_000)
    if not found:
        raise TraceError(f"The trace {path.name} has no feed with ten items a day in its last four weeks.")
    return found


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Run all three parts on synthetic feeds, and the second on the trace if there is one."""
    seeds = given.seeds or (2 if given.quick else 20)
    hours = (1.0, 8.0, 24.0) if given.quick else HOURS
    phase = 6 if given.quick else PHASE_WEEKS
    rows: list[Row] = []
    errors = _add_error_rows(given, progress, seeds, hours, rows)
    quality = _add_quality_rows(given, progress, seeds, QUALITY_HOURS, rows)
    followed = run_each(
        follow_changing_feed, (1.0, 24.0), given, progress, "changing feeds", seeds=seeds, phase_weeks=phase
    )
    distance = {f"{each:g} h": distances for each, distances in followed.items()}
    checks: list[Check] = check_all(errors, quality, distance, hours, QUALITY_HOURS, phase)
    settings = {"seeds": seeds, "feeds": FEEDS, "items_per_day": PER_FEED, "window": WINDOW, "hours": list(hours)}
    data = {"errors": errors, "quality": quality, "distance": distance, "hours": hours, "phase": phase}
    data["quality_hours"] = QUALITY_HOURS
    result = ExperimentResult("online", settings, rows, checks, data=data)
    if given.trace is not None:
        real = measure_trace_errors(given.trace, hours)
        result.settings["trace"] = given.trace.name
        for shape, by_model in real.items():
            for name, values in by_model.items():
                for each, value in zip(hours, values, strict=True):
                    label = f"{shape} of {given.trace.name}"
                    row = {"shape": label, "strategy": name, "hours": each, "budget": 24.0 / each}
                    result.rows.append(row | {"divergence_error": value})
        result.checks += check_trace_errors(real, hours, given.trace.name)
    return result


def _add_error_rows(
    given: LabSettings, progress: Progress, seeds: int, hours: tuple[float, ...], rows: list[Row]
) -> dict[tuple[str, str, float], Floats]:
    """Measure the errors with the best smoothing factor, and add their rows."""
    keys = [(shape, name, each) for shape in SHAPES for name in MODELS for each in hours]
    jobs = [(*key, alpha) for key in keys for alpha in ALPHAS]
    found = run_each(measure_errors, jobs, given, progress, "divergence errors", seeds=seeds)
    best: dict[tuple[str, str, float], Floats] = {}
    for shape, name, each in keys:
        alpha = min(ALPHAS, key=lambda a: float(found[shape, name, each, a].mean()))
        best[shape, name, each] = found[shape, name, each, alpha]
        rows.append(
            {"shape": shape, "strategy": name, "hours": each, "budget": 24.0 / each, "alpha": alpha}
            | {"divergence_error": mean_sd(best[shape, name, each])}
        )
    return best


def _add_quality_rows(
    given: LabSettings, progress: Progress, seeds: int, hours: tuple[float, ...], rows: list[Row]
) -> dict[tuple[str, str, float], tuple[Floats, Floats]]:
    """Measure two_steps with each model, and add the rows."""
    keys = [(shape, name, each) for shape in SHAPES for name in ("known", *MODELS) for each in hours]
    runs = run_grid(run_two_steps, keys, seeds, given, progress, "two_steps")
    quality = {}
    for key, mine in runs.items():
        completeness = np.array([score.completeness for score in mine])
        freshness = np.array([score.freshness for score in mine])
        quality[key] = (completeness, freshness)
        shape, name, each = key
        rows.append(
            {"shape": shape, "strategy": f"two_steps, {name}", "hours": each, "budget": 24.0 / each}
            | {"requests": float(np.mean([score.requests for score in mine]))}
            | {"completeness": mean_sd(completeness), "freshness": mean_sd(freshness)}
        )
    return quality


def check_all(
    errors: ErrorsByKey,
    quality: QualityByKey,
    distance: Mapping[str, Floats],
    hours: Sequence[float],
    quality_hours: Sequence[float],
    phase: int,
) -> list[Check]:
    """Check the thesis' statements about all three parts."""
    return [*_check_following(distance, phase), *_check_errors(errors, hours), *_check_quality(quality, quality_hours)]


def _check_following(distance: Mapping[str, Floats], phase: int) -> list[Check]:
    """Check figures 7.6 and 7.7: the distances at the end of each phase, and whether they fall within it."""
    ends = [phase * (k + 1) - 1 for k in range(3)]
    often = {f"1 h, week {end + 1}": float(distance["1 h"][end].mean()) for end in ends}
    rare = {f"24 h, week {end + 1}": float(distance["24 h"][end].mean()) for end in ends}
    last = [np.mean(list(each.values())[1:]) for each in (often, rare)]
    jump = [float(distance["1 h"][phase * k].mean()) for k in (1, 2)]
    settled = [often[f"1 h, week {ends[k] + 1}"] for k in (1, 2)]
    return [
        Check(
            "refreshed every hour the periodic model converges to the true one within each phase",
            all(end < 0.6 * start for start, end in zip(jump, settled, strict=True)),
            "distance at the end of the peaks and waves phases below 60 % of that one week after the change",
            often | {f"one week after change {k + 1}": value for k, value in enumerate(jump)},
            "thesis fig. 7.7",
        ),
        Check(
            "refreshed once a day the periodic model is far worse and does not converge",
            bool(last[1] > 1.5 * last[0]),
            "distance at the ends of peaks and waves more than 1.5 times that with hourly refreshes",
            often | rare,
            "thesis figs 7.6, 7.7",
        ),
    ]


def _error_ratios(errors: ErrorsByKey, shape: str, hours: Sequence[float]) -> dict[str, float]:
    """Return the error of periodic over that of single by refresh interval."""
    return {
        f"{each:g} h": float(errors[shape, "periodic", each].mean() / errors[shape, "single", each].mean())
        for each in hours
    }


def _check_errors(errors: ErrorsByKey, hours: Sequence[float]) -> list[Check]:
    """Check figure 7.8: which model errs less for which shape."""
    waves, flat = _error_ratios(errors, "waves", hours), _error_ratios(errors, "uniform", hours)
    peaks = _error_ratios(errors, "peaks", hours)
    often = {key: value for key, value in peaks.items() if float(key[:-2]) <= 1.0}
    rare = {key: value for key, value in peaks.items() if float(key[:-2]) >= 8.0}
    chosen = {
        f"{shape}, {each:g} h": float(
            errors[shape, "hybrid", each].mean()
            / min(errors[shape, name, each].mean() for name in ("single", "periodic"))
        )
        for shape in ("peaks", "uniform", "waves")
        for each in hours
    }
    return [
        Check(
            "for waves the periodic model errs less than the single one, however often feeds are refreshed",
            max(waves.values()) < 1.0,
            "ratio of the errors below 1 at every refresh rate",
            waves,
            "thesis fig. 7.8c",
        ),
        Check(
            "for peaks the periodic model errs less when feeds are refreshed often",
            max(often.values()) < 1.0,
            "ratio below 1 up to one hour",
            often,
            "thesis fig. 7.8a",
        ),
        Check(
            "for peaks the single model becomes as good when feeds are refreshed rarely",
            min(rare.values()) > 0.9,
            "ratio above .9 from eight hours on",
            rare,
            "thesis fig. 7.8a",
        ),
        Check(
            "for uniform feeds both models do alike",
            all(0.9 <= value <= 1.15 for value in flat.values()),
            "ratio within .9 … 1.15 at every refresh rate",
            flat,
            "thesis fig. 7.8b",
        ),
        Check(
            "the hybrid model follows the better of the two",
            max(chosen.values()) <= 1.15,
            "error at most 1.15 times that of the better model",
            {"worst": max(chosen.values()), "mean": float(np.mean(list(chosen.values())))},
            "thesis 7.2.3",
            because="it switches on the error of one refresh",
        ),
    ]


def _check_quality(quality: QualityByKey, hours: Sequence[float]) -> list[Check]:
    """Check figures 7.9 and 7.10: what the models are worth to two_steps."""

    def gap(shape: str, each: float, measure: int) -> float:
        return float((quality[shape, "periodic", each][measure] - quality[shape, "single", each][measure]).mean())

    first, last = hours[0], hours[-1]
    generous = {
        f"{shape}, {name}": float(quality[shape, name, first][0].mean())
        for shape in ("peaks", "uniform", "waves")
        for name in ("single", "periodic")
    }
    waves = {f"{each:g} h": gap("waves", each, 0) for each in hours}
    flat = {f"{each:g} h": gap("uniform", each, 0) for each in hours}
    peaks = {"completeness": gap("peaks", last, 0), "freshness": gap("peaks", last, 1)}
    return [
        Check(
            "with frequent refreshes both models give very good completeness whatever the shape",
            min(generous.values()) >= 0.95,
            f"at one refresh per {first:g} h: at least .95",
            generous,
            "thesis fig. 7.9",
        ),
        Check(
            "for waves two_steps is more complete with the periodic model, however often it refreshes",
            min(waves.values()) >= -0.005,
            "completeness with periodic less that with single, at least −.005 at every rate",
            waves,
            "thesis fig. 7.9c",
        ),
        Check(
            "for uniform feeds both models serve two_steps alike",
            max(abs(value) for value in flat.values()) <= 0.03,
            "completeness within .03 of each other",
            flat,
            "thesis fig. 7.9b",
        ),
        Check(
            "for peaks both models serve two_steps alike when refreshes are rare",
            max(abs(value) for value in peaks.values()) <= 0.05,
            f"at one refresh per {last:g} h: within .05 of each other",
            peaks,
            "thesis figs 7.9a, 7.10a",
        ),
    ]


def check_trace_errors(
    real: Mapping[str, Mapping[str, Sequence[float]]], hours: Sequence[float], name: str
) -> list[Check]:
    """Check the statements about waves and uniform feeds on a real trace."""
    checks = []
    for shape, low, high, text in (
        ("waves", 0.0, 1.0, "the periodic model errs less than the single one for waves"),
        ("uniform", 0.85, 1.15, "both models do alike for uniform feeds"),
    ):
        if shape not in real:
            continue
        ratio = {
            f"{each:g} h": periodic / single
            for each, periodic, single in zip(hours, real[shape]["periodic"], real[shape]["single"], strict=True)
        }
        checks.append(
            Check(
                f"on {name}: {text}",
                all(low <= value < high for value in ratio.values()),
                f"ratio of the errors within {low:g} … {high:g} at every refresh rate",
                ratio,
                "thesis fig. 7.8",
            )
        )
    return checks


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw figures 7.7–7.10: errors, completeness and freshness by shape, and the distance of a changing feed."""
    figure, axes = create_figure(4, 3, width=4.6, height=3.1)
    hours = result.data["hours"]
    for column, shape in enumerate(SHAPES):
        _draw_errors(axes[column], result.data["errors"], shape, hours)
        for row, measure in ((1, 0), (2, 1)):
            _draw_quality(axes[3 * row + column], result.data["quality"], shape, result.data["quality_hours"], measure)
    axes[0].legend(fontsize=8)
    axes[3].legend(fontsize=8)
    for axis in axes[10:]:
        axis.remove()
    _draw_distance(axes[9], result)
    figure.suptitle(
        "A model of the day pays for waves, and for peaks that are refreshed often; two_steps hardly notices"
    )
    return figure


def _draw_errors(axis: Any, errors: Any, shape: str, hours: Any) -> None:
    for place, name in enumerate(("single", "periodic", "hybrid")):
        axis.plot(hours, [errors[shape, name, each].mean() * 100 for each in hours], label=name, **line_style(place))
    axis.set_xscale("log", base=2)
    axis.set_xticks(hours, [f"{each:g}" for each in hours])
    axis.set_xlabel("mean hours between refreshes")
    axis.set_ylabel("divergence error\n(% of a day's items)")
    axis.set_title(f"{shape}: divergence error", fontsize=10)


def _draw_quality(axis: Any, quality: Any, shape: str, hours: Any, measure: int) -> None:
    for place, name in enumerate(("single", "periodic", "hybrid", "known")):
        values = [quality[shape, name, each][measure].mean() for each in hours]
        axis.plot(hours, values, label=name, **line_style(place))
    axis.set_xscale("log", base=2)
    axis.set_xticks(hours, [f"{each:g}" for each in hours])
    axis.set_xlabel("mean hours between refreshes (two_steps)")
    axis.set_ylabel(("completeness C_F", "freshness F_W")[measure])
    axis.set_ylim(0, 1.05)
    axis.set_title(f"{shape}: {('completeness', 'freshness')[measure]}", fontsize=10)


def _draw_distance(axis: Any, result: ExperimentResult) -> None:
    for place, (name, values) in enumerate(result.data["distance"].items()):
        axis.plot(
            np.arange(1, len(values) + 1), values.mean(1), label=f"every {name}", **line_style(place, marker=False)
        )
    for change in (1, 2):
        axis.axvline(change * result.data["phase"] + 0.5, color="#777777", linewidth=0.8)
    axis.set_xlabel("week (uniform | peaks | waves)")
    axis.set_ylabel("distance to the true day")
    axis.set_title("A feed that changes its shape twice", fontsize=10)
    axis.legend(fontsize=8)


EXPERIMENT = Experiment(
    "online",
    "Horincar's thesis, figs 7.6–7.10",
    "single, periodic and hybrid estimation by daily shape and refresh rate, alone and inside two_steps",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace"}),
)
