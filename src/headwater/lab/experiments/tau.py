"""The threshold τ of two_steps finds its level from any start, and a new one when all rates change."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats
from headwater.lab.experiment import Check, Experiment, ExperimentResult, LabSettings, Progress, Row, mean_sd
from headwater.lab.simulation.cycles import (
    CycleSettings,
    draw_cycle_world,
    fit_cycles,
    make_rng,
    make_trace_world,
    run_cycles,
    select_busiest,
)
from headwater.lab.strategies import make
from headwater.lab.sweep import SweepJob, run_jobs
from headwater.lab.traces.trace import load_trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = (0.01, 1.0, 10.0, 100.0, 1000.0)
SETTINGS = CycleSettings(warmup=1000, measured=600)  # all rates are halved where the second part begins
TAIL = 300  # cycles before the end of each part whose mean is the level


def run_world(settings: CycleSettings, budget: float, start: float, seed: int) -> Floats:
    """τ after every cycle; in the second part every feed publishes half as much."""
    rng = make_rng(seed, 0)
    rates = rng.uniform(0.0, settings.top_rate, settings.feeds)
    halved = np.where(np.arange(settings.cycles)[:, None] < settings.warmup, rates, rates / 2)
    world = draw_cycle_world(settings, rng, halved)
    strategy = make("two_steps", settings.feeds, tau=start, capped=False, rng=make_rng(seed, 1))
    return run_cycles(world, strategy, budget).tau


def run_trace(path: Path, window: int, budget: float, start: float) -> Floats:
    """τ after every cycle on the hundred most active feeds of a trace, all of whose items are wanted.

    It is told in items × cycles as in the worlds; the strategy counts in seconds.
    """
    trace = select_busiest(load_trace(path), SETTINGS.feeds)
    settings = fit_cycles(trace, dataclasses.replace(SETTINGS, window=window), path)
    world = make_trace_world(trace, np.ones(len(trace.times), dtype=bool), settings)
    strategy = make("two_steps", trace.feeds, tau=start * settings.seconds, capped=False, rng=make_rng(0, 1))
    return run_cycles(world, strategy, budget).tau / settings.seconds


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    settings = dataclasses.replace(SETTINGS, window=given.window or SETTINGS.window)
    seeds = given.seeds or (4 if given.quick else 20)
    budgets = given.budget or (30.0,)
    if given.trace is not None:
        fit_cycles(
            select_busiest(load_trace(given.trace), SETTINGS.feeds), settings, given.trace
        )  # says at once if too short
    rows: list[Row] = []
    curves: dict[str, Any] = {}
    checks: list[Check] = []
    for budget in budgets:
        jobs = [SweepJob(run_world, (settings, budget, start, seed)) for start in STARTS for seed in range(seeds)]
        taus = np.array(run_jobs(jobs, given, progress)).reshape(len(STARTS), seeds, settings.cycles)
        before = taus[:, :, settings.warmup - TAIL : settings.warmup].mean(2)
        after = taus[:, :, -TAIL:].mean(2)
        for place, start in enumerate(STARTS):
            rows.append(
                {
                    "strategy": "two_steps",
                    "budget": budget,
                    "start": start,
                    "tau": mean_sd(before[place]),
                    "tau_after_change": mean_sd(after[place]),
                    "cycles_to_converge": mean_sd(
                        [_first_at_level(taus[place, s], before[:, s].mean()) for s in range(seeds)]
                    ),
                }
            )
        for label, level in (("from every start", before), ("after all rates were halved", after)):
            checks.append(_check_level(f"at b = {budget:g} τ converges to one level {label}", level))
        curves[f"{budget:g}"] = taus[:, 0]
        if given.trace is not None:
            _add_trace(given, given.trace, progress, settings.window, budget, rows, checks)
    about = {"seeds": seeds, "knowledge": "divergence", **dataclasses.asdict(settings)}
    if given.trace is not None:
        about["trace"] = given.trace.name
    return ExperimentResult("tau", about, rows, checks, data={"curves": curves, "change": settings.warmup})


def _add_trace(
    given: LabSettings,
    trace: Path,
    progress: Progress,
    window: int,
    budget: float,
    rows: list[Row],
    checks: list[Check],
) -> None:
    """The same starts on a real trace; its level is taken over the last third, where rates change by themselves."""
    jobs = [SweepJob(run_trace, (trace, window, budget, start)) for start in STARTS]
    taus = np.array(run_jobs(jobs, given, progress, "trace"))
    level = taus[:, -max(taus.shape[1] // 3, 1) :].mean(1)
    for start, tau, mine in zip(STARTS, taus, level, strict=True):
        rows.append(
            {"strategy": f"two_steps on {trace.name}", "budget": budget, "start": start, "tau": mean_sd([mine])}
            | {"cycles_to_converge": mean_sd([_first_at_level(tau, level.mean())])}
        )
    checks.append(_check_level(f"on {trace.name}: at b = {budget:g} τ converges to one level", level[:, None]))


def _first_at_level(tau: Floats, level: float) -> float:
    """The first cycle at which τ is within 10 % of the level it settles at."""
    return float(np.argmax(np.abs(tau - level) <= 0.1 * level))


def _check_level(statement: str, level: Floats) -> Check:
    """`level` has a row for each start and a column for each world."""
    spread = (level.max(0) - level.min(0)) / level.mean(0)
    return Check(
        statement,
        bool((spread <= 0.15).all()),
        "levels from five starts within 15 % of each other in every world",
        {"widest_spread": float(spread.max()), "mean_level": float(level.mean())},
        "thesis fig. 4.4",
    )


def draw_figure(result: ExperimentResult) -> Figure:
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
    axis.set_title(f"τ finds the same level from any start, and again after a change (b = {budget})")
    axis.legend(loc="upper right", ncols=2, fontsize=9)
    return figure


EXPERIMENT = Experiment(
    "tau",
    "Horincar's thesis, fig. 4.4",
    "the refresh threshold converges from different starts, and again after all rates change",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace", "window", "budget"}),
)
