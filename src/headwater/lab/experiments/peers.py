"""`peers`: every strategy on a real trace, at equal cost and as it is, by one protocol.

A feed's document shows its newest W items; 7 days of history are visible at the start, a warm-up follows, the rest is
measured. Strategies learn only from what their polls return. At equal cost each has one constant (a stretch of its
intervals, a budget, a price), found so that all make the same number of requests. Lost items count in completeness, not
in delay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from headwater.errors import TraceError
from headwater.estimate.base import DAY
from headwater.lab.equal import CostKnob, FittedReplay, choose_knob, price_knob, replay_at_cost, sample_by_activity
from headwater.lab.experiments.base import Check, Experiment, ExperimentResult, LabSettings, Progress, Row
from headwater.lab.experiments.peers_plot import draw_figure
from headwater.lab.open_loop import OpenLoopStrategy
from headwater.lab.replay import ReplaySettings, replay_trace
from headwater.lab.scores import ReplayScores, score_replay
from headwater.lab.strategies import check_names, kind_of, made
from headwater.lab.sweep import SweepJob, run_jobs
from headwater.lab.traces import Trace, load_trace
from headwater.schedule import STRATEGIES
from headwater.schedule.base import IntervalStrategy, Strategy
from headwater.schedule.scheduled import RetrievalScheduleStrategy
from headwater.schedule.value import Value

RATES = (0.25, 1.0, 4.0)
ONLINE, BARE, OPEN = "value_online", "value_without_plan", "open_loop"
FORESIGHT = frozenset({OPEN})  # knows each feed's true mean rate
LEFT_OUT = frozenset({"reference", "value_index"})  # everything at every tick; and the index for worlds of cycles
MOST_OWN_REFRESHES = 20_000_000  # refreshes in a replay of a rule as it is; longer ones look at a sample of the feeds
MOST_REFRESHES = 4_000_000  # refreshes of each replay at equal cost; beyond, a sample of the feeds is replayed
LONGEST_DAYS = 3000.0  # days of a trace that are replayed, its last ones
LEAST_SHARE = 0.02  # share of the items that must be among them: a few dates far ahead are mistakes, no trace


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    if given.trace is None:
        raise TraceError("The experiment peers needs a trace: give --trace FILE (Parquet or CSV).")
    window = given.window or 20
    warmup = 14.0 if given.warmup_days is None else given.warmup_days
    protocol = ReplaySettings(window=window, warmup_days=warmup)
    highest = max(given.per_day or RATES)
    whole, trace = load_trace(given.trace), _load_reduced(str(given.trace), given.quick, highest)
    _, measured, end = protocol.time_span(trace)
    names = check_names(given.strategies, list_strategies()) or list_strategies()
    key = (str(given.trace), given.quick, highest, window, warmup)
    jobs = [SweepJob(run_at_cost, (*key, name, rate)) for rate in given.per_day or RATES for name in names]
    if not given.per_day:
        jobs += [SweepJob(run_as_is, (*key, name)) for name in names if _has_own_rate(name)]
    # The longest first, so that no core waits for them at the end.
    order = sorted(range(len(jobs)), key=lambda k: -_estimate_work(jobs[k]))
    found = run_jobs([jobs[k] for k in order], given, progress, "replays")
    rows: list[Row] = [row for _, row in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]
    about = {
        "trace": Path(given.trace).name,
        "window": window,
        "history_days": protocol.history_days,
        "warmup_days": warmup,
        "per_day": list(given.per_day or RATES),
        "feeds": trace.feeds,
        "items": int((trace.times >= measured).sum()),
        "measured_days": round((end - measured) / DAY, 3),
        "ticks_s": [protocol.tick_seconds(trace, rate) for rate in given.per_day or RATES],
    }
    return ExperimentResult(
        "peers", about, rows, check_value(rows), [*describe_reduction(whole, trace), *list_notes(rows)]
    )


def list_strategies() -> tuple[str, ...]:
    """`value` and its variants first, then every registered strategy that can be given a cost."""
    others = [name for name in STRATEGIES if name not in LEFT_OUT and name != "value"]
    return ("value", ONLINE, BARE, OPEN, *others)


@lru_cache(maxsize=2)
def _load_reduced(path: str, quick: bool, per_day: float) -> Trace:
    """The trace, or as much of it as can be replayed some hundred times in minutes."""
    trace = load_trace(path)
    if quick:
        return trace.select_feeds(np.arange(0, trace.feeds, max(trace.feeds // 150, 1)))
    if trace.days > LONGEST_DAYS:
        items = len(trace.times)
        trace = trace.select_period(trace.end - LONGEST_DAYS * DAY, np.inf)
        if len(trace.times) < LEAST_SHARE * items:
            raise TraceError(
                f"The trace {Path(path).name} goes up to {datetime.fromtimestamp(trace.end, UTC):%Y-%m-%d}, but of its "
                f"{items:,} items only {len(trace.times):,} lie in the last {LONGEST_DAYS:,.0f} days: remove the rows whose "
                "dates are wrong."
            )
    return (
        sample_by_activity(trace, max(int(MOST_REFRESHES / (trace.days * per_day)), 100))
        if _count_refreshes(trace, per_day) > MOST_REFRESHES
        else trace
    )


def _count_refreshes(trace: Trace, per_day: float) -> float:
    return trace.feeds * trace.days * per_day


def describe_reduction(whole: Trace, used: Trace) -> list[str]:
    """What was left out of a trace that is too large to be replayed wholly."""
    if used.feeds == whole.feeds and used.start == whole.start:
        return []
    return [
        f"Replayed were {used.feeds:,} of {whole.feeds:,} feeds (every so many-th by number of items) and the last "
        f"{used.days:,.0f} of {whole.days:,.0f} days."
    ]


def make_knob(name: str, trace: Trace, protocol: ReplaySettings, per_day: float) -> CostKnob:
    """How the strategy called `name` is brought to a cost."""
    start = 0.08 / per_day**2  # the price of most traces lies within a factor of ten of it
    if name == "value":
        return price_knob(lambda price: Value(price=price, fast=True), per_day, start)
    if name == BARE:
        return price_knob(lambda price: Value(price=price, plan=False, fast=True), per_day, start)
    if name == OPEN:
        return dataclasses.replace(
            choose_knob(lambda: OpenLoopStrategy.from_trace(trace, protocol), per_day), sampled=False
        )
    return choose_knob(_strategy_factory(name), per_day)


def _strategy_factory(name: str) -> Callable[[], Strategy]:
    more: dict[str, Any] = {"rng": 0} if name in ("two_steps", "only_tau", "only_sat", "top_utility") else {}
    return lambda: made(name, **more)


def run_at_cost(path: str, quick: bool, highest: float, window: int, warmup: float, name: str, per_day: float) -> Row:
    """One strategy at one cost."""
    trace, protocol = _load_reduced(path, quick, highest), ReplaySettings(window=window, warmup_days=warmup)
    if name == ONLINE:
        strategy = Value(fast=True)
        run = replay_trace(strategy, trace, protocol, per_day)
        return make_row(name, per_day, score_replay(run), {"price": strategy.price}, run.per_day / per_day - 1)
    fitted: FittedReplay = replay_at_cost(make_knob(name, trace, protocol, per_day), trace, protocol, per_day)
    more = {"constant": fitted.constant} | ({"foresight": True} if name in FORESIGHT else {})
    return make_row(name, per_day, score_replay(fitted.replay), more, fitted.off)


def run_as_is(path: str, quick: bool, highest: float, window: int, warmup: float, name: str) -> Row:
    """A rule with its own intervals, at the cost they have."""
    trace, protocol = _load_reduced(path, quick, highest), ReplaySettings(window=window, warmup_days=warmup)
    strategy = _strategy_factory(name)()
    begin, _, end = protocol.time_span(trace)
    often = 24.0 if (end - begin) / DAY * trace.feeds * 24 > MOST_OWN_REFRESHES else 0.0
    if often:
        trace = trace.select_feeds(
            np.arange(0, trace.feeds, int(np.ceil((end - begin) / DAY * trace.feeds * 24 / MOST_OWN_REFRESHES)))
        )
    run = replay_trace(strategy, trace, protocol)
    row = make_row(f"{name} as it is", run.per_day, score_replay(run), {"per_day": run.per_day}, 0.0)
    if often:
        row["sampled_feeds"] = trace.feeds
    return row


def _has_own_rate(name: str) -> bool:
    kind = kind_of(name)
    return kind is not None and name != "value" and issubclass(kind, IntervalStrategy)


def _estimate_work(job: SweepJob) -> float:
    name = job.arguments[5]
    kind = kind_of(name)
    planned = name.startswith("value") or (kind is not None and issubclass(kind, RetrievalScheduleStrategy))
    slow = 30.0 if planned else 1.0 if kind is None or issubclass(kind, IntervalStrategy) else 10.0
    return slow * (job.arguments[6] if len(job.arguments) > 6 else 5.0)


def make_row(name: str, budget: float, scores: ReplayScores, more: Row, off: float) -> Row:
    """A row as the lab's JSON carries it."""
    measures = dataclasses.asdict(scores)
    row: Row = {"strategy": name, "budget": budget}
    keys = ("requests", "completeness", "freshness", "mean_delay_s", "median_delay_s", "p95_delay_s", "polls_per_item")
    row |= {key: measures[key] for key in (*keys, "error", "lost", "bytes")}
    rest = ("pending", "items", "sd_delay_s", "max_delay_s", "mean_delay_per_feed_s", "polls_per_item_per_feed")
    return row | {key: measures[key] for key in rest} | more | {"off_budget": off}


def list_notes(rows: list[Row]) -> list[str]:
    return [
        f"{row['strategy']} at {row['budget']:g} a day could not be brought nearer than {row['off_budget']:+.1%} "
        "to the common cost."
        for row in rows
        if abs(row["off_budget"]) > 0.01
    ]


def check_value(rows: list[Row]) -> list[Check]:
    """What `value` promises against everybody who does not know the future, at each cost."""
    checks = []
    for budget in sorted({row["budget"] for row in rows if "as it is" not in row["strategy"]}):
        same = {row["strategy"]: row for row in rows if row["budget"] == budget and "as it is" not in row["strategy"]}
        ours = same.get("value")
        others = {
            name: row
            for name, row in same.items()
            if not name.startswith("value") and name not in FORESIGHT and row["off_budget"] < 0.01
        }
        if ours is None or not others:
            continue
        fastest = min(others, key=lambda name: others[name]["mean_delay_s"])
        fullest = max(others, key=lambda name: others[name]["completeness"]["mean"])
        checks.append(
            Check(
                f"at {budget:g} a day value has the lowest mean delay of those without foresight",
                ours["mean_delay_s"] <= others[fastest]["mean_delay_s"],
                f"next: {fastest}",
                {"value_h": ours["mean_delay_s"] / 3600, "next_h": others[fastest]["mean_delay_s"] / 3600},
            )
        )
        checks.append(
            Check(
                f"at {budget:g} a day value's completeness is within .002 of the best",
                ours["completeness"]["mean"] >= others[fullest]["completeness"]["mean"] - 0.002,
                f"best: {fullest}",
                {"value": ours["completeness"]["mean"], "best": others[fullest]["completeness"]["mean"]},
            )
        )
        online = same.get(ONLINE)
        if online is not None:
            checks.append(
                Check(
                    f"at {budget:g} a day the price found without foresight keeps the budget",
                    abs(online["off_budget"]) <= 0.05,
                    "within 5 %",
                    {"off": online["off_budget"]},
                )
            )
    return checks


EXPERIMENT = Experiment(
    name="peers",
    source="ours",
    summary="every strategy and every peer's rule on a real trace, as is and at equal cost",
    run=run_experiment,
    draw=draw_figure,
    takes=frozenset({"trace", "window", "per_day", "warmup_days", "strategies"}),
)
