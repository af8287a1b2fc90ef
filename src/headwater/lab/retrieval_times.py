"""Plans the best retrieval times of a daily pattern and draws them (Sia & Cho, Examples 1 and 2, figures 4 and 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.arrays import Floats
from headwater.errors import SettingsError
from headwater.lab.figures import COLOURS, create_figure
from headwater.schedule.strategies.retrieval_schedule import PostingCurve, plan_retrieval_times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_RETRIEVALS = 96
PATTERNS = ("sine", "flat", "noon", "working-day")


def read_pattern(text: str) -> Floats:
    """Return postings by slot of the day: a named pattern, or numbers separated by commas, one per slot.

    >>> read_pattern("0, 1,3").tolist()
    [0.0, 1.0, 3.0]
    """
    hours = np.arange(240) / 10 + 0.05
    if text in PATTERNS:
        named: dict[str, Floats] = {
            "sine": 2 + 2 * np.sin(2 * np.pi * hours / 24),  # the paper's figure 5, with a day as its period
            "flat": np.ones(24),
            "noon": (np.arange(24) == 12).astype(float),
            "working-day": np.exp(-(((hours - 14) / 4.0) ** 2)),
        }
        return named[text]
    try:
        values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise SettingsError(
            f"--pattern must be {', '.join(PATTERNS)}, or numbers separated by commas, not “{text}”."
        ) from None
    if len(values) < 2 or not np.isfinite(values).all() or values.min() < 0 or values.sum() <= 0:
        raise SettingsError("--pattern needs two numbers or more, none below 0 and one at least above it.")
    return values


def plan_day(pattern: Floats, retrievals: int, method: str) -> dict[str, Any]:
    """Return the best times of the day (hours) and the mean delay of a posting, beside that of even intervals.

    Even intervals begin at any time of the day, so a posting waits half of one on average, whatever the pattern.
    """
    if not 1 <= retrievals <= MAX_RETRIEVALS:
        raise SettingsError(f"--retrievals is {retrievals}; it must be from 1 to {MAX_RETRIEVALS}.")
    if method not in ("refine", "search"):
        raise SettingsError(f"--method must be refine or search, not “{method}”.")
    curve = PostingCurve(pattern, 24.0)
    times = plan_retrieval_times(pattern, retrievals, period=24.0, method=method)
    return {
        "times_h": [float(each) for each in times],
        "mean_delay_h": float(curve.total_delay(times[None, :])[0] / curve.total),
        "even_mean_delay_h": 12.0 / retrievals,
        "pattern": [float(each) for each in pattern],
    }


def draw_day(found: dict[str, Any]) -> Figure:
    """Draw the pattern and its retrieval times."""
    figure, (axis,) = create_figure(width=7.0, height=3.6)
    draw_retrievals(axis, found)
    late = f"{60 * found['mean_delay_h']:.0f} min, {60 * found['even_mean_delay_h']:.0f} min at even intervals"
    axis.set_title(f"{len(found['times_h'])} retrievals a day: mean delay {late}", fontsize=10)
    return figure


def draw_retrievals(axis: Any, found: dict[str, Any]) -> None:
    """Draw a day's posting rate with the retrieval times as lines."""
    edges = np.linspace(0.0, 24.0, len(found["pattern"]) + 1)
    axis.stairs(found["pattern"], edges, color=COLOURS[0], fill=True, alpha=0.35)
    for time in found["times_h"]:
        axis.axvline(time, color=COLOURS[1], linewidth=1.2)
    axis.set_xlim(0, 24)
    axis.set_xticks(range(0, 25, 3))
    axis.set_xlabel("hour of the day")
    axis.set_ylabel("posting rate λ(t)")
