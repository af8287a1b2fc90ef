"""Draws the thesis's pictures of divergence, saturation, utility, daily behaviour and its models.

Figures 2.1–2.3, 4.1, 6.3–6.5, 7.2 and 7.6. Everything comes from one small world, or for chapter 6 from the trace, and
every picture has a statement that is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats
from headwater.errors import TraceError
from headwater.estimate.models.smoothing import PeriodicRate, SingleRate
from headwater.lab.description import activity
from headwater.lab.description.activity import DayShape, HourlyCounts
from headwater.lab.experiment import Check, Experiment, ExperimentResult, LabSettings, Progress, Row
from headwater.lab.figures import COLOURS, create_figure, line_style
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.estimator_error import (
    CYCLE_SECONDS,
    CYCLES_PER_DAY,
    average_day,
    draw_refreshes,
    measure_error,
)
from headwater.lab.simulation.scores import saturation_coefficient
from headwater.lab.sweep import run_each
from headwater.lab.traces.synthetic_world import ShapeFamily, WorldSettings, draw_world
from headwater.lab.traces.trace import Trace, load_trace
from headwater.times import DAY, HOUR

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SELECTIVITY = 0.4
WINDOW = 10
PHASES: tuple[ShapeFamily, ...] = ("uniform", "peaks", "waves")
PHASE_WEEKS = 4
BUSY = 24.0  # items a day of the feeds whose periodicity is shown
REFRESHES = (1.0, 2.5, 4.0)  # of figure 2.1, in windows of items since the first refresh


def follow_divergence(window: int) -> dict[str, Floats]:
    """Return the stream and window divergence of one source since its last refresh, for a union and a filter, and its
    divergence over several refreshes."""
    wanted = make_rng(0, 20).random(4 * window) < SELECTIVITY
    published = np.arange(len(wanted) + 1)
    relevant = np.concatenate([[0], np.cumsum(wanted)])
    edge = np.maximum(published - window, 0)
    refreshes = np.array([0, *(round(each * window) for each in REFRESHES)])
    read = refreshes[np.searchsorted(refreshes, published, side="right") - 1]
    return {
        "refreshed, all": (published - read).astype(float),
        "refreshed, filtered": (relevant - relevant[read]).astype(float),
        "stream, all": published.astype(float),
        "stream, filtered": relevant.astype(float),
        "window, all": (published - edge).astype(float),
        "window, filtered": (relevant - relevant[edge]).astype(float),
    }


def measure_loss(window: int, refreshes: float, rate: float) -> float:
    """Return the share of items lost by a source that publishes and is refreshed at even intervals."""
    times = np.arange(1, 2001) / rate
    fetched = np.ceil(times * refreshes - 1e-9) / refreshes
    newer = np.floor(fetched * rate + 1e-9) - np.arange(1, 2001)
    return float((newer >= window).mean())


def compute_utilities(steps: int = 101) -> dict[str, Any]:
    """Return two divergence curves with the same end, one late and one early, and their utilities (eq. 4.5)."""
    time = np.linspace(0.0, 10.0, steps)
    curves = {"late": 20.0 * (time / 10.0) ** 3, "early": 20.0 * (time / 10.0) ** (1 / 3)}
    utility = {name: float(10.0 * curve[-1] - np.trapezoid(curve, time)) for name, curve in curves.items()}
    return {"time": time, "curves": curves, "utility": utility}


def follow_day() -> dict[str, Floats]:
    """Return the true divergence of a wavy feed over a day, and that of a constant and an adaptive rate (fig. 7.2)."""
    settings = WorldSettings(feeds=1, days=15.0, low=96.0, high=96.0, shape="waves")
    trace = draw_world(settings, make_rng(0, 21)).trace
    start = trace.start // DAY * DAY
    counts = np.bincount(((trace.times - start) // CYCLE_SECONDS).astype(np.int64), minlength=15 * CYCLES_PER_DAY)
    published = np.cumsum(counts)
    row, no, alpha = np.array([0]), np.array([False]), 0.6
    adaptive = SingleRate(1, alpha=alpha)
    constant = len(trace.times) / (15 * DAY)
    read, last = 0, 0.0
    found: dict[str, list[float]] = {"real": [], "constant": [], "adaptive": []}
    for cycle in range(15 * CYCLES_PER_DAY):
        now = (cycle + 1) * CYCLE_SECONDS
        if cycle >= 14 * CYCLES_PER_DAY:
            found["real"].append(float(published[cycle] - read))
            found["constant"].append(constant * (now - last))
            found["adaptive"].append(float(adaptive.expected(row, np.array([last]), np.array([now]))[0]))
        if (cycle + 1) % 6 == 0:  # refreshed every hour
            new = np.array([float(published[cycle] - read)])
            adaptive.observe(row, np.array([last]), np.array([now]), new, no)
            read, last = int(published[cycle]), now
    return {name: np.array(values) for name, values in found.items()}


def learn_days(hours: float) -> dict[str, Floats]:
    """Return the true and the estimated day at the end of each phase of a feed that changes its shape (fig. 7.6)."""
    rng = make_rng(0, 22)
    parts = []
    for shape in PHASES:
        settings = WorldSettings(feeds=1, days=7.0 * PHASE_WEEKS, low=48.0, high=48.0, shape=shape)
        trace = draw_world(settings, rng).trace
        cycle = ((trace.times - trace.start // DAY * DAY) // CYCLE_SECONDS).astype(np.int64)
        parts.append(np.bincount(cycle, minlength=7 * PHASE_WEEKS * CYCLES_PER_DAY)[: 7 * PHASE_WEEKS * CYCLES_PER_DAY])
    counts = np.concatenate(parts)[:, None]
    plan = draw_refreshes(len(counts), 1, hours, rng)
    model = PeriodicRate(0, alpha=0.1)
    found = measure_error(model, counts, plan, np.zeros(1, dtype=np.int64), len(counts), weekly=True)
    ends = [PHASE_WEEKS * (k + 1) for k in range(len(PHASES))]
    true = np.array([average_day(counts, week)[0] for week in ends])
    return {"true": true, "estimated": np.array([found.models[week - 1][0] for week in ends])}


def choose_days(trace: Trace | None) -> dict[str, dict[str, Any]]:
    """Return the hourly mean and deviation of a periodic and an aperiodic feed, and of one feed of each shape."""
    if trace is None:
        worlds: dict[str, WorldSettings] = {
            "periodic": WorldSettings(feeds=1, days=28, low=200, high=200, shape="waves"),
            "aperiodic": WorldSettings(feeds=1, days=28, low=30, high=30, shape="uniform", burst=6.0),
        }
        for phase in PHASES:
            worlds[phase] = WorldSettings(feeds=1, days=28, low=100, high=100, shape=phase)
        drawn = {name: draw_world(settings, make_rng(1, 23)).trace for name, settings in worlds.items()}
        return {name: _describe_day(activity.count_by_hour(one), 0, "synthetic") for name, one in drawn.items()}
    counts, per_day = activity.count_by_hour(trace), activity.daily_rates(trace)
    busy = np.flatnonzero(per_day >= BUSY)
    if not len(busy):
        raise TraceError(f"The trace has no feed with {BUSY:g} items a day.")
    variation, shapes = activity.measure_variation(counts)[busy], activity.classify_shapes(counts.mean, share=0.8)
    chosen = {"periodic": int(busy[np.argmin(variation)]), "aperiodic": int(busy[np.argmax(variation)])}
    for shape in DayShape:  # the busiest feed of each: none of BUSY may have peaks
        mine = np.flatnonzero(shapes == shape)
        if len(mine):
            chosen[shape.name.lower()] = int(mine[np.argmax(per_day[mine])])
    return {name: _describe_day(counts, feed, trace.names[feed]) for name, feed in chosen.items()}


def _describe_day(counts: HourlyCounts, feed: int, label: str) -> dict[str, Any]:
    """Return one feed's day, over the whole span of the trace: days without items count too."""
    cv = float(activity.measure_variation(counts)[feed])
    return {"mean": counts.mean[feed], "sd": counts.sd[feed], "cv": cv, "label": label}


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Compute all pictures; those of chapter 6 from the trace if there is one."""
    window = given.window or WINDOW
    divergence, utilities, day = follow_divergence(window), compute_utilities(), follow_day()
    models = run_each(learn_days, (1.0, 24.0), given, progress, "models")
    days = choose_days(None if given.trace is None else load_trace(given.trace))
    settings: dict[str, Any] = {"window": window, "selectivity": SELECTIVITY, "phase_weeks": PHASE_WEEKS}
    if given.trace is not None:
        settings["trace"] = given.trace.name
    rows: list[Row] = [
        {"concept": f"utility of the {name} source", "value": v} for name, v in utilities["utility"].items()
    ]
    rows += [{"concept": f"CV of the {name} feed", "value": each["cv"]} for name, each in days.items()]
    data = {"divergence": divergence, "utilities": utilities, "day": day, "models": models, "days": days}
    return ExperimentResult("concepts", settings, rows, _check_all(data, window), data=data)


def _check_all(data: dict[str, Any], window: int) -> list[Check]:
    filtered, whole = data["divergence"]["window, filtered"], data["divergence"]["window, all"]
    falls = {
        "largest fall before saturation": float(-np.diff(filtered[: window + 1]).min()),
        "largest fall after it": float(-np.diff(filtered[window:]).min()),
    }
    losses = {
        f"λ = {rate:g}, r = {r:g}": measure_loss(window, r, rate) - float(saturation_coefficient(window, r, rate))
        for rate in (5.0, 20.0, 80.0)
        for r in (0.5, 1.0, 2.0)
    }
    late, early = (data["utilities"]["utility"][name] for name in ("late", "early"))
    errors = {
        name: float(np.sqrt(np.mean((data["day"][name] - data["day"]["real"]) ** 2)))
        for name in ("constant", "adaptive")
    }
    apart = {
        f"{hours:g} h, {shape}": float(np.linalg.norm(model["estimated"][k] - model["true"][k]) / 48.0)
        for hours, model in data["models"].items()
        for k, shape in enumerate(PHASES)
    }
    variation = {name: data["days"][name]["cv"] for name in ("periodic", "aperiodic")}
    return [
        Check(
            "window divergence grows until saturation, and can fall after it if a query filters",
            falls["largest fall before saturation"] <= 0 < falls["largest fall after it"]
            and bool((np.diff(whole) >= 0).all()),
            "no fall before W items, one at least after; without a filter it never falls",
            falls,
            "thesis 2.1, figs 2.1, 2.2",
        ),
        Check(
            "the saturation coefficient is the share of items lost",
            max(abs(value) for value in losses.values()) <= 0.02,
            "within .02 of the loss of a source that publishes and is refreshed at even intervals",
            losses,
            "thesis def. 2.1.7, fig. 2.3",
        ),
        Check(
            "of two sources with the same divergence, the one that diverged late has the greater utility",
            late > early,
            "area above the curve",
            {"late": late, "early": early},
            "thesis fig. 4.1",
        ),
        Check(
            "an adaptive rate follows the day more closely than a constant one",
            errors["adaptive"] < errors["constant"],
            "root mean square error of the divergence",
            errors,
            "thesis fig. 7.2",
        ),
        Check(
            "refreshed every hour the daily model is near the true day, refreshed daily it is not",
            all(apart[f"1 h, {shape}"] < apart[f"24 h, {shape}"] for shape in ("peaks", "waves")),
            "smaller distance with hourly refreshes at the end of the peaks and waves phases",
            apart,
            "thesis fig. 7.6",
        ),
        Check(
            "feeds that repeat their day have a small coefficient of variation",
            variation["periodic"] <= 1.0 < variation["aperiodic"],
            "at most 1 for one feed and above 1 for another",
            variation,
            "thesis 6.3, figs 6.3, 6.4",
        ),
    ]


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw all pictures on one page."""
    data = result.data
    figure, axes = create_figure(5, 3, width=4.6, height=3.0)
    _draw_divergence(axes[0], data["divergence"], ("refreshed",), "Fig. 2.1: divergence falls to 0 at each refresh")
    axes[0].set_xlabel("items published")
    _draw_divergence(axes[1], data["divergence"], ("window", "stream"), "Fig. 2.2: the window's falls after saturation")
    axes[1].set_xlabel("items published since the refresh")
    axes[1].axvline(result.settings["window"], color=COLOURS[1], linewidth=0.9)
    _draw_saturation(axes[2], result.settings["window"])
    utilities = data["utilities"]
    for place, (name, curve) in enumerate(utilities["curves"].items()):
        axes[3].plot(
            utilities["time"],
            curve,
            label=f"{name}: {utilities['utility'][name]:.0f}",
            **line_style(place, marker=False),
        )
        axes[3].fill_between(utilities["time"], curve, curve[-1], color=COLOURS[place], alpha=0.15)
    axes[3].set_xlabel("cycles since the refresh")
    axes[3].set_ylabel("divergence")
    axes[3].set_title("Fig. 4.1: utility is the area above", fontsize=10)
    axes[3].legend(fontsize=8, title="utility")
    hours = (np.arange(len(data["day"]["real"])) + 1) * CYCLE_SECONDS / HOUR
    for place, (name, values) in enumerate(data["day"].items()):
        axes[4].plot(hours, values, label=name, linewidth=1.0, **line_style(place, marker=False))
    axes[4].set_title("Fig. 7.2: real and estimated divergence", fontsize=10)
    axes[4].set_xlabel("hour of the day")
    axes[4].set_ylabel("divergence")
    axes[4].legend(fontsize=8)
    for axis, (name, figure_name) in zip(axes[5:7], (("periodic", "6.3"), ("aperiodic", "6.4")), strict=True):
        _draw_day(axis, data["days"][name], f"Fig. {figure_name}: {name}", spread=True)
    for axis, shape in zip(axes[7:10], PHASES, strict=True):
        if shape in data["days"]:
            _draw_day(axis, data["days"][shape], f"Fig. 6.5: {shape}", spread=False)
        else:
            axis.remove()
    for k, shape in enumerate(PHASES):
        axis = axes[10 + k]
        axis.step(range(24), data["models"][1.0]["true"][k], where="mid", color="#000000", linewidth=1.2, label="true")
        for place, (every, model) in enumerate(data["models"].items()):
            style = line_style(place, marker=False)
            axis.plot(range(24), model["estimated"][k], label=f"every {every:g} h", linewidth=1.1, **style)
        axis.set_title(f"Fig. 7.6: model after {shape}", fontsize=10)
        axis.set_xlabel("hour of the day")
        axis.set_ylabel("items an hour")
        axis.set_ylim(0, None)
    axes[10].legend(fontsize=8)
    for axis in axes[13:]:
        axis.remove()
    return figure


def _draw_divergence(axis: Any, curves: dict[str, Floats], kinds: tuple[str, ...], title: str) -> None:
    lines = [(kind, which) for kind in kinds for which in ("all", "filtered")]
    for place, (kind, which) in enumerate(lines):
        label = which if len(kinds) == 1 else f"{kind}, {which}"
        curve = curves[f"{kind}, {which}"]
        axis.step(range(len(curve)), curve, where="post", label=label, **line_style(place, marker=False))
    axis.set_ylabel("divergence")
    axis.set_title(title, fontsize=10)
    axis.legend(fontsize=8)


def _draw_saturation(axis: Any, window: int) -> None:
    rates = np.linspace(0.5, 100.0, 200)
    for place, refreshes in enumerate((0.5, 1.0, 2.0, 4.0)):
        values = saturation_coefficient(window, refreshes, rates)
        axis.plot(rates, values, label=f"r = {refreshes:g}", **line_style(place, marker=False))
    axis.set_xlabel("publication frequency λ (items an hour)")
    axis.set_ylabel("saturation coefficient")
    axis.set_title(f"Fig. 2.3: share lost, W = {window}", fontsize=10)
    axis.legend(fontsize=8)


def _draw_day(axis: Any, day: dict[str, Any], title: str, *, spread: bool) -> None:
    axis.bar(
        range(24), day["mean"], yerr=day["sd"] if spread else None, color=COLOURS[0], ecolor="#777777", capsize=1.5
    )
    axis.set_ylim(0, None)
    axis.set_xlabel("hour (UTC)")
    axis.set_ylabel("items")
    axis.set_title(f"{title} ({day['label']}, CV {day['cv']:.2f})", fontsize=9)


EXPERIMENT = Experiment(
    "concepts",
    "Horincar's thesis, figs 2.1–2.3, 4.1, 6.3–6.5, 7.2, 7.6",
    "divergence, saturation, utility, periodic and aperiodic days, daily shapes and models, in a few seconds",
    run_experiment,
    draw_figure,
    frozenset({"trace", "window"}),
    question="Do divergence, saturation, utility and the daily models behave as the thesis draws them?",
)
