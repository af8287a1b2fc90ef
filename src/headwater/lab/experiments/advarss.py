"""Repeats advaRSS's evaluation: items waiting in the fullest feed and in all feeds, beside round robin and minimum
delay.

As in the paper there are 460 feeds, of which 15 % are retrieved per hour, over 90 days. The paper's feeds are not
public, so they are drawn by a power law with daily shapes. With `--trace` the 460 most active feeds of a real trace are
polled.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    measure_spread,
)
from headwater.lab.simulation.cycles import make_rng, select_busiest
from headwater.lab.simulation.lossless_polling import PollingScores, simulate_polling
from headwater.lab.sweep import run_each, run_grid
from headwater.lab.traces.synthetic_world import WorldSettings, draw_world
from headwater.lab.traces.trace import Trace, load_trace
from headwater.times import DAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRATEGY_NAMES = ("advarss", "min_delay", "round_robin")
FEEDS, DAYS, PER_DAY = 460, 90.0, 3.6  # 15 % of the feeds an hour
LEARN_DAYS = 7.0
TICK = 600.0
# By which share more items wait than with advaRSS: in the fullest feed (figure 4), in all feeds (figure 5).
MORE = ("more_in_fullest_feed", "more_in_all_feeds")
PAPER = {"min_delay": (0.112, 0.075), "round_robin": (0.334, 0.085)}

MIN_DELAY_WAITS_LESS = "min_delay takes the greatest accumulated delay first, and pending items are rate times delay"


def run_world(name: str, seed: int, days: float, per_day: float) -> PollingScores:
    """Poll a synthetic world with one strategy."""
    settings = WorldSettings(
        feeds=FEEDS, days=days, low=0.2, high=40.0, exponent=1.3, shape="six", share=0.8, weekend=0.5
    )
    return _run_strategy(name, draw_world(settings, make_rng(seed, 4)).trace, per_day, seed)


def run_trace(name: str, path: Path, per_day: float) -> PollingScores:
    """Poll the most active feeds of a trace over its last 90 days with one strategy."""
    chosen = select_busiest(load_trace(path), FEEDS)
    return _run_strategy(name, chosen.select_period(chosen.end - DAYS * DAY, chosen.end + 1), per_day, 0)


def _run_strategy(name: str, trace: Trace, per_day: float, seed: int) -> PollingScores:
    return simulate_polling(make_strategy(name, trace.feeds), trace, per_day, LEARN_DAYS, make_rng(seed, 5), tick=TICK)


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Run the strategies on synthetic worlds, and on the trace if there is one."""
    seeds = given.seeds or (2 if given.quick else 20)
    days = 21.0 if given.quick else DAYS
    per_day = given.single_rate("advarss", PER_DAY)
    names = given.add_estimators(given.choose_strategies(STRATEGY_NAMES))
    runs = run_grid(run_world, names, seeds, given, progress, days=days, per_day=per_day)
    settings = {"seeds": seeds, "feeds": FEEDS, "days": days, "per_day": per_day, "learn_days": LEARN_DAYS}
    rows = _make_rows(runs, per_day)
    hours = {name: _waiting_by_hour(runs[name]) for name in names}
    result = ExperimentResult("advarss", settings, rows, _check_order(runs, "synthetic feeds"), data={"hours": hours})
    if given.trace is not None:
        real = run_each(run_trace, names, given, progress, "trace", path=given.trace, per_day=per_day)
        runs = {name: [scores] for name, scores in real.items()}
        rows = _make_rows(runs, per_day)
        result.add_trace(rows, _check_order(runs, given.trace.name), given.trace.name)
        result.data["trace_hours"] = {name: _waiting_by_hour(runs[name]) for name in names}
    return result


def _mean_waiting(runs: list[PollingScores]) -> Floats:
    """Average the items waiting in the fullest feed and in all feeds over the hours, for each run."""
    return np.array([[float(each.fullest.mean()), float(each.pending.mean())] for each in runs])


def _waiting_by_hour(runs: list[PollingScores]) -> list[float]:
    """Average the items waiting in all feeds at each hour of the day, UTC (figure 5)."""
    hours = []
    for each in runs:
        days = each.pending[: len(each.pending) // 24 * 24].reshape(-1, 24).mean(0)
        hours.append(np.roll(days, int(each.first_hour // 3600) % 24))
    return [float(value) for value in np.mean(hours, axis=0)]


def _make_rows(runs: Mapping[str, list[PollingScores]], per_day: float) -> list[Row]:
    """Make a row of each strategy; beside advarss, with how many more items wait than with it."""
    rows = []
    for name, mine in runs.items():
        row = _make_row(name, per_day, mine)
        if name in PAPER and "advarss" in runs:
            more = _compare_waiting(mine, runs["advarss"])
            row |= dict(zip(MORE, more, strict=True)) | {"paper": dict(zip(MORE, PAPER[name], strict=True))}
            worlds = (_mean_waiting(mine) / _mean_waiting(runs["advarss"]) - 1).T
            if len(mine) > 1:
                row["sd"] |= measure_spread(dict(zip(MORE, worlds, strict=True)))["sd"]
        rows.append(row)
    return rows


def _compare_waiting(runs: list[PollingScores], base: list[PollingScores]) -> list[float]:
    """Return how many more items wait in the fullest feed and in all feeds than with the other runs, as shares."""
    more = _mean_waiting(runs).mean(axis=0) / _mean_waiting(base).mean(axis=0) - 1
    return [float(value) for value in more]


def _make_row(name: str, per_day: float, runs: list[PollingScores]) -> Row:
    return {
        "strategy": name,
        "budget": per_day,
        "requests": float(np.mean([each.requests for each in runs])),
        "mean_delay_s": float(np.mean([each.mean_delay for each in runs])),
        "max_delay_s": float(np.mean([each.max_delay for each in runs])),
        "polls_per_item": float(np.mean([each.polls_per_item for each in runs])),
        "fullest_feed": mean_sd([each.fullest.mean() for each in runs]),
        "pending": mean_sd([each.pending.mean() for each in runs]),
        **measure_spread({"mean_delay_s": [each.mean_delay for each in runs]}),
    }


def _check_order(runs: Mapping[str, list[PollingScores]], where: str) -> list[Check]:
    """Check the order of the strategies; the paper's percentages, of a private collection, stand beside ours."""
    if not runs.keys() >= set(STRATEGY_NAMES):
        return []
    waiting = {name: _mean_waiting(mine) for name, mine in runs.items()}
    checks = []
    for name in ("min_delay", "round_robin"):
        for place, what in enumerate(("in the fullest feed", "in all feeds together")):
            ours, its = waiting["advarss"][:, place], waiting[name][:, place]
            more = _compare_waiting(runs[name], runs["advarss"])[place]
            known = name == "min_delay" and (where != "synthetic feeds" or what == "in all feeds together")
            checks.append(
                Check(
                    f"{where}: with {name} more items wait {what} than with advarss",
                    more > 0,
                    f"more than with advarss (paper: {PAPER[name][place]:.1%} more)",
                    {"more": more, name: float(its.mean()), "advarss": float(ours.mean())},
                    ("fig. 4", "fig. 5")[place],
                    because=MIN_DELAY_WAITS_LESS if known else "",
                    intervals=measure_intervals({"more": its / ours - 1, name: its, "advarss": ours}),
                )
            )
    return checks


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw the items waiting in the fullest feed, and those in all feeds by hour."""
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
    ranked = next((row["fullest_feed"]["mean"] for row in synthetic if row["strategy"] == "advarss"), None)
    compared = {row["strategy"]: PAPER[row["strategy"]][0] for row in synthetic if row["strategy"] in PAPER}
    if ranked is not None and compared:
        published = [(1 + more) * ranked for more in compared.values()]
        axes[0].plot(list(compared), published, "kx", markersize=9, label="paper's increase over advarss")
        axes[0].legend(fontsize=8)
    axes[0].set_ylabel("items waiting in the fullest feed")
    axes[0].set_title("Fig. 4: ranking by expected items keeps the fullest feed shortest", fontsize=10)
    parts = [(axes[1], "hours", "synthetic feeds"), (axes[-1], "trace_hours", result.settings.get("trace"))]
    for axis, key, where in parts:
        if key not in result.data:
            continue
        for place, (name, hours) in enumerate(result.data[key].items()):
            axis.plot(range(24), hours, label=name, **line_style(place))
        axis.set_ylim(0, None)
        axis.set_xlabel("hour of the day (UTC)")
        axis.set_ylabel("items waiting in all feeds")
        axis.set_title(f"Fig. 5: pending items follow the posting rate ({where})", fontsize=10)
        axis.legend(fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "advarss",
    "Adam, Bouras, Poulopoulos: figs 4, 5",
    "items waiting in the fullest feed and in all feeds: advarss, minimum delay, round robin",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "trace", "per_day", "strategies", "estimators"}),
    question="How many items wait when feeds are chosen by expected new articles, round robin, or minimum delay?",
)
