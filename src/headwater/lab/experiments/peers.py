"""Replays every strategy and every peer's rule on a real trace, at equal cost and as it is.

A feed's document shows its newest W items; 7 days of history are visible at the start, a warm-up follows, the rest is
measured. Strategies learn only from their polls. At equal cost each strategy has one constant (a stretch of its
intervals, a budget, a price), found so that all make the same number of requests. Lost items count in completeness, not
in delay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats
from headwater.errors import TraceError
from headwater.lab.experiment import Check, Experiment, ExperimentResult, LabSettings, Progress, Row, make_strategy
from headwater.lab.figures import COLOURS, create_figure
from headwater.lab.simulation.equal_cost import (
    CostKnob,
    FittedReplay,
    choose_knob,
    price_knob,
    replay_at_cost,
    sample_by_activity,
)
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.simulation.scores import ReplayScores, score_replay
from headwater.lab.sweep import SweepJob, run_jobs
from headwater.lab.traces.trace import Trace, load_trace
from headwater.schedule import STRATEGIES, load
from headwater.schedule.strategies.retrieval_schedule import RetrievalScheduleStrategy
from headwater.schedule.strategies.two_steps import UtilityStrategy
from headwater.schedule.strategy import IntervalStrategy, Observed, Strategy, Table
from headwater.schedule.value.value import Value
from headwater.times import DAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VALUE_COLOUR, OTHER_COLOUR, FORESIGHT_COLOUR = COLOURS[1], COLOURS[0], "#8C8C8C"
AS_IT_IS = " as it is"
MAX_LABELS = 12  # points that all have labels; the bars name all
CROWDED = 5e-4  # share of items missing; of many strategies those below stand in one line, named by the bars only
TICKS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0)
LINE_HEIGHT = 9.0  # height of a label, in points
MIN_MISSING = 5e-4  # smallest share of missing items drawn: a logarithmic axis has no zero
RATES = (0.25, 1.0, 4.0)
ONLINE, BARE, OPEN = "value_online", "value_without_plan", "open_loop"
FORESIGHT = frozenset({OPEN})  # knows each feed's true mean rate
LEFT_OUT = frozenset(
    {"reference", "value_index"}
)  # one refreshes everything at every tick, the other is for worlds of cycles
MAX_OWN_REFRESHES = 20_000_000  # of a rule as it is; beyond that a sample of the feeds is replayed
MAX_REFRESHES = 4_000_000  # of a replay; beyond that a sample of the feeds is replayed
USUAL_REFRESHES = 400_000  # without --per-day: hundreds of replays at three rates, as in `lab report`
MAX_DAYS = 3000.0  # only the last days of a longer trace are replayed
MIN_SHARE = 0.02  # share of the items in those days; fewer mean that some dates lie far in the future by mistake


class OpenLoopStrategy(IntervalStrategy):
    """Polls every T = 1 / √λ days, with each feed's true mean rate λ known: a yardstick with foresight.

    It learns nothing.
    """

    name = "open_loop"

    def __init__(self, feeds: int = 0, *, scale: float = 1.0, intervals: Floats | None = None) -> None:
        self._every = np.full(feeds, DAY) if intervals is None else intervals
        super().__init__(feeds, scale=scale)

    @classmethod
    def from_trace(cls, trace: Trace, protocol: ReplaySettings) -> OpenLoopStrategy:
        """Make the strategy for the mean rates of the measured span."""
        _, measured, end = protocol.time_span(trace)
        counted = trace.item_feeds()[trace.times >= measured]
        # Half an item, so that a feed that publishes nothing in the span is polled too.
        rate = np.maximum(np.bincount(counted, minlength=trace.feeds), 0.5) / ((end - measured) / DAY)
        return cls(trace.feeds, intervals=DAY / np.sqrt(rate))

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        return self._every[seen.rows]


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Replay all strategies at every cost, and rules with intervals of their own as they are."""
    if given.trace is None:
        raise TraceError("The experiment peers needs a trace: give --trace FILE (Parquet or CSV).")
    window = given.window or 20
    warmup = 14.0 if given.warmup_days is None else given.warmup_days
    protocol = ReplaySettings(window=window, warmup_days=warmup)
    highest = max(given.per_day or RATES)
    most = 0 if given.quick else MAX_REFRESHES if given.per_day else USUAL_REFRESHES
    whole, trace = load_trace(given.trace), _load_reduced(str(given.trace), most, highest)
    _, measured, end = protocol.time_span(trace)
    names = given.add_estimators(given.choose_strategies(list_strategies(), list_strategies()))
    key = (str(given.trace), most, highest, window, warmup)
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
    """Name `value` and its variants first, then every registered strategy whose cost can be set."""
    others = [name for name in STRATEGIES if name not in LEFT_OUT and name != "value"]
    return ("value", ONLINE, BARE, OPEN, *others)


@lru_cache(maxsize=2)
def _load_reduced(path: str, most: int, per_day: float) -> Trace:
    """Load the trace, or a sample of its feeds that makes `most` refreshes; 0 asks for the smallest sample."""
    trace = load_trace(path)
    if not most:
        return trace.select_feeds(np.arange(0, trace.feeds, max(trace.feeds // 150, 1)))
    if trace.days > MAX_DAYS:
        items = len(trace.times)
        trace = trace.select_period(trace.end - MAX_DAYS * DAY, np.inf)
        if len(trace.times) < MIN_SHARE * items:
            raise TraceError(
                f"The trace {Path(path).name} goes up to {datetime.fromtimestamp(trace.end, UTC):%Y-%m-%d}, but of its "
                f"{items:,} items only {len(trace.times):,} lie in the last {MAX_DAYS:,.0f} days: remove the "
                "rows whose "
                "dates are wrong."
            )
    return (
        sample_by_activity(trace, max(int(most / (trace.days * per_day)), 100))
        if _count_refreshes(trace, per_day) > most
        else trace
    )


def _count_refreshes(trace: Trace, per_day: float) -> float:
    """Return the number of refreshes of one replay."""
    return trace.feeds * trace.days * per_day


def describe_reduction(whole: Trace, used: Trace) -> list[str]:
    """Say which part of a large trace was replayed."""
    if used.feeds == whole.feeds and used.start == whole.start:
        return []
    return [
        f"Replayed were {used.feeds:,} of {whole.feeds:,} feeds (every so many-th by number of items) and the last "
        f"{used.days:,.0f} of {whole.days:,.0f} days."
    ]


def make_knob(name: str, trace: Trace, protocol: ReplaySettings, per_day: float) -> CostKnob:
    """Return the knob that brings a strategy to a cost."""
    start = 0.08 / per_day**2  # the price of most traces lies within a factor of ten of it
    if _strategy_class(name) is Value:
        return price_knob(lambda price: make_strategy(name, price=price, fast=True), per_day, start)
    if name == BARE:
        return price_knob(lambda price: Value(price=price, plan=False, fast=True), per_day, start)
    if name == OPEN:
        return dataclasses.replace(
            choose_knob(lambda: OpenLoopStrategy.from_trace(trace, protocol), per_day), sampled=False
        )
    return choose_knob(_strategy_factory(name), per_day)


def _strategy_factory(name: str) -> Callable[[], Strategy]:
    kind = _strategy_class(name)
    more: dict[str, Any] = {"rng": 0} if kind is not None and issubclass(kind, UtilityStrategy) else {}
    return lambda: make_strategy(name, **more)


def run_at_cost(path: str, most: int, highest: float, window: int, warmup: float, name: str, per_day: float) -> Row:
    """Replay one strategy at one cost."""
    trace, protocol = _load_reduced(path, most, highest), ReplaySettings(window=window, warmup_days=warmup)
    if name == ONLINE:
        strategy = Value(fast=True)
        run = replay_trace(strategy, trace, protocol, per_day)
        return make_row(name, per_day, score_replay(run), {"price": strategy.price}, run.per_day / per_day - 1)
    fitted: FittedReplay = replay_at_cost(make_knob(name, trace, protocol, per_day), trace, protocol, per_day)
    more = {"constant": fitted.constant} | ({"foresight": True} if name in FORESIGHT else {})
    return make_row(name, per_day, score_replay(fitted.replay), more, fitted.off)


def run_as_is(path: str, most: int, highest: float, window: int, warmup: float, name: str) -> Row:
    """Replay a rule with its own intervals, at the cost they have."""
    trace, protocol = _load_reduced(path, most, highest), ReplaySettings(window=window, warmup_days=warmup)
    strategy = _strategy_factory(name)()
    begin, _, end = protocol.time_span(trace)
    often = 24.0 if (end - begin) / DAY * trace.feeds * 24 > MAX_OWN_REFRESHES else 0.0
    if often:
        trace = trace.select_feeds(
            np.arange(0, trace.feeds, int(np.ceil((end - begin) / DAY * trace.feeds * 24 / MAX_OWN_REFRESHES)))
        )
    run = replay_trace(strategy, trace, protocol)
    row = make_row(f"{name} as it is", run.per_day, score_replay(run), {"per_day": run.per_day}, 0.0)
    if often:
        row["sampled_feeds"] = trace.feeds
    return row


def _strategy_class(name: str) -> type[Strategy] | None:
    """Return a strategy's class; None for a variant that only this experiment knows."""
    return None if name in (ONLINE, BARE, OPEN) else load(name)


def _has_own_rate(name: str) -> bool:
    kind = _strategy_class(name)
    return kind is not None and kind is not Value and issubclass(kind, IntervalStrategy)


def _estimate_work(job: SweepJob) -> float:
    name = job.arguments[5]
    kind = _strategy_class(name)
    planned = name.startswith("value") or (kind is not None and issubclass(kind, RetrievalScheduleStrategy))
    slow = 30.0 if planned else 1.0 if kind is None or issubclass(kind, IntervalStrategy) else 10.0
    return slow * (job.arguments[6] if len(job.arguments) > 6 else 5.0)


def make_row(name: str, budget: float, scores: ReplayScores, more: Row, off: float) -> Row:
    """Make a row in the order of the lab's JSON."""
    measures = dataclasses.asdict(scores)
    row: Row = {"strategy": name, "budget": budget}
    keys = ("requests", "completeness", "freshness", "mean_delay_s", "median_delay_s", "p95_delay_s", "polls_per_item")
    row |= {key: measures[key] for key in (*keys, "error", "lost", "bytes")}
    rest = ("pending", "items", "sd_delay_s", "max_delay_s", "mean_delay_per_feed_s", "polls_per_item_per_feed")
    return row | {key: measures[key] for key in rest} | more | {"off_budget": off}


def list_notes(rows: list[Row]) -> list[str]:
    """Note the strategies that could not be brought to the common cost."""
    return [
        f"{row['strategy']} at {row['budget']:g} a day could not be brought nearer than {row['off_budget']:+.1%} "
        "to the common cost."
        for row in rows
        if abs(row["off_budget"]) > 0.01
    ]


def check_value(rows: list[Row]) -> list[Check]:
    """Check that `value` beats every strategy without foresight at each cost."""
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


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw a column for each cost, and one for the rules as they are if they were run."""
    equal = [row for row in result.rows if not row["strategy"].endswith(AS_IT_IS)]
    own = [row for row in result.rows if row["strategy"].endswith(AS_IT_IS)]
    costs = sorted({row["budget"] for row in equal})
    columns = len(costs) + bool(own)
    most = max([sum(row["budget"] == cost for row in equal) for cost in costs] + [len(own)])
    height = max(3.6, 1.1 + 0.15 * most)
    figure, axes = create_figure(2, columns, 6.0, height) if columns > 1 else create_figure(1, 2, 5.4, height)
    scattered = []
    for column, cost in enumerate(costs):
        rows = sorted((row for row in equal if row["budget"] == cost), key=lambda row: row["mean_delay_s"])
        rate = f"{cost:g} poll{'' if cost == 1 else 's'} per feed and day"
        _draw_scatter(axes[column], rows)
        scattered.append((axes[column], rows))
        axes[column].set_title(f"{rate}, the same for all", fontsize=10)
        _draw_bars(axes[columns + column], rows, [_strategy_label(row) for row in rows])
        axes[columns + column].set_title(f"Mean and median delay at {rate}", fontsize=10)
    if own:
        own.sort(key=lambda row: row["mean_delay_s"])
        _draw_own_costs(axes[columns - 1], own, [row for row in equal if row["strategy"] == "value"])
        _draw_bars(axes[-1], own, [f"{_strategy_label(row)} ({row['budget']:.2g} a day)" for row in own])
        axes[-1].set_title("Mean and median delay of rules as they are", fontsize=10)
    about = result.settings
    figure.suptitle(
        f"{about['trace']}: {about['feeds']:,} feeds, {about['items']:,} items in {about['measured_days']:.0f} days, "
        f"documents of {about['window']}",
        fontsize=11,
    )
    figure.draw_without_rendering()
    for axis, rows in scattered:
        _label_points(axis, rows)
    return figure


def _strategy_label(row: Row) -> str:
    name = str(row["strategy"]).removesuffix(AS_IT_IS)
    return f"{name} (knows the rates)" if row.get("foresight") else name


def _strategy_colour(row: Row) -> str:
    if row.get("foresight"):
        return FORESIGHT_COLOUR
    return VALUE_COLOUR if row["strategy"].startswith("value") else OTHER_COLOUR


def _delay_hours(row: Row, key: str = "mean_delay_s") -> float:
    return float(row[key]) / 3600


def _missing_share(row: Row) -> float:
    return max(1.0 - float(row["completeness"]["mean"]), MIN_MISSING)


def _draw_scatter(axis: Any, rows: list[Row]) -> None:
    """Draw delay against completeness; the best are at the top left."""
    for row in rows:
        star = row["strategy"] == "value"
        look = {"marker": "*", "s": 190, "zorder": 4} if star else {"marker": "o", "s": 34, "zorder": 3}
        axis.scatter(
            _delay_hours(row),
            _missing_share(row),
            color=_strategy_colour(row),
            edgecolors="white",
            linewidths=0.6,
            **look,
        )
    axis.set_xscale("log")
    _format_hours(axis, "x")
    axis.set_yscale("log")
    low, high = min(map(_missing_share, rows)), max(map(_missing_share, rows))
    ticks = [tick for tick in TICKS if 0.5 * low <= max(1 - tick, MIN_MISSING) <= 1.5 * high]
    axis.set_yticks([max(1 - tick, MIN_MISSING) for tick in ticks], [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    axis.set_ylim(high * 1.7, low / 1.9)
    spread = _delay_hours(rows[-1]) / max(_delay_hours(rows[0]), 1e-9)
    axis.set_xlim(_delay_hours(rows[0]) / spread**0.08, _delay_hours(rows[-1]) * spread**0.3)
    axis.set_xlabel("mean delay (hours)")
    axis.set_ylabel("completeness")


def _label_points(axis: Any, rows: list[Row]) -> None:
    """Label the points, moving labels until none covers another label or point. The layout must be final."""
    box, scale = axis.get_window_extent(), 72.0 / axis.figure.dpi  # lengths in points, as the offsets are
    low, high = box.y0 * scale + 4, box.y1 * scale - 4
    start, end = box.x0 * scale - 2, box.x1 * scale + 30  # a label may reach beyond the axes at their right end
    at = [tuple(axis.transData.transform((_delay_hours(row), _missing_share(row))) * scale) for row in rows]
    taken = [(x - 5, x + 5, y) for x, y in at]  # left, right, height
    named = [
        each
        for each in zip(rows, at, strict=True)
        if len(rows) <= MAX_LABELS or each[0]["strategy"] == "value" or _missing_share(each[0]) > CROWDED
    ]
    for row, (x, y) in named:
        width = 5.2 * len(row["strategy"])
        places = [
            (left, y + LINE_HEIGHT * step)
            for step in sorted(range(-9, 10), key=abs)
            for left in (x + 8, x - 8 - width)
            if low < y + LINE_HEIGHT * step < high and start < left and left + width < end
        ]
        free = (
            (left, height)
            for left, height in places
            if not any(a < left + width and left < b and abs(height - h) < LINE_HEIGHT for a, b, h in taken)
        )
        left, height = next(free, (x + 8, y))
        taken.append((left, left + width, height))
        look = {"fontsize": 8, "color": _strategy_colour(row), "va": "center", "annotation_clip": False}
        look["fontweight"] = "bold" if row["strategy"] == "value" else "normal"
        if height != y:  # a thin line connects label and point
            look["arrowprops"] = {
                "arrowstyle": "-",
                "color": _strategy_colour(row),
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 2,
            }
        where = (_delay_hours(row), _missing_share(row))
        axis.annotate(row["strategy"], where, xytext=(left - x, height - y), textcoords="offset points", **look)


def _draw_bars(axis: Any, rows: list[Row], labels: list[str]) -> None:
    places = range(len(rows))
    for row, place in zip(rows, places, strict=True):
        first = place == 0
        axis.barh(
            place, _delay_hours(row), 0.74, color=_strategy_colour(row), alpha=0.45, label="mean" if first else None
        )
        median = _delay_hours(row, "median_delay_s")
        axis.barh(place, median, 0.34, color=_strategy_colour(row), label="median" if first else None)
        axis.text(_delay_hours(row), place, f" {_delay_hours(row):.3g}", fontsize=7, va="center")
    axis.set_yticks(list(places), labels, fontsize=8)
    for text, row in zip(axis.get_yticklabels(), rows, strict=True):
        if row["strategy"] == "value":
            text.set_fontweight("bold")
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(visible=False, axis="y")
    axis.set_xlim(0, max(map(_delay_hours, rows)) * 1.12)
    axis.set_xlabel("delay (hours): pale the mean, full the median")


def _draw_own_costs(axis: Any, own: list[Row], ours: list[Row]) -> None:
    for row in own:
        axis.scatter(
            row["budget"], _delay_hours(row), color=OTHER_COLOUR, s=24, edgecolors="white", linewidths=0.6, zorder=3
        )
        axis.annotate(
            _strategy_label(row),
            (row["budget"], _delay_hours(row)),
            xytext=(5, 3),
            textcoords="offset points",
            fontsize=6.5,
        )
    ours = sorted(ours, key=lambda row: row["budget"])
    if ours:
        line = {"color": VALUE_COLOUR, "marker": "*", "markersize": 11, "linewidth": 1.4, "label": "value"}
        axis.plot([row["budget"] for row in ours], [_delay_hours(row) for row in ours], **line)
        axis.legend(fontsize=8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    _format_hours(axis, "x")
    _format_hours(axis, "y")
    axis.set_xlabel("polls per feed and day")
    axis.set_ylabel("mean delay (hours)")
    axis.set_title("Rules as they are, each at its own cost", fontsize=10)


def _format_hours(axis: Any, which: str) -> None:
    """Label an axis with 1, 2, 5, 10 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    side.set_minor_formatter(NullFormatter())


EXPERIMENT = Experiment(
    name="peers",
    source="ours",
    summary="every strategy and every peer's rule on a real trace, as is and at equal cost",
    run=run_experiment,
    draw=draw_figure,
    takes=frozenset({"trace", "window", "per_day", "warmup_days", "strategies", "estimators"}),
    question="How do all strategies and the rules of other readers compare on real feeds at equal cost?",
)
