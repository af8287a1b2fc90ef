"""Tries sample feeds (thesis, future work): a scout whose silence holds correlated feeds back.

Feeds come in groups. A share ρ of each feed's items are items of its group, which appear in all feeds of the group
within minutes; the others are its own. One feed of each group, the scout, is polled more often. As long as it brings
nothing, its siblings count as 1 − ρ of their expectation; once it does, as all of it. The groups and ρ are told, so the
gain is an upper bound: a server would have to learn both. All policies make the same number of requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.lab.experiment import (
    Check,
    Experiment,
    ExperimentResult,
    LabSettings,
    Progress,
    Row,
    mean_sd,
    measure_intervals,
)
from headwater.lab.figures import create_figure
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.simulation.scores import score_replay
from headwater.lab.sweep import run_grid
from headwater.lab.traces.synthetic_world import join_times
from headwater.lab.traces.trace import Trace
from headwater.schedule.strategies.two_steps import TopUtility, UtilityStrategy
from headwater.schedule.strategy import Observed, Table
from headwater.times import DAY, MINUTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUP = 8
RATE = 1.5  # items of a feed per day
PER_DAY = 6.0  # polls of a feed per day: with one per item or fewer nothing is left for scouting
SPREAD = 20 * MINUTE  # within which an item of the group appears in its feeds
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
SCOUT_WEIGHT = 4.0
POLICIES = ("alone", "scout")


class ScoutUtility(UtilityStrategy):
    """`top_utility`, with siblings held back while the scout of their group is silent."""

    name = "scout_utility"

    def __init__(self, feeds: int = 0, *, share: float = 0.5, rng: np.random.Generator | int | None = None) -> None:
        self._share = share
        self._news: Floats = np.full(feeds // GROUP + 1, -np.inf)  # last time the scout brought something, by group
        super().__init__(feeds, rng=rng)

    def observe(self, table: Table, seen: Observed) -> None:
        super().observe(table, seen)
        scouts = (seen.rows % GROUP == 0) & (seen.new > 0)
        self._news[seen.rows[scouts] // GROUP] = seen.end[scouts]

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        silent = self._news[rows // GROUP] <= table.last[rows]
        factor = np.where(silent, 1 - self._share, 1.0)
        factor[rows % GROUP == 0] = SCOUT_WEIGHT
        return super().score(table, rows, now) * factor


def draw_groups(groups: int, days: float, share: float, rng: np.random.Generator) -> Trace:
    """Draw groups of feeds of which a share of the items is common."""
    times = []
    for _ in range(groups):
        common = rng.uniform(0, days * DAY, rng.poisson(share * RATE * days))
        for _ in range(GROUP):
            own = rng.uniform(0, days * DAY, rng.poisson((1 - share) * RATE * days))
            late = np.minimum(common + rng.uniform(0, SPREAD, len(common)), days * DAY)
            times.append(np.sort(np.concatenate([own, late])))
    return join_times(times)


def run_world(
    policy: str, share: float, seed: int, groups: int, days: float, window: int = 20, per_day: float = PER_DAY
) -> dict[str, float]:
    """Replay one policy on one world."""
    trace = draw_groups(groups, days, share, make_rng(seed, 0))
    rng = make_rng(seed, 1)
    strategy = (
        TopUtility(trace.feeds, rng=rng) if policy == "alone" else ScoutUtility(trace.feeds, share=share, rng=rng)
    )
    protocol = ReplaySettings(window=window, history_days=1.0, warmup_days=3.0, tick=10 * MINUTE)
    run = replay_trace(strategy, trace, protocol, per_day)
    scores = score_replay(run)
    return {
        "requests": float(run.requests),
        "mean_delay_s": scores.mean_delay_s,
        "completeness": scores.completeness.mean,
    }


def run_experiment(given: LabSettings, progress: Progress) -> ExperimentResult:
    """Compare feeds on their own with scouts, over the share of common items."""
    groups, days, seeds = (6, 10.0, given.seeds or 2) if given.quick else (20, 21.0, given.seeds or 10)
    keys = [(policy, share) for share in SHARES for policy in POLICIES]
    window, per_day = given.window or 20, given.single_rate("scouts", PER_DAY)
    shared = {"groups": groups, "days": days, "window": window, "per_day": per_day}
    found = run_grid(run_world, keys, seeds, given, progress, "worlds", **shared)
    rows: list[Row] = [
        {"strategy": policy, "common": share, **{key: mean_sd([run[key] for run in found[policy, share]])
                                               for key in ("requests", "mean_delay_s", "completeness")}}
        for policy, share in keys
    ]  # fmt: skip
    gains = {
        share: [1 - b["mean_delay_s"] / a["mean_delay_s"] for a, b in
                zip(found["alone", share], found["scout", share], strict=True)]
        for share in SHARES
    }  # fmt: skip
    about = {"seeds": seeds, "groups": groups, "feeds_per_group": GROUP, "days": days}
    about |= {"items_per_day": RATE, "per_day": per_day, "window": window}
    data = {"gains": {str(share): mean_sd(some) for share, some in gains.items()}}
    return ExperimentResult("scouts", about, rows, check_gains(gains), data=data)


def check_gains(by_seed: Mapping[float, Sequence[float]]) -> list[Check]:
    """Check that a scout pays where a group has nearly all items in common, and nowhere else.

    `by_seed` has the share of the delay that scouts save in each world, by the share of common items.
    """
    gains = {share: float(np.mean(some)) for share, some in by_seed.items()}
    few = {f"at {share:g}": gain for share, gain in gains.items() if share <= 0.25}
    known = (
        ("a scout shortens the delay by a third or more if all items are common", gains[1.0] > 1 / 3, "> ⅓",
         {"gain": gains[1.0]}, {"gain": by_seed[1.0]}),
        ("a scout shortens the delay if three quarters are common", gains[0.75] > 0.03, "> .03", {"gain": gains[0.75]},
         {"gain": by_seed[0.75]}),
        ("a scout does not pay if a quarter of the items or fewer are common", max(few.values()) < 0.02, "< .02", few,
         {f"at {share:g}": some for share, some in by_seed.items() if share <= 0.25}),
    )  # fmt: skip
    return [
        Check(statement, holds, tolerance, figures, "thesis, future work", intervals=measure_intervals(seeds))
        for statement, holds, tolerance, figures, seeds in known
    ]


def draw_figure(result: ExperimentResult) -> Figure:
    """Draw the gain over the share of common items."""
    figure, (axis,) = create_figure()
    gains = result.data["gains"]
    axis.errorbar(
        [float(share) for share in gains],
        [100 * one["mean"] for one in gains.values()],
        yerr=[100 * one["sd"] for one in gains.values()],
        marker="o",
        capsize=3,
    )
    axis.axhline(0, color="grey", linewidth=0.8)
    axis.set_xlabel("share of items that a group has in common, ρ")
    axis.set_ylabel("mean delay saved by scouts, %")
    axis.set_title("Sample feeds, with groups and ρ known", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    "scouts",
    "thesis, future work",
    "sample feeds: a scout whose silence holds correlated feeds back, over the share of common items",
    run_experiment,
    draw_figure,
    frozenset({"seeds", "window", "per_day"}),
    question="Can one feed of a group tell when the others are worth a refresh?",
)
