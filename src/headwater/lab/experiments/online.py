"""Measures online estimation of publication times, alone and inside two_steps (thesis 7.3, figs 7.6–7.10).

It has four parts: how fast a periodic model follows a feed that changes its shape (7.6, 7.7), the divergence error of
single, periodic and hybrid by shape and refresh rate (7.8), beside them smoothed (7.2.4) and likelihood (7.4),
completeness and freshness of two_steps with the models at equal cost (7.9, 7.10), and a model that is learned from
frequent refreshes for four weeks and then kept (7.3.4).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats
from headwater.errors import TraceError
from headwater.estimate import load
from headwater.estimate.class_spec import ClassSpec, parse_spec
from headwater.estimate.estimator import Estimator
from headwater.estimate.models.smoothing import PeriodicRate
from headwater.estimate.registry import build_estimator
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
OTHER_MODELS = ("smoothed", "likelihood")  # thesis 7.2.4 and 7.4, which the thesis does not measure
HOURS = (0.5, 1.0, 2.0, 4.0, 8.0, 24.0)
ALPHAS = (0.02, 0.07, 0.2)  # the best is used for each model, shape and refresh rate, as in the thesis
PER_FEED = 48.0  # items a day, the same for all feeds, so that only shapes differ
FEEDS = 10
WARMUP_DAYS, MEASURED_DAYS = 14, 14
QUALITY_HOURS, QUALITY_DAYS = (2.0, 4.0, 6.0, 8.0, 12.0, 24.0), 5
FORFEIT_HOURS = (4.0, 6.0, 8.0)  # where the budget decides which refresh is missed
LEARNING_DAYS = 28  # of hourly refreshes before a model is kept (7.3.4)
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
    """Make an estimator, with this smoothing factor if it takes one."""
    spec = parse_spec(name)
    takes_alpha = "alpha" in inspect.signature(load(name)).parameters
    return build_estimator(ClassSpec(spec.name, {"alpha": alpha, **spec.options}) if takes_alpha else spec)


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


def measure_kept_model(shape: str, hours: float, seeds: int, changing: bool) -> dict[str, float]:
    """Return the errors of a periodic model that always learns, and of one learned from hourly refreshes and then kept.

    Both are refreshed every `hours` after the first four weeks. With `changing` the feed takes another shape after it.
    """
    days = LEARNING_DAYS + 2 * MEASURED_DAYS
    edge, warmup = LEARNING_DAYS * CYCLES_PER_DAY, (LEARNING_DAYS + MEASURED_DAYS) * CYCLES_PER_DAY
    other = SHAPES[(SHAPES.index(shape) + 1) % len(SHAPES)] if changing else shape
    counts, often, rarely = [], [], []
    for seed in range(seeds):
        rng = make_rng(seed, SHAPES.index(shape), 11)
        first = draw_counts(shape, FEEDS, LEARNING_DAYS, rng)
        counts.append(np.vstack([first, draw_counts(other, FEEDS, days - LEARNING_DAYS, rng)]))
        rare = draw_refreshes(days * CYCLES_PER_DAY, FEEDS, hours, rng)
        rarely.append(rare)
        often.append(np.vstack([draw_refreshes(edge, FEEDS, 1.0, rng), rare[edge:]]))
    groups = np.repeat(np.arange(seeds), FEEDS)
    found = {}
    for name, plans, until in (("online", rarely, None), ("learned apart, then kept", often, edge)):
        error = measure_error(
            make_model("periodic", 0.1),
            np.hstack(counts),
            np.hstack(plans),
            groups,
            warmup,
            learn_until=until,
        )
        found[name] = float(error.divergence.mean() / PER_FEED)
    return found


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


@cache
def select_real_counts(path: Path) -> dict[str, ItemCounts]:
    """Return the items by cycle of up to ten feeds of each shape with at least ten items a day, over four weeks."""
    trace = load_trace(path)
    last = trace.select_period(trace.end - 28 * DAY, trace.end + 1)
    labels = activity.classify_shapes(activity.count_by_hour(last).mean, share=0.8)
    found: dict[str, ItemCounts] = {}
    for shape in DayShape:
        busy = np.flatnonzero((last.counts >= 280) & (labels == shape))[:FEEDS]
        if not len(busy):
            continue
        chosen = last.select_feeds(busy)
        cycle = ((chosen.times - last.start) // CYCLE_SECONDS).astype(np.int64)
        counts = np.zeros((28 * CYCLES_PER_DAY, len(busy)), dtype=np.int64)
        inside = cycle < len(counts)
        np.add.at(counts, (cycle[inside], chosen.item_feeds()[inside]), 1)
        found[shape.name.lower()] = counts
    if not found:
        raise TraceError(f"The trace {path.name} has no feed with ten items a day in its last four weeks.")
    return found


def measure_trace_errors(path: Path, hours: tuple[float, ...]) -> dict[str, dict[str, list[float]]]:
    """Measure divergence errors on the real feeds of each shape, by model and refresh rate."""
    found: dict[str, dict[str, list[float]]] = {}
    for label, counts in select_real_counts(path).items():
        # Normalised as in the thesis, because only the shape counts. Ten thousandths of a day's items keep the counts
        # whole.
        normal = np.round(counts / counts.sum(0) * 28 * 10_000).astype(np.int64)
        feeds = counts.shape[1]
        found[label] = {name: [] for name in MODELS}
        for each in hours:
            plan = draw_refreshes(len(counts), feeds, each, make_rng(0, SHAPES.index(label), round(each * 10)))
            for name in MODELS:
                errors = [
                    measure_error(
                        make_model(name, a),
                        normal,
                        plan,
                        np.zeros(feeds, dtype=np.int64),
                        WARMUP_DAYS * CYCLES_PER_DAY,
                    )
                    for a in ALPHAS
                ]
                found[label][name].append(min(float(each_error.divergence[0]) for each_error in errors) / 10_000)
    return found


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Run all parts on synthetic feeds, and errors and two_steps on the trace if there is one."""
    seeds = given.seeds or (2 if given.quick else 20)
    hours = (1.0, 8.0, 24.0) if given.quick else HOURS
    quality_hours = (4.0, 8.0) if given.quick else QUALITY_HOURS
    phase = 6 if given.quick else PHASE_WEEKS
    models = given.estimators or MODELS
    measured = given.estimators or (MODELS if given.quick else (*MODELS, *OTHER_MODELS))
    for name in models:
        make_model(name, 0.1)  # an unknown name is reported before anything runs
    rows: list[Row] = []
    errors = _add_error_rows(given, progress, seeds, hours, measured, rows)
    quality = _add_quality_rows(given, progress, seeds, quality_hours, models, rows)
    settings = {"seeds": seeds, "feeds": FEEDS, "items_per_day": PER_FEED, "hours": list(hours)}
    settings["window"] = given.window or WINDOW
    data: dict[str, Any] = {"errors": errors, "quality": quality, "hours": hours, "quality_hours": quality_hours}
    result = ExperimentResult("online", settings, rows, [], data=data | {"phase": phase, "distance": {}})
    if set(models) >= set(MODELS):
        forfeits = _add_forfeited_rows(given, progress, seeds, quality_hours, rows)
        followed = run_each(
            follow_changing_feed, (1.0, 24.0), given, progress, "changing feeds", seeds=seeds, phase_weeks=phase
        )
        result.data["distance"] = {f"{each:g} h": distances for each, distances in followed.items()}
        result.checks += _check_following(result.data["distance"], phase) + _check_errors(errors, hours)
        result.checks += _check_quality(quality, quality_hours) + _check_forfeits(forfeits)
        result.checks += _add_kept_models(given, progress, seeds, rows)
    if given.trace is not None:
        _add_trace(result, given, given.trace, progress, hours, quality_hours, models)
    return result


def _add_trace(
    result: ExperimentResult,
    given: LabSettings,
    trace: Path,
    progress: Progress,
    hours: tuple[float, ...],
    quality_hours: tuple[float, ...],
    models: Sequence[str],
) -> None:
    """Add the errors of the models on real feeds, and two_steps with each of them."""
    real = measure_trace_errors(trace, hours)
    result.settings["trace"] = trace.name
    for shape, by_model in real.items():
        for name, values in by_model.items():
            for each, value in zip(hours, values, strict=True):
                row = {"shape": f"{shape} of {trace.name}", "strategy": name, "hours": each, "budget": 24.0 / each}
                result.rows.append(row | {"divergence_error": value})
    result.checks += check_trace_errors(real, hours, trace.name)
    keys = [(shape, name, each) for shape in real for name in models for each in quality_hours]
    runs = run_each(
        run_trace_two_steps, keys, given, progress, "two_steps on the trace", path=trace, window=given.window or WINDOW
    )
    for (shape, name, each), scores in runs.items():
        row = {"shape": f"{shape} of {trace.name}", "strategy": f"two_steps, {name}", "hours": each}
        row |= {"budget": 24.0 / each, "requests": float(scores.requests)}
        result.rows.append(row | {"completeness": scores.completeness, "freshness": scores.freshness})


def _add_forfeited_rows(
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


def _add_kept_models(given: LabSettings, progress: Progress, seeds: int, rows: list[Row]) -> list[Check]:
    """Measure thesis 7.3.4: a model learned apart and kept, at one refresh a day, for feeds that stay or change."""
    keys = [(shape, 24.0, changing) for shape in ("peaks", "waves") for changing in (False, True)]
    found = {}
    jobs = [(shape, hours, seeds, changing) for shape, hours, changing in keys]
    for (shape, hours, _, changing), errors in run_each(measure_kept_model, jobs, given, progress, "kept").items():
        label = f"{shape}, then another shape" if changing else shape
        for name, error in errors.items():
            rows.append(
                {"shape": label, "strategy": f"periodic, {name}", "hours": hours, "budget": 24.0 / hours}
                | {"divergence_error": error}
            )
        found[shape, changing] = errors["learned apart, then kept"] / errors["online"]
    stays = {shape: ratio for (shape, changing), ratio in found.items() if not changing}
    moves = {shape: ratio for (shape, changing), ratio in found.items() if changing}
    return [
        Check(
            "at one refresh a day a model learned apart and then kept errs less than one that learns online",
            max(stays.values()) < 1.0,
            "ratio of the errors below 1 for feeds that keep their shape",
            stays,
            "thesis 7.3.4",
            because="it holds for peaks only: for waves the model that learns from daily refreshes errs less",
        ),
        Check(
            "a kept model is not reliable for feeds that change",
            max(moves.values()) > 1.0,
            "ratio of the errors above 1 for one shape at least",
            moves,
            "thesis 7.3.4",
        ),
    ]


def _add_error_rows(
    given: LabSettings,
    progress: Progress,
    seeds: int,
    hours: tuple[float, ...],
    models: Sequence[str],
    rows: list[Row],
) -> dict[tuple[str, str, float], Floats]:
    """Measure the errors with the best smoothing factor, and add their rows."""
    keys = [(shape, name, each) for shape in SHAPES for name in models for each in hours]
    jobs = [(*key, alpha) for key in keys for alpha in (ALPHAS if key[1] in MODELS else ALPHAS[:1])]
    found = run_each(measure_errors, jobs, given, progress, "divergence errors", seeds=seeds)
    best: dict[tuple[str, str, float], Floats] = {}
    for shape, name, each in keys:
        tried = [a for a in ALPHAS if (shape, name, each, a) in found]
        alpha = min(tried, key=lambda a: float(found[shape, name, each, a].mean()))
        best[shape, name, each] = found[shape, name, each, alpha]
        rows.append(
            {"shape": shape, "strategy": name, "hours": each, "budget": 24.0 / each, "alpha": alpha}
            | {"divergence_error": mean_sd(best[shape, name, each])}
        )
    return best


def _add_quality_rows(
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


def _check_forfeits(runs: Mapping[tuple[str, float], Sequence[CycleScores]]) -> list[Check]:
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
    names = list(dict.fromkeys(name for _, name, _ in result.data["errors"]))
    for column, shape in enumerate(SHAPES):
        known = list(dict.fromkeys(name for _, name, _ in result.data["quality"]))
        _draw_errors(axes[column], result.data["errors"], shape, hours, names)
        for row, measure in ((1, 0), (2, 1)):
            axis, at = axes[3 * row + column], result.data["quality_hours"]
            _draw_quality(axis, result.data["quality"], shape, at, measure, known)
    axes[0].legend(fontsize=8)
    axes[3].legend(fontsize=8)
    for axis in axes[10:] if result.data["distance"] else axes[9:]:
        axis.remove()
    if result.data["distance"]:
        _draw_distance(axes[9], result)
    figure.suptitle("A model of the day errs less for waves, and for peaks that are refreshed often")
    return figure


def _draw_errors(axis: Any, errors: Any, shape: str, hours: Any, names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        axis.plot(hours, [errors[shape, name, each].mean() * 100 for each in hours], label=name, **line_style(place))
    axis.set_xscale("log", base=2)
    axis.set_xticks(hours, [f"{each:g}" for each in hours])
    axis.set_xlabel("mean hours between refreshes")
    axis.set_ylabel("divergence error\n(% of a day's items)")
    axis.set_title(f"{shape}: divergence error", fontsize=10)


def _draw_quality(axis: Any, quality: Any, shape: str, hours: Any, measure: int, names: Sequence[str]) -> None:
    for place, name in enumerate(names):
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
    "Horincar's thesis, 7.2.4, 7.3, 7.4, figs 7.7–7.10",
    "estimation of the publication rate by daily shape and refresh rate, alone and inside two_steps",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace", "estimators", "window"}),
)
