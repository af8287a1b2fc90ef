"""Online estimation of when feeds publish, and what it is worth to two_steps (thesis 7.3, figs 7.6–7.10).

Three parts: how fast a periodic model follows a feed that changes its shape (7.6, 7.7), the divergence error of single,
periodic and hybrid by shape and refresh rate (7.8), and completeness and freshness of two_steps with each (7.9, 7.10).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headwater.errors import TraceError
from headwater.estimate import ESTIMATORS
from headwater.estimate.base import Estimator, Floats
from headwater.estimate.periodic import PeriodicRate
from headwater.lab import activity, shapes
from headwater.lab.activity import DayShape
from headwater.lab.cycles import CycleScores, CycleSettings, make_random_world, make_rng, run_cycles
from headwater.lab.estimation import (
    CYCLE_SECONDS,
    CYCLES_PER_DAY,
    ItemCounts,
    average_day,
    draw_refreshes,
    measure_error,
)
from headwater.lab.experiments.base import Check, Experiment, ExperimentResult, LabSettings, Progress, Row, mean_sd
from headwater.lab.experiments.online_checks import check_all, check_trace_errors
from headwater.lab.experiments.online_plot import draw_figure
from headwater.lab.strategies import make
from headwater.lab.sweep import SweepJob, run_jobs
from headwater.lab.traces import load_trace
from headwater.lab.worlds import list_shapes

SHAPES = ("peaks", "uniform", "waves")
MODELS = ("single", "periodic", "hybrid")
HOURS = (0.5, 1.0, 2.0, 4.0, 8.0, 24.0)
ALPHAS = (0.02, 0.07, 0.2)  # the best is taken for each model, shape and refresh rate, as the thesis does
PER_FEED = 48.0  # items a day: the same for all feeds, so that only their shapes differ
FEEDS = 10
WARMUP_DAYS, MEASURED_DAYS = 14, 14
QUALITY_HOURS, QUALITY_DAYS = (1.0, 4.0, 24.0), 5
PHASE_WEEKS = 16
WINDOW = 20


def draw_counts(shape: str, feeds: int, days: int, rng: np.random.Generator) -> ItemCounts:
    """Items of feeds of one shape in every cycle of ten minutes."""
    kind: Any = shape
    choices = list_shapes(kind)
    chosen = [choices[int(rng.integers(len(choices)))] for _ in range(feeds)]
    edges = np.arange(CYCLES_PER_DAY + 1) * CYCLE_SECONDS
    day = np.array([np.diff(shapes.integrate_shape(each, edges)) for each in chosen]).T * PER_FEED / shapes.DAY
    return np.asarray(rng.poisson(np.tile(day, (days, 1))))


def make_model(name: str, alpha: float) -> Estimator:
    kind: Any = ESTIMATORS[name]  # all three take α; estimators in general do not
    made: Estimator = kind(0, alpha=alpha)
    return made


def measure_errors(shape: str, name: str, alpha: float, hours: float, seeds: int) -> Floats:
    """Eq. 7.4 for every seed, as a share of a day's items. Feeds are independent, so all seeds run as one array."""
    days = WARMUP_DAYS + MEASURED_DAYS
    rngs = [make_rng(seed, SHAPES.index(shape), 7) for seed in range(seeds)]
    counts = np.hstack([draw_counts(shape, FEEDS, days, rng) for rng in rngs])
    plan = np.hstack([draw_refreshes(days * CYCLES_PER_DAY, FEEDS, hours, rng) for rng in rngs])
    groups = np.repeat(np.arange(seeds), FEEDS)
    return (
        measure_error(make_model(name, alpha), counts, plan, groups, WARMUP_DAYS * CYCLES_PER_DAY).divergence / PER_FEED
    )


def follow_changing_feed(hours: float, seeds: int, phase_weeks: int) -> Floats:
    """Distance between the true and the periodic model at the end of every week, weeks × seeds."""
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
    """two_steps on ten feeds of one shape, each refreshed every `hours` on average, believing a model."""
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
    strategy = make("two_steps", FEEDS, estimator=estimator, rng=make_rng(seed, 9))
    return run_cycles(world, strategy, FEEDS / (hours * 6), knowledge="nothing", censored=False)


def _make_known_model(counts: ItemCounts) -> PeriodicRate:
    """The publication model of the whole run, known beforehand and never updated (the thesis' offline case)."""
    days = counts.reshape(-1, 24, 6, counts.shape[1]).sum(2).mean(0).T
    known = PeriodicRate(counts.shape[1], alpha=0.0)
    known.set_slots(np.arange(counts.shape[1]), np.maximum(days, 1e-6))
    return known


def measure_trace_errors(path: Path, hours: tuple[float, ...]) -> dict[str, dict[str, list[float]]]:
    """Divergence errors on up to ten feeds of each shape with at least ten items a day, over their last four weeks."""
    trace = load_trace(path)
    last = trace.select_period(trace.end - 28 * shapes.DAY, trace.end + 1)
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
        # Normalised as in the thesis: what counts is the shape, not how much a feed publishes. Ten thousandths of a
        # day's items keep the counts whole.
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
    seeds = given.seeds or (2 if given.quick else 20)
    hours = (1.0, 8.0, 24.0) if given.quick else HOURS
    phase = 6 if given.quick else PHASE_WEEKS
    rows: list[Row] = []
    errors = _add_error_rows(given, progress, seeds, hours, rows)
    quality = _add_quality_rows(given, progress, seeds, QUALITY_HOURS, rows)
    jobs = [SweepJob(follow_changing_feed, (each, seeds, phase)) for each in (1.0, 24.0)]
    distance = dict(zip(("1 h", "24 h"), run_jobs(jobs, given, progress, "changing feeds"), strict=True))
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
    keys = [(shape, name, each) for shape in SHAPES for name in MODELS for each in hours]
    jobs = [SweepJob(measure_errors, (s, n, a, h, seeds)) for s, n, h in keys for a in ALPHAS]
    found = np.array(run_jobs(jobs, given, progress, "divergence errors")).reshape(len(keys), len(ALPHAS), seeds)
    best: dict[tuple[str, str, float], Floats] = {}
    for key, by_alpha in zip(keys, found, strict=True):
        place = int(by_alpha.mean(1).argmin())
        best[key] = by_alpha[place]
        shape, name, each = key
        rows.append(
            {"shape": shape, "strategy": name, "hours": each, "budget": 24.0 / each, "alpha": ALPHAS[place]}
            | {"divergence_error": mean_sd(by_alpha[place])}
        )
    return best


def _add_quality_rows(
    given: LabSettings, progress: Progress, seeds: int, hours: tuple[float, ...], rows: list[Row]
) -> dict[tuple[str, str, float], tuple[Floats, Floats]]:
    keys = [(shape, name, each) for shape in SHAPES for name in ("known", *MODELS) for each in hours]
    jobs = [SweepJob(run_two_steps, (s, n, h, seed)) for s, n, h in keys for seed in range(seeds)]
    scores = run_jobs(jobs, given, progress, "two_steps")
    quality = {}
    for place, key in enumerate(keys):
        mine: list[CycleScores] = scores[place * seeds : (place + 1) * seeds]
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


EXPERIMENT = Experiment(
    "online",
    "Horincar's thesis, figs 7.6–7.10",
    "single, periodic and hybrid estimation by daily shape and refresh rate, alone and inside two_steps",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace"}),
)
