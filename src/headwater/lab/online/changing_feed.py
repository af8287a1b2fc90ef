"""Follows a feed that changes its shape twice with the periodic model (thesis figs 7.6, 7.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.arrays import Floats
from headwater.lab.experiment import Check, ExperimentResult
from headwater.lab.figures import line_style
from headwater.lab.online.shaped_feeds import PER_FEED, draw_counts, make_model
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.estimator_error import CYCLES_PER_DAY, average_day, draw_refreshes, measure_error


def follow_changing_feed(hours: float, seeds: int, phase_weeks: int) -> Floats:
    """Return the distance between the true and the periodic model at the end of every week: weeks × seeds."""
    weeks = 3 * phase_weeks
    parts, plans = [], []
    for seed in range(seeds):
        rng = make_rng(seed, 99)
        order = ("uniform", "peaks", "waves")
        parts.append(np.vstack([draw_counts(shape, 1, phase_weeks * 7, rng) for shape in order]))
        plans.append(draw_refreshes(weeks * 7 * CYCLES_PER_DAY, 1, hours, rng))
    counts = np.hstack(parts)
    everyone = np.zeros(seeds, dtype=np.int64)
    found = measure_error(make_model("periodic", 0.1), counts, np.hstack(plans), everyone, counts.shape[0], weekly=True)
    truth = np.array([average_day(counts, week + 1) for week in range(weeks)])
    return np.asarray(np.sqrt(((found.models - truth) ** 2).sum(2)) / PER_FEED)


def check_following(distance: Mapping[str, Floats], phase: int) -> list[Check]:
    """Check figures 7.6 and 7.7: the distances at the end of each phase, and whether they fall within it."""
    ends = [phase * (k + 1) - 1 for k in range(3)]
    often = {f"1 h, week {end + 1}": float(distance["1 h"][end].mean()) for end in ends}
    rare = {f"24 h, week {end + 1}": float(distance["24 h"][end].mean()) for end in ends}
    last = [np.mean(list(each.values())[1:]) for each in (often, rare)]
    jump = [float(distance["1 h"][phase * k].mean()) for k in (1, 2)]
    settled = [often[f"1 h, week {ends[k] + 1}"] for k in (1, 2)]
    return [
        Check(
            "refreshed every hour the periodic model converges to the true one within each phase",
            all(end < 0.6 * start for start, end in zip(jump, settled, strict=True)),
            "distance at the end of the peaks and waves phases below 60 % of that one week after the change",
            often | {f"one week after change {k + 1}": value for k, value in enumerate(jump)},
            "thesis fig. 7.7",
        ),
        Check(
            "refreshed once a day the periodic model is far worse and does not converge",
            bool(last[1] > 1.5 * last[0]),
            "distance at the ends of peaks and waves more than 1.5 times that with hourly refreshes",
            often | rare,
            "thesis figs 7.6, 7.7",
        ),
    ]


def draw_distance(axis: Any, result: ExperimentResult) -> None:
    for place, (name, values) in enumerate(result.data["distance"].items()):
        axis.plot(
            np.arange(1, len(values) + 1), values.mean(1), label=f"every {name}", **line_style(place, marker=False)
        )
    for change in (1, 2):
        axis.axvline(change * result.data["phase"] + 0.5, color="#777777", linewidth=0.8)
    axis.set_xlabel("week (uniform | peaks | waves)")
    axis.set_ylabel("distance to the true day")
    axis.set_title("Fig. 7.7: a feed that changes its shape twice", fontsize=10)
    axis.legend(fontsize=8)
