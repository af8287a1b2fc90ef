"""Shows that the threshold τ of two_steps finds its level from any start, and a new one when all rates change."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headwater.arrays import Floats
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
from headwater.lab.simulation.cycles import (
    CycleSettings,
    draw_cycle_world,
    fit_cycles,
    make_rng,
    make_trace_world,
    run_cycles,
    select_busiest,
)
from headwater.lab.sweep import run_each, run_grid
from headwater.lab.traces.trace import load_trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = (0.01, 1.0, 10.0, 100.0, 1000.0)
SETTINGS = CycleSettings(warmup=1000, measured=600)  # all rates are halved when measuring begins
TAIL = 300  # cycles at the end of each part whose mean is the level


def run_world(start: float, seed: int, settings: CycleSettings, budget: float) -> Floats:
    """Return τ after every cycle; in the second part every feed publishes half as much."""
    rng = make_rng(seed, 0)
    rates = rng.uniform(0.0, settings.top_rate, settings.feeds)
    halved = np.where(np.arange(settings.cycles)[:, None] < settings.warmup, rates, rates / 2)
    world = draw_cycle_world(settings, rng, halved)
    strategy = make_strategy("two_steps", settings.feeds, tau=start, capped=False, rng=make_rng(seed, 1))
    return run_cycles(world, strategy, budget).tau


def run_trace(start: float, path: Path, window: int, budget: float) -> Floats:
    """Return τ after every cycle on the hundred most active feeds of a trace, with all their items wanted.

    τ is returned in items × cycles, as in the worlds; the strategy counts in seconds.
    """
    trace = select_busiest(load_trace(path), SETTINGS.feeds)
    settings = fit_cycles(trace, dataclasses.replace(SETTINGS, window=window), path)
    world = make_trace_world(trace, np.ones(len(trace.times), dtype=bool), settings)
    strategy = make_strategy("two_steps", trace.feeds, tau=start * settings.seconds, capped=False, rng=make_rng(0, 1))
    return run_cycles(world, strategy, budget).tau / settings.seconds


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Start τ at five values on synthetic worlds, and on the trace if there is one."""
    settings = dataclasses.replace(SETTINGS, window=given.window or SETTINGS.window)
    seeds = given.seeds or (4 if given.quick else 20)
    budgets = given.budget or (30.0,)
    if given.trace is not None:
        fit_cycles(select_busiest(load_trace(given.trace), SETTINGS.feeds), settings, given.trace)  # fails if too short
    about = {"seeds": seeds, "knowledge": "divergence", **dataclasses.asdict(settings)}
    result = ExperimentResult("tau", about, [], data={"curves": {}, "change": settings.warmup})
    for budget in budgets:
        runs = run_grid(run_world, STARTS, seeds, given, progress, settings=settings, budget=budget)
        taus = np.array([runs[start] for start in STARTS])  # starts × seeds × cycles
        _add_worlds(result, taus, settings.warmup, budget)
    if given.trace is not None:
        for budget in budgets:
            _add_trace(result, given, given.trace, progress, settings.window, budget)
    return result


def _add_worlds(result: ExperimentResult, taus: Floats, change: int, budget: float) -> None:
    """Add the levels before and after all rates are halved."""
    before, after = taus[:, :, change - TAIL : change].mean(2), taus[:, :, -TAIL:].mean(2)
    for place, start in enumerate(STARTS):
        arrivals = [_first_at_level(tau, level) for tau, level in zip(taus[place], before.mean(0), strict=True)]
        result.rows.append(
            {
                "strategy": "two_steps",
                "budget": budget,
                "start": start,
                "tau": mean_sd(before[place]),
                "tau_after_change": mean_sd(after[place]),
                "cycles_to_converge": mean_sd(arrivals),
            }
        )
    for label, level in (("from every start", before), ("after all rates were halved", after)):
        result.checks.append(_check_level(f"at b = {budget:g} τ converges to one level {label}", level))
    result.data["curves"][f"{budget:g}"] = taus[:, 0]


def _add_trace(
    result: ExperimentResult, given: LabSettings, trace: Path, progress: Progress, window: int, budget: float
) -> None:
    """Add the levels on a trace. They are taken over its last third, because its rates change by themselves."""
    runs = run_each(run_trace, STARTS, given, progress, "trace", path=trace, window=window, budget=budget)
    levels = np.array([tau[-max(len(tau) // 3, 1) :].mean() for tau in runs.values()])
    rows: list[Row] = [
        {
            "strategy": "two_steps",
            "budget": budget,
            "start": start,
            "tau": mean_sd([level]),
            "cycles_to_converge": mean_sd([_first_at_level(tau, float(levels.mean()))]),
        }
        for (start, tau), level in zip(runs.items(), levels, strict=True)
    ]
    statement = f"on {trace.name}: at b = {budget:g} τ converges to one level"
    result.add_trace(rows, [_check_level(statement, levels[:, None])], trace.name)


def _first_at_level(tau: Floats, level: float) -> float:
    """Return the first cycle at which τ is within 10 % of the level it settles at."""
    return float(np.argmax(np.abs(tau - level) <= 0.1 * level))


def _check_level(statement: str, level: Floats) -> Check:
    """Check that all starts reach one level; `level` has a row for each start and a column for each world."""
    spread = (level.max(0) - level.min(0)) / level.mean(0)
    return Check(
        statement,
        bool((spread <= 0.15).all()),
        "levels from five starts within 15 % of each other in every world",
        {"widest spread": float(spread.max()), "mean level": float(level.mean())},
        "thesis fig. 4.4",
        intervals=measure_intervals({"mean level": level.mean(0)}),
    )


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw τ by cycle for every start, as the thesis' figure 4.4."""
    from headwater.lab.figures import create_figure, line_style

    budget, curves = next(iter(result.data["curves"].items()))
    figure, (axis,) = create_figure(width=7.5)
    for place, (start, tau) in enumerate(zip(STARTS, curves, strict=True)):
        axis.plot(
            np.arange(1, len(tau) + 1), tau, label=f"τ₀ = {start:g}", linewidth=1.4, **line_style(place, marker=False)
        )
    axis.axvline(result.data["change"], color="#777777", linewidth=0.8)
    axis.annotate("all rates halve", (result.data["change"], 0.02), xytext=(6, 0), textcoords="offset points")
    axis.set_yscale("log")
    axis.set_xlabel("cycle")
    axis.set_ylabel("threshold τ (items × cycles)")
    axis.set_title(f"Fig. 4.4: τ finds the same level from any start, and again after a change (b = {budget})")
    axis.legend(loc="upper right", ncols=2, fontsize=9)
    return figure


EXPERIMENT = Experiment(
    "tau",
    "Horincar's thesis, fig. 4.4",
    "the refresh threshold converges from different starts, and again after all rates change",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace", "window", "budget"}),
    question="Does the threshold τ find one level, whatever it starts from?",
)
