"""Compares the learned forecast with the belief that it corrects, on a real trace at equal cost.

Variants of `value` differ only in their forecast: the belief of `bayes`, the network of the package as it is (frozen),
the network that goes on learning, and networks that do not see a group of inputs. `look_ahead` plans on the items that
will really come in each bin: no forecast on these bins can do better. `clairvoyant` knows every item and has the least
delay that any refreshes of that cost can have. Ratios are to `belief`, with 95 % intervals by
resampling feeds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.errors import TraceError
from headwater.estimate.learned.inputs import REFRESH_INPUTS
from headwater.estimate.learned.network import Network, split_layers
from headwater.estimate.models.bayes import Bayes, RateForecast
from headwater.estimate.models.learned_forecast import LearnedForecast, load_network
from headwater.lab.experiment import Check, Experiment, ExperimentResult, LabSettings, Progress, Row
from headwater.lab.figures import COLOURS, create_figure
from headwater.lab.simulation.clairvoyant import replay_clairvoyant
from headwater.lab.simulation.equal_cost import price_knob, replay_at_cost, sample_by_activity
from headwater.lab.simulation.replay import Replay, ReplaySettings
from headwater.lab.simulation.scores import score_replay
from headwater.lab.sweep import SweepJob, run_jobs
from headwater.lab.traces.trace import Trace, load_trace
from headwater.lab.training.forecast_rows import is_held_out
from headwater.schedule.value.value import Value
from headwater.times import DAY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BELIEF, FROZEN, LEARNING, LOOK_AHEAD, CLAIRVOYANT = "belief", "frozen", "learning", "look_ahead", "clairvoyant"
GROUPS: dict[str, tuple[int, ...]] = {  # inputs per refresh, then per bin
    "no_minutes": (17, 18, *(REFRESH_INPUTS + k for k in (3, 4, 8, 24, 25))),
    "no_own_week": (19, 23, *(REFRESH_INPUTS + k for k in (5, 6, 7))),
    "no_same_time_before": tuple(REFRESH_INPUTS + k for k in (9, 10, 11, 12)),
    "no_gaps": (14, 15, 16, *(REFRESH_INPUTS + k for k in range(13, 20))),
}
VARIANTS = (BELIEF, FROZEN, LEARNING, *GROUPS, LOOK_AHEAD, CLAIRVOYANT)
MAX_REFRESHES = 60_000  # of a replay; beyond that a sample of the feeds is replayed
MAX_DAYS = 1000.0
HELD_OUT = 0.2  # the share of feeds that the weights of the package have not been trained on
RESAMPLES = 1000
ENOUGH_ITEMS = 1000  # below that, chance moves a mean delay by more than forecasts do


class LookAhead(Bayes):
    """Knows the items that will come in each bin."""

    name = "look_ahead"

    def __init__(self, trace: Trace, fast: bool = False) -> None:
        super().__init__(fast=fast)
        self._start, self._span = trace.start, trace.end - trace.start + 400 * DAY
        self._axis = trace.item_feeds() * self._span + (trace.times - trace.start)

    def expect_steps(self, rows: Rows, forecast: RateForecast, step: Floats, steps: int) -> Floats:
        edges = forecast.now[:, None] + np.arange(steps + 1) * (step * DAY)[:, None]
        upto = np.searchsorted(
            self._axis, rows[:, None] * self._span + np.minimum(edges - self._start, self._span - DAY), "right"
        ).astype(np.float64)
        return np.asarray(upto - upto[:, :1])


def hide_inputs(network: Network, hidden: tuple[int, ...]) -> Network:
    """Return a network to which some inputs always look as they do on average."""
    weights = network.weights.copy()
    layers = split_layers(weights)
    for k in hidden:
        if k < REFRESH_INPUTS:
            layers["refresh"][k] = 0.0
        else:
            layers["bin"][k - REFRESH_INPUTS] = 0.0
    return replace(network, weights=weights)


def make_value(name: str, trace: Trace, price: float) -> Value:
    """Make `value` with the forecast of a variant."""
    estimator: Bayes
    if name == BELIEF:
        estimator = Bayes(fast=True)
    elif name == LOOK_AHEAD:
        estimator = LookAhead(trace, fast=True)
    elif name in GROUPS:
        estimator = LearnedForecast(network=hide_inputs(load_network(), GROUPS[name]), learning=False, fast=True)
    else:
        estimator = LearnedForecast(learning=name == LEARNING, fast=True)
    return Value(price=price, estimator=estimator, fast=True)


@lru_cache(maxsize=1)
def _load_held_out(path: str, quick: bool, per_day: float) -> Trace:
    """Load the feeds that were held out of the training, or as many as can be replayed in minutes."""
    trace = load_trace(path)
    chosen = np.flatnonzero(is_held_out(trace.names, HELD_OUT))
    trace = trace.select_feeds(chosen) if len(chosen) >= 10 else trace
    if trace.days > MAX_DAYS:
        trace = trace.select_period(trace.end - MAX_DAYS * DAY, np.inf)
    most = MAX_REFRESHES / (10 if quick else 1) / trace.days / per_day
    return sample_by_activity(trace, max(int(most), 10)) if trace.feeds > most else trace


def run_variant(path: str, quick: bool, window: int, warmup: float, name: str, per_day: float) -> tuple[Row, Floats]:
    """Replay one variant at one cost; return its row, and the summed delay and items of each feed."""
    trace, protocol = _load_held_out(path, quick, per_day), ReplaySettings(window=window, warmup_days=warmup)
    if name == CLAIRVOYANT:
        fitted = replay_clairvoyant(trace, protocol, per_day)
    else:
        knob = price_knob(partial(make_value, name, trace), per_day, 0.08 / per_day**2)
        fitted = replay_at_cost(knob, trace, protocol, per_day)
    scores = score_replay(fitted.replay)
    row: Row = {
        "strategy": name,
        "budget": per_day,
        "feeds": trace.feeds,
        "requests": scores.requests,
        "completeness": {"mean": scores.completeness.mean, "sd": scores.completeness.sd},
        "mean_delay_s": scores.mean_delay_s,
        "median_delay_s": scores.median_delay_s,
        "off_budget": fitted.off,
    }
    return row, sum_delays(fitted.replay) * np.array([[1 + fitted.off], [1.0]])


def sum_delays(run: Replay) -> Floats:
    """Return the summed delay (seconds) of each feed's measured items that were obtained, and their number."""
    owner, trace = run.trace.item_feeds(), run.trace
    counted = np.isfinite(run.obtained) & (trace.times >= run.measured)
    late = np.maximum(run.obtained - trace.times, 0.0)[counted]
    return np.stack(
        [
            np.bincount(owner[counted], late, trace.feeds),
            np.bincount(owner[counted], minlength=trace.feeds).astype(np.float64),
        ]
    )


def bootstrap_ratio(ours: Floats, theirs: Floats, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of two mean delays, by resampling feeds.

    >>> same = np.array([[10.0, 20.0, 30.0], [1.0, 2.0, 3.0]])
    >>> bootstrap_ratio(same, same)
    (1.0, 1.0)
    """
    rng = np.random.default_rng(seed)
    chosen = rng.integers(ours.shape[1], size=(RESAMPLES, ours.shape[1]))
    a, b = ours[:, chosen].sum(2), theirs[:, chosen].sum(2)
    ratio = (a[0] / np.maximum(a[1], 1)) / np.maximum(b[0] / np.maximum(b[1], 1), 1e-9)
    low, high = np.quantile(ratio, [0.025, 0.975])
    return float(low), float(high)


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Replay every variant at every cost."""
    if given.trace is None:
        raise TraceError("The experiment forecast needs a trace: give --trace FILE (Parquet or CSV).")
    rates = given.per_day or (1.0,)
    window, warmup = given.window or 20, 14.0 if given.warmup_days is None else given.warmup_days
    names = given.choose_strategies(VARIANTS, VARIANTS)
    names = names if BELIEF in names else (BELIEF, *names)
    jobs = [
        SweepJob(run_variant, (str(given.trace), given.quick, window, warmup, name, rate))
        for rate in rates
        for name in names
    ]
    found = run_jobs(jobs, given, progress, "replays")
    rows: list[Row] = []
    for place in range(len(rates)):
        part = found[place * len(names) : (place + 1) * len(names)]
        belief = part[names.index(BELIEF)][1]
        for row, sums in part:
            low, high = bootstrap_ratio(sums, belief)
            mean = sums[0].sum() / max(sums[1].sum(), 1) / max(belief[0].sum() / max(belief[1].sum(), 1), 1e-9)
            rows.append({**row, "ratio": float(mean), "ratio_low": low, "ratio_high": high})
    about = {
        "trace": Path(given.trace).name,
        "feeds": max(row["feeds"] for row in rows),
        "window": window,
        "warmup_days": warmup,
        "per_day": list(rates),
    }
    note = "Replayed were feeds held out of the training of the package's weights (a fifth by name), or a sample."
    measured = min(int(sums[1].sum()) for _, sums in found)
    return ExperimentResult("forecast", about, rows, check_rows(rows), [note, describe_items(measured)])


def describe_items(items: int) -> str:
    """Say how many items each mean delay is made of.

    >>> describe_items(15)
    'Each mean delay is that of 15 items or more: too few to compare forecasts.'
    """
    said = f"Each mean delay is that of {items:,} items or more"
    return f"{said}: too few to compare forecasts." if items < ENOUGH_ITEMS else f"{said}."


def check_rows(rows: list[Row]) -> list[Check]:
    """Check that the forecast is at least as good as the belief."""
    checks = []
    for row in rows:
        if row["strategy"] not in (FROZEN, LEARNING):
            continue
        belief = next(one for one in rows if one["strategy"] == BELIEF and one["budget"] == row["budget"])
        checks.append(
            Check(
                f"at {row['budget']:g} a day the {row['strategy']} forecast is not slower than the belief",
                row["ratio_low"] <= 1.0,
                "the interval reaches 1 or less",
                {"ratio": row["ratio"], "low": row["ratio_low"], "high": row["ratio_high"]},
            )
        )
        checks.append(
            Check(
                f"at {row['budget']:g} a day the {row['strategy']} forecast loses no more items",
                row["completeness"]["mean"] >= belief["completeness"]["mean"] - 0.002,
                "completeness within .002",
                {"forecast": row["completeness"]["mean"], "belief": belief["completeness"]["mean"]},
            )
        )
    return checks


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw the ratios to the belief with their intervals, one panel for each cost."""
    costs = sorted({row["budget"] for row in result.rows})
    figure, axes = create_figure(1, len(costs), 5.4, 3.6)
    for axis, cost in zip(axes, costs, strict=False):
        rows = [row for row in result.rows if row["budget"] == cost]
        for place, row in enumerate(rows):
            low, high = row["ratio"] - row["ratio_low"], row["ratio_high"] - row["ratio"]
            axis.errorbar(row["ratio"], place, xerr=[[max(low, 0)], [max(high, 0)]], fmt="o", color=_colour(row))
        axis.axvline(1.0, color="#8C8C8C", linewidth=0.8)
        axis.set_yticks(range(len(rows)), [row["strategy"].replace("_", " ") for row in rows], fontsize=8)
        axis.invert_yaxis()
        axis.set_xlabel("mean delay by that of the belief alone")
        axis.set_title(f"{cost:g} {'poll' if cost == 1 else 'polls'} per feed and day", fontsize=10)
    feeds = ", ".join(f"{count:,}" for count in dict.fromkeys(row["feeds"] for row in result.rows))
    figure.suptitle(f"{result.settings['trace']}: {feeds} feeds held out", fontsize=11)
    return figure


def _colour(row: dict[str, Any]) -> str:
    return COLOURS[1] if row["strategy"] in (FROZEN, LEARNING) else COLOURS[0]


EXPERIMENT = Experiment(
    name="forecast",
    source="ours",
    summary="the learned forecast beside the belief it corrects, at equal cost, with intervals and oracles",
    run=run_experiment,
    draw=draw_figure,
    takes=frozenset({"trace", "window", "per_day", "warmup_days", "strategies"}),
    question="Does the learned forecast shorten the delay at equal cost, and which of its inputs matter?",
)
