"""Looks at postings as Sia & Cho do before they schedule: by week and hour, how stable rates are, how much is new.

Figures 3, 5, 9 and 10, and the saving of section 4.6, on a synthetic world or on the trace. Beside them stands
Urbansky's figure 1: the polls of the moving average when a feed slows down and recovers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats, Ragged
from headwater.errors import TraceError
from headwater.estimate.models.mean_gap import MovingAverage
from headwater.lab.experiment import Check, Experiment, ExperimentResult, LabSettings, Progress, Row
from headwater.lab.figures import COLOURS, create_figure
from headwater.lab.retrieval_times import draw_retrievals, plan_day, read_pattern
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.traces.synthetic_world import WorldSettings, draw_world
from headwater.lab.traces.trace import Trace, load_trace
from headwater.times import DAY, HOUR, WEEK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPAN = 14 * DAY  # over which a rate is measured (4.2)
WINDOW = 12  # postings that a document shows on average (4.6)
NEW_A_DAY = 4.3  # of them are new after one day, in the paper
RETRIEVALS = 6  # of Example 2 and figure 5
TIMELINE_WINDOW = 5  # of Urbansky's figure 1


def check_length(trace: Trace, name: str) -> None:
    """Raise TraceError for a trace that is too short to compare two rates."""
    if trace.days < 2 * SPAN / DAY:
        raise TraceError(f"The trace {name} has {trace.days:.0f} days; rates of twice 14 days need at least 28.")


def count_postings(trace: Trace, seconds: float) -> Floats:
    """Count the postings of all feeds in every whole interval of the trace."""
    number = int((trace.end - trace.start) // seconds)
    place = ((trace.times - trace.start) // seconds).astype(np.int64)
    return np.bincount(place[place < number], minlength=number).astype(float)


def measure_rates(trace: Trace, begin: float) -> Floats:
    """Return the postings of each feed per day in the fourteen days from `begin` on."""
    inside = (trace.times >= begin) & (trace.times < begin + SPAN)
    return np.bincount(trace.item_feeds()[inside], minlength=trace.feeds) / (SPAN / DAY)


def overlap_days(trace: Trace) -> Floats:
    """Return the share of all postings in each hour of the day (UTC)."""
    hours = np.bincount((trace.times % DAY // HOUR).astype(np.int64), minlength=24)
    return np.asarray(hours / hours.sum())


def count_new(trace: Trace, window: int) -> float:
    """Return how many of a document's `window` postings are new after a day, averaged over feeds and whole days."""
    days = int((trace.end - trace.start) // DAY)
    day = ((trace.times - trace.start) // DAY).astype(np.int64)
    inside = day < days
    counts = np.bincount(trace.item_feeds()[inside] * days + day[inside], minlength=trace.feeds * days)
    return float(np.minimum(counts, window).mean())


def follow_moving_average() -> dict[str, Floats]:
    """Poll one feed by the moving average of its last five items: frequent, rare and again frequent updates."""
    gaps = [10.0] * 12 + [60.0] * 5 + [10.0] * 30
    items = np.cumsum(gaps)
    row, no = np.array([0]), np.array([False])
    estimator = MovingAverage(1, window=TIMELINE_WINDOW)
    last, now = -np.inf, float(items[TIMELINE_WINDOW])
    polls, intervals = [], []
    while now < items[-1]:
        fresh = items[(items > last) & (items <= now)][-TIMELINE_WINDOW:]
        dates = Ragged(np.array([0, len(fresh)]), fresh)
        estimator.observe(row, np.array([last]), np.array([now]), np.array([float(len(fresh))]), no, dates)
        polls.append(now)
        intervals.append(float(estimator.gap(row)[0]))
        last, now = now, now + intervals[-1]
    edges = items[[11, 16]]
    return {"items": items, "polls": np.array(polls), "intervals": np.array(intervals), "edges": edges}


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Describe the postings of the trace, or of a synthetic world if there is none."""
    window = given.window or WINDOW
    if given.trace is not None:
        trace, where = load_trace(given.trace), given.trace.name
    else:
        feeds = 100 if given.quick else 1000
        # Sia & Cho state a power law of 1 to 1000 postings in 90 days. How sharp days and weekends are is ours.
        world = WorldSettings(feeds, 90.0, 1 / 90, 1000 / 90, exponent=0.78, shape="six", share=0.5, weekend=0.6)
        trace, where = draw_world(world, make_rng(0, 30)).trace, "synthetic feeds"
    check_length(trace, where)
    rates = {
        "first": measure_rates(trace, trace.start),
        "next": measure_rates(trace, trace.start + SPAN),
        "last": measure_rates(trace, trace.end - SPAN),
    }
    data: dict[str, Any] = {
        "weeks": count_postings(trace, WEEK),
        "two_hours": count_postings(trace, 2 * HOUR),
        "rates": rates,
        "day": overlap_days(trace),
        "timeline": follow_moving_average(),
        "retrievals": plan_day(read_pattern("sine"), RETRIEVALS, "refine"),
    }
    new = count_new(trace, window)
    settings: dict[str, Any] = {"feeds": trace.feeds, "days": round(trace.days, 1), "window": window}
    if given.trace is not None:
        settings["trace"] = where
    rows: list[Row] = [
        {"measure": "postings a week", "value": float(data["weeks"].mean())},
        {"measure": "new postings of a document after one day", "value": new},
        {"measure": "saving by a protocol that sends new postings only", "value": 1 - new / window},
    ]
    checks = [*_check_figures(data, given.trace is not None), _check_saving(new, window), _check_timeline(data)]
    checks.append(check_retrievals(data["retrievals"]))
    return ExperimentResult("postings", settings, rows, checks, data=data)


def _check_figures(data: dict[str, Any], real: bool) -> list[Check]:
    weeks, short = data["weeks"], data["two_hours"]
    spread = {"weeks": float(weeks.std() / weeks.mean()), "two hours": float(short.std() / short.mean())}
    bands = {name: measure_band(data["rates"]["first"], data["rates"][name]) for name in ("next", "last")}
    day = data["day"]
    hours = {"busiest hour": float(day.max()), "quietest hour": float(day.min())}
    return [
        Check(
            "postings by week are stable, postings by two hours fluctuate",
            spread["weeks"] <= 0.2 and spread["two hours"] >= 2 * spread["weeks"],
            "standard deviation ÷ mean: at most .2 by week, and at least twice that by two hours",
            spread,
            "Sia & Cho, fig. 3",
        ),
        *(
            Check(
                f"the rates of most feeds in the {name} 14 days are those of the first",
                band["share"] >= 0.9,
                "nine feeds of ten within what chance allows at a constant rate (the paper's band has no stated width)",
                band,
                f"Sia & Cho, fig. 9{letter}",
                because="the rates of more than a tenth of the trace's feeds change" if real and name == "last" else "",
            )
            for (name, band), letter in zip(bands.items(), "ab", strict=True)
        ),
        Check(
            "the postings of all feeds together have a day and a night",
            hours["busiest hour"] >= 1.5 * hours["quietest hour"],
            "busiest hour at least 1.5 times the quietest",
            hours,
            "Sia & Cho, fig. 10",
        ),
    ]


def measure_band(first: Floats, later: Floats) -> dict[str, float]:
    """Return the share of feeds whose rates differ by no more than chance, and the distances to the diagonal that half
    and nine tenths of the feeds keep. Feeds without postings in both spans do not count.

    Two counts of a constant rate differ by at most twice the root of their sum in 95 of 100 cases.

    >>> band = measure_band(np.array([1.0, 2.0, 0.0]), np.array([1.0, 4.0, 0.0]))
    >>> band["share"], round(band["nine tenths"], 2)  # 28 and 56 postings differ by 28 > 2·√84; |2 − 4|/√2 = 1.41
    (0.5, 1.27)
    """
    some = (first + later) > 0
    apart, both = np.abs(later - first)[some], (first + later)[some]
    days = SPAN / DAY
    share = float((apart * days <= 2 * np.sqrt(both * days)).mean())
    half, most = np.quantile(apart / np.sqrt(2.0), [0.5, 0.9])
    return {"share": share, "half": float(half), "nine tenths": float(most)}


def _check_saving(new: float, window: int) -> Check:
    saving = 1 - new / window
    return Check(
        "a protocol that sends only new postings saves most of the bytes of a daily retrieval",
        saving >= 0.5,
        f"at least half of the postings of a document (paper: {WINDOW - NEW_A_DAY:g} of {WINDOW}, 64 %)",
        {"new after one day": new, "paper": NEW_A_DAY, "saving": saving, "paper's saving": 1 - NEW_A_DAY / WINDOW},
        "Sia & Cho, 4.6",
    )


def _check_timeline(data: dict[str, Any]) -> Check:
    line = data["timeline"]
    slow, again = line["edges"]
    before = line["intervals"][line["polls"] < slow][-1]
    during = line["intervals"][(line["polls"] >= slow) & (line["polls"] < again)].max()
    figures = {"before": float(before), "longest while rare": float(during), "at the end": float(line["intervals"][-1])}
    return Check(
        "the moving average lengthens its interval while nothing comes, and shortens it when items return",
        bool(during >= 2 * before) and figures["at the end"] <= 1.1 * before,
        "twice as long within the rare period, and back within a tenth at the end (minutes)",
        figures,
        "Urbansky, fig. 1",
    )


def check_retrievals(plan: dict[str, Any]) -> Check:
    """Check that six retrievals of the paper's sine meet eq. 2: λ(τ_j)·(τ_{j+1} − τ_j) = ∫ λ from τ_{j−1} to τ_j."""
    times = np.array(plan["times_h"])
    before, after = np.roll(times, 1), np.roll(times, -1)
    before[0], after[-1] = before[0] - 24.0, after[-1] + 24.0

    def rate(hour: Floats) -> Floats:
        return np.asarray(2 + 2 * np.sin(2 * np.pi * hour / 24))

    def items(hour: Floats) -> Floats:
        return np.asarray(2 * hour - 24 / np.pi * np.cos(2 * np.pi * hour / 24))

    off = np.abs(rate(times) * (after - times) - (items(times) - items(before)))
    figures = {f"retrieval {place}": float(hour) for place, hour in enumerate(times, start=1)}
    figures |= {"largest deviation from eq. 2": float(off.max())}
    figures |= {"mean delay": plan["mean_delay_h"], "at even intervals": plan["even_mean_delay_h"]}
    return Check(
        "six retrievals of a day with the rate 2 + 2 sin 2πt are optimal",
        bool(off.max() <= 0.05) and plan["mean_delay_h"] < plan["even_mean_delay_h"],
        "eq. 2 within .05 of the 8 postings per retrieval, and a shorter delay than at even intervals (hours)",
        figures,
        "Sia & Cho, fig. 5",
    )


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw Sia & Cho's figures 3, 5, 9 and 10, and Urbansky's figure 1."""
    data = result.data
    figure, axes = create_figure(3, 3, width=4.6, height=3.2)
    for axis, name, days, title in (
        (axes[0], "weeks", 7.0, "S fig. 3a: postings by week"),
        (axes[1], "two_hours", 1 / 12, "S fig. 3b: by two hours, two weeks"),
    ):
        counts = data[name] if name == "weeks" else data[name][: 14 * 12]
        axis.step(np.arange(len(counts)) * days, counts, where="post", color=COLOURS[0], linewidth=1.0)
        axis.set_ylim(0, None)
        axis.set_xlabel("day")
        axis.set_title(title, fontsize=10)
    axes[2].bar(range(24), 100 * data["day"], color=COLOURS[0])
    axes[2].set_xlabel("hour (UTC)")
    axes[2].set_ylabel("postings (%)")
    axes[2].set_title("S fig. 10: the day of all feeds", fontsize=10)
    for axis, name, letter in ((axes[3], "next", "a"), (axes[4], "last", "b")):
        _draw_rates(axis, data["rates"]["first"], data["rates"][name])
        axis.set_ylabel(f"{name} 14 days")
        axis.set_title(f"S fig. 9{letter}: rates of two spans", fontsize=10)
    line = data["timeline"]
    axes[5].vlines(line["items"], 0, 1, color="#777777", linewidth=0.8, label="items")
    axes[5].vlines(line["polls"], 1.2, 2.2, color=COLOURS[1], linewidth=0.9, label="polls")
    axes[5].set_yticks([])
    axes[5].set_xlabel("minutes")
    axes[5].set_title("U fig. 1: moving average, w = 5", fontsize=10)
    axes[5].legend(fontsize=8, loc="center right", ncols=2)
    draw_retrievals(axes[6], data["retrievals"])
    axes[6].set_title("S fig. 5: six retrievals of 2 + 2 sin 2πt", fontsize=10)
    for axis in axes[7:]:
        axis.remove()
    return figure


def _draw_rates(axis: Any, first: Floats, later: Floats) -> None:
    """Draw two rates of every feed, in the paper's three groups by distance to the diagonal."""
    apart = np.abs(later - first)
    edges = np.quantile(apart, [0.0, 0.5, 0.9, 1.0])
    for (low, high), colour, label in zip(
        pairwise(edges), COLOURS, ("nearest half", "next 40 %", "rest"), strict=False
    ):
        chosen = (apart >= low) & (apart <= high)
        axis.plot(first[chosen], later[chosen], ".", color=colour, markersize=3, label=label)
    top = max(first.max(), later.max())
    axis.plot([0, top], [0, top], color="#777777", linewidth=0.8)
    for scale in (axis.set_xscale, axis.set_yscale):
        scale("symlog", linthresh=0.1, linscale=0.3)  # a power law of rates: most feeds stand below one a day
    axis.set_xlim(-0.02, 1.5 * top)
    axis.set_ylim(-0.02, 1.5 * top)
    axis.set_xlabel("postings a day, first 14 days")
    axis.legend(fontsize=7)


EXPERIMENT = Experiment(
    "postings",
    "Sia & Cho, figs 3, 5, 9, 10 and section 4.6; Urbansky, fig. 1",
    "postings by week and hour, stability of rates, saving by new postings only, polls of the moving average",
    run_experiment,
    draw_figure,
    frozenset({"trace", "window"}),
    question="Are postings as regular as the papers say, and what does a protocol for new items save?",
)
