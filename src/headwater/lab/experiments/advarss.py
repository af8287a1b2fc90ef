"""advaRSS's evaluation: items waiting in the fullest feed and in all feeds, against round robin and minimum delay.

460 feeds, a retrieval rate of 15 % of them per hour, 90 days, as in the paper; its feeds are not public, so they are
drawn by a power law with daily shapes. With `--trace` the 460 most active feeds of a real trace are polled likewise.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.lab.experiment import Check, Experiment, ExperimentResult, LabSettings, Progress, Row, mean_sd
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.lossless_polling import PollingScores, simulate_polling
from headwater.lab.strategies import check_names, make
from headwater.lab.sweep import SweepJob, run_jobs
from headwater.lab.traces.synthetic_world import WorldSettings, draw_world
from headwater.lab.traces.trace import Trace, load_trace
from headwater.times import DAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRATEGY_NAMES = ("advarss", "min_delay", "round_robin")
FEEDS, DAYS, PER_DAY = 460, 90.0, 3.6  # 15 % of the feeds an hour
LEARN_DAYS = 7.0
TICK = 600.0
# How much more waits than with advaRSS: in the fullest feed (figure 4), in all feeds (figure 5).
PAPER = {"min_delay": (0.112, 0.075), "round_robin": (0.334, 0.085)}


def run_world(name: str, days: float, per_day: float, seed: int) -> PollingScores:
    settings = WorldSettings(
        feeds=FEEDS, days=days, low=0.2, high=40.0, exponent=1.3, shape="six", share=0.8, weekend=0.5
    )
    return _run_strategy(name, draw_world(settings, make_rng(seed, 4)).trace, per_day, seed)


def run_trace(name: str, path: Path, per_day: float) -> PollingScores:
    trace = load_trace(path)
    busiest = np.sort(np.argsort(-trace.counts, kind="stable")[:FEEDS])
    chosen = trace.select_feeds(busiest)
    return _run_strategy(name, chosen.select_period(chosen.end - DAYS * DAY, chosen.end + 1), per_day, 0)


def _run_strategy(name: str, trace: Trace, per_day: float, seed: int) -> PollingScores:
    return simulate_polling(make(name, trace.feeds), trace, per_day, LEARN_DAYS, make_rng(seed, 5), tick=TICK)


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    seeds = given.seeds or (2 if given.quick else 20)
    days = 21.0 if given.quick else DAYS
    per_day = given.single_rate("advarss", PER_DAY)
    names = check_names(given.strategies) or STRATEGY_NAMES
    jobs = [SweepJob(run_world, (name, days, per_day, seed)) for name in names for seed in range(seeds)]
    found = run_jobs(jobs, given, progress)
    runs = {name: found[place * seeds : (place + 1) * seeds] for place, name in enumerate(names)}
    settings: dict[str, Any] = {
        "seeds": seeds,
        "feeds": FEEDS,
        "days": days,
        "per_day": per_day,
        "learn_days": LEARN_DAYS,
    }
    rows = [_make_row(name, per_day, runs[name]) for name in names]
    result = ExperimentResult(
        "advarss", settings, rows, data={"hours": {name: _waiting_by_hour(runs[name]) for name in names}}
    )
    if set(STRATEGY_NAMES) <= set(names):
        result.checks += _check_order({name: _mean_waiting(runs[name]) for name in names}, "synthetic feeds")
    if given.trace is not None:
        real = run_jobs([SweepJob(run_trace, (name, given.trace, per_day)) for name in names], given, progress, "trace")
        settings["trace"] = given.trace.name
        for name, polled in zip(names, real, strict=True):
            row = _make_row(name, per_day, [polled])
            row["strategy"] = f"{name} on {given.trace.name}"
            row.pop("paper", None)
            rows.append(row)
        if set(STRATEGY_NAMES) <= set(names):
            waiting = {name: _mean_waiting([polled]) for name, polled in zip(names, real, strict=True)}
            result.checks += _check_order(waiting, given.trace.name)
        result.data["trace_hours"] = {
            name: _waiting_by_hour([polled]) for name, polled in zip(names, real, strict=True)
        }
    return result


def _mean_waiting(runs: list[PollingScores]) -> tuple[float, float]:
    """Items in the fullest feed and in all, averaged over the hours and the runs."""
    fullest = np.mean([each.fullest.mean() for each in runs])
    return float(fullest), float(np.mean([each.pending.mean() for each in runs]))


def _waiting_by_hour(runs: list[PollingScores]) -> list[float]:
    """Items waiting in all feeds at each hour of the day (figure 5); measuring begins at midnight or near it."""
    hours = [each.pending[: len(each.pending) // 24 * 24].reshape(-1, 24).mean(0) for each in runs]
    return [float(value) for value in np.mean(hours, axis=0)]


def _make_row(name: str, per_day: float, runs: list[PollingScores]) -> Row:
    row: Row = {
        "strategy": name,
        "budget": per_day,
        "requests": float(np.mean([each.requests for each in runs])),
        "mean_delay_s": float(np.mean([each.mean_delay for each in runs])),
        "max_delay_s": float(np.mean([each.max_delay for each in runs])),
        "polls_per_item": float(np.mean([each.polls_per_item for each in runs])),
        "fullest_feed": mean_sd([each.fullest.mean() for each in runs]),
        "pending": mean_sd([each.pending.mean() for each in runs]),
    }
    return row


def _check_order(waiting: dict[str, tuple[float, float]], where: str) -> list[Check]:
    """The order is the claim; the percentages of a private collection are given beside ours."""
    checks = []
    for name in ("min_delay", "round_robin"):
        for place, what in enumerate(("in the fullest feed", "in all feeds together")):
            more = waiting[name][place] / waiting["advarss"][place] - 1
            checks.append(
                Check(
                    f"{where}: with {name} more items wait {what} than with advarss",
                    more > 0,
                    f"more than with advarss (paper: {PAPER[name][place]:.1%} more)",
                    {"more": more, name: waiting[name][place], "advarss": waiting["advarss"][place]},
                    "figs 4, 5",
                )
            )
    return checks


def draw_figure(result: ExperimentResult) -> Figure:
    from headwater.lab.figures import COLOURS, create_figure, line_style

    traced = "trace_hours" in result.data
    figure, axes = create_figure(1, 3 if traced else 2, width=5.0)
    synthetic = [row for row in result.rows if " on " not in row["strategy"]]
    bars = axes[0].bar(
        [row["strategy"] for row in synthetic],
        [row["fullest_feed"]["mean"] for row in synthetic],
        yerr=[row["fullest_feed"]["sd"] for row in synthetic],
        capsize=3,
        color=COLOURS[: len(synthetic)],
    )
    axes[0].bar_label(bars, fmt="%.1f", padding=4)
    axes[0].set_ylabel("items waiting in the fullest feed")
    axes[0].set_title("Ranking by expected items keeps the fullest feed shortest", fontsize=10)
    parts = [(axes[1], "hours", "synthetic feeds"), (axes[-1], "trace_hours", result.settings.get("trace"))]
    for axis, key, where in parts:
        if key not in result.data:
            continue
        for place, (name, hours) in enumerate(result.data[key].items()):
            axis.plot(range(24), hours, label=name, **line_style(place))
        axis.set_ylim(0, None)
        axis.set_xlabel("hours since measuring began, modulo a day")
        axis.set_ylabel("items waiting in all feeds")
        axis.set_title(f"Pending items follow the posting rate ({where})", fontsize=10)
        axis.legend(fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "advarss",
    "Adam, Bouras, Poulopoulos: figs 4, 5",
    "items waiting in the fullest feed and in all feeds: advarss, minimum delay, round robin",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace", "per_day", "strategies"}),
)
