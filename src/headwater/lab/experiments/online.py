"""Measures online estimation of publication times, alone and inside two_steps (thesis 7.3, figs 7.6–7.10).

It has four parts: how fast a periodic model follows a feed that changes its shape (7.6, 7.7), the divergence error of
single, periodic and hybrid by shape and refresh rate (7.8), beside them smoothed (7.2.4) and likelihood (7.4),
completeness and freshness of two_steps with the models at equal cost (7.9, 7.10), and a model that is learned from
frequent refreshes for four weeks and then kept (7.3.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.lab.experiment import Experiment, ExperimentResult, LabSettings, Progress, Row
from headwater.lab.figures import create_figure
from headwater.lab.online.changing_feed import check_following, draw_distance, follow_changing_feed
from headwater.lab.online.divergence_errors import (
    STEADY_HYBRID,
    add_error_rows,
    check_errors,
    check_trace_errors,
    draw_errors,
    measure_trace_errors,
)
from headwater.lab.online.kept_model import add_kept_models
from headwater.lab.online.shaped_feeds import FEEDS, MODELS, PER_FEED, SHAPES, make_model, select_real_counts
from headwater.lab.online.two_steps_quality import (
    QUALITY_HOURS,
    WINDOW,
    add_carried_rows,
    add_long_learning,
    add_quality_rows,
    check_carried,
    check_quality,
    check_trace_quality,
    draw_quality,
    run_trace_two_steps,
)
from headwater.lab.sweep import run_each
from headwater.schedule.registry import set_estimator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHER_MODELS = ("smoothed", "likelihood")  # thesis 7.2.4 and 7.4, which the thesis does not measure
HOURS = (0.5, 1.0, 2.0, 4.0, 8.0, 24.0)
PHASE_WEEKS = 16
STRATEGY_NAMES = ("two_steps", "only_tau", "only_sat", "top_utility")  # into which the models can be put


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Run all parts on synthetic feeds, and errors and two_steps on the trace if there is one."""
    seeds = given.seeds or (2 if given.quick else 20)
    hours: tuple[float, ...] = (1.0, 8.0, 24.0) if given.quick else HOURS
    quality_hours: tuple[float, ...] = (3.0, 4.0, 5.0, 6.0, 8.0) if given.quick else QUALITY_HOURS
    if given.per_day:
        hours = quality_hours = tuple(sorted(24.0 / rate for rate in given.per_day))
    strategies = given.choose_strategies(("two_steps",), STRATEGY_NAMES)
    phase = 6 if given.quick else PHASE_WEEKS
    models = given.estimators or MODELS
    measured = given.estimators or (MODELS if given.quick else (*MODELS, *OTHER_MODELS, STEADY_HYBRID))
    for name in models:
        make_model(name, 0.1)  # an unknown name is reported before anything runs
        for strategy in strategies:
            set_estimator(strategy, name)
    rows: list[Row] = []
    errors = add_error_rows(given, progress, seeds, hours, measured, rows)
    found = [add_quality_rows(given, progress, seeds, quality_hours, models, rows, each) for each in strategies]
    quality = found[0]
    settings = {"seeds": seeds, "feeds": FEEDS, "items_per_day": PER_FEED, "hours": list(hours)}
    settings["window"] = given.window or WINDOW
    data: dict[str, Any] = {"errors": errors, "quality": quality, "hours": hours}
    result = ExperimentResult("online", settings, rows, [], data=data | {"phase": phase, "distance": {}})
    if set(models) >= set(MODELS) and not (given.per_day or given.strategies):
        carried = add_carried_rows(given, progress, seeds, rows)
        followed = run_each(
            follow_changing_feed, (1.0, 24.0), given, progress, "changing feeds", seeds=seeds, phase_weeks=phase
        )
        result.data["distance"] = {f"{each:g} h": distances for each, distances in followed.items()}
        result.checks += check_following(result.data["distance"], phase) + check_errors(errors, hours)
        result.checks += check_quality(quality) + check_carried(carried, quality)
        result.checks += add_kept_models(given, progress, seeds, rows)
    if given.trace is not None:
        _add_trace(result, given, given.trace, progress, hours, quality_hours, models, strategies)
    return result


def _add_trace(
    result: ExperimentResult,
    given: LabSettings,
    trace: Path,
    progress: Progress,
    hours: tuple[float, ...],
    quality_hours: tuple[float, ...],
    models: Sequence[str],
    strategies: Sequence[str],
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
    keys = [(shape, name, each) for shape in real for name in ("known", *models) for each in quality_hours]
    for strategy in strategies:
        shared = {"path": trace, "window": given.window or WINDOW, "strategy": strategy}
        runs = run_each(run_trace_two_steps, keys, given, progress, f"{strategy} on the trace", **shared)
        for (shape, name, each), scores in runs.items():
            row = {"shape": f"{shape} of {trace.name}", "strategy": f"{strategy}, {name}", "hours": each}
            row |= {"budget": 24.0 / each, "requests": float(scores.requests)}
            result.rows.append(row | {"completeness": scores.completeness, "freshness": scores.freshness})
        if strategy == "two_steps":
            feeds = select_real_counts(trace)["waves"].shape[1] if "waves" in real else 0
            result.checks += check_trace_quality(runs, quality_hours, feeds, trace.name)
            if set(models) >= set(MODELS):
                result.checks += add_long_learning(given, progress, trace, quality_hours, result.rows)


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw figures 7.7–7.10: errors, completeness and freshness by shape, and the distance of a changing feed."""
    figure, axes = create_figure(4, 3, width=4.6, height=3.1)
    hours = result.data["hours"]
    names = list(dict.fromkeys(name for _, name, _ in result.data["errors"]))
    known = list(dict.fromkeys(name for _, name, _ in result.data["quality"]))
    for column, shape in enumerate(SHAPES):
        draw_errors(axes[column], result.data["errors"], shape, hours, names)
        for row, measure in ((1, 0), (2, 1)):
            if known:
                draw_quality(axes[3 * row + column], result.data["quality"], shape, measure, known)
            else:  # budgets too few to compare at equal cost
                axes[3 * row + column].remove()
    axes[0].legend(fontsize=8)
    if known:
        axes[3].legend(fontsize=8)
    for axis in axes[10:] if result.data["distance"] else axes[9:]:
        axis.remove()
    if result.data["distance"]:
        draw_distance(axes[9], result)
    figure.suptitle("A model of the day errs less for waves, and for peaks that are refreshed often")
    return figure


EXPERIMENT = Experiment(
    "online",
    "Horincar's thesis, 7.2.4, 7.3, 7.4, figs 7.7–7.10",
    "estimation of the publication rate by daily shape and refresh rate, alone and inside two_steps",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace", "estimators", "strategies", "window", "per_day"}),
    question="Which online model of a feed predicts best, and does the choice matter inside two_steps?",
)
