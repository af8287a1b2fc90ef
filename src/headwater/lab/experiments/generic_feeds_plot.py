"""Urbansky et al.'s figures 2–4: traffic, delay against polls per item, and polled against real intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.lab.experiments.base import ExperimentResult
from headwater.lab.plots import COLOURS, MARKERS, create_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNING_STRATEGIES = ("fix_learned", "post_rate", "moving_average")


def draw_figure(result: ExperimentResult) -> Figure:
    learning = [name for name in LEARNING_STRATEGIES if name in result.data["intervals"]]
    figure, axes = create_figure(1, 2 + len(learning), width=4.3)
    rows = [row for row in result.rows if " on " not in row["strategy"]]
    polls = [row for row in rows if row["mode"] == "polls"]
    bars = axes[0].bar(
        [row["strategy"] for row in polls], [row["bytes_whole"] / 1e9 for row in polls], color=COLOURS[0]
    )
    axes[0].bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
    axes[0].tick_params(axis="x", rotation=30, labelsize=8)
    axes[0].set_ylabel("transferred in three weeks (GB)")
    axes[0].set_title("Traffic if every poll brings the whole document", fontsize=10)
    for place, row in enumerate(rows):
        name = row["strategy"]
        colour = COLOURS[[each["strategy"] for each in polls].index(name) % len(COLOURS)]
        marker = MARKERS[0] if row["mode"] == "polls" else MARKERS[1]
        axes[1].plot(row["polls_per_item"], row["mean_delay_s"] / 60, marker, color=colour, markersize=7)
        at = (row["polls_per_item"], row["mean_delay_s"] / 60)
        axes[1].annotate(name, at, fontsize=7, xytext=(5, 4 + 3 * (place % 2)), textcoords="offset points")
    axes[1].set_xscale("log")
    axes[1].set_yscale("log")
    axes[1].set_xlabel("polls per find")
    axes[1].set_ylabel("mean delay (min)")
    axes[1].set_title("Delay against polls (● per poll, ■ per feed)", fontsize=10)
    for axis, name in zip(axes[2:], learning, strict=True):
        _draw_intervals(axis, name, result.data["intervals"][name])
    return figure


def _draw_intervals(axis: Any, name: str, intervals: Any) -> None:
    shown = (intervals["real"] < 40 * 86400) & (intervals["polled"] < 40 * 86400)
    real, polled = intervals["real"][shown] / 3600, intervals["polled"][shown] / 3600
    axis.hexbin(
        real, polled, gridsize=30, xscale="log", yscale="log", mincnt=1, cmap="viridis", bins="log", linewidths=0
    )
    ends = np.array([min(real.min(), polled.min()), max(real.max(), polled.max())])
    axis.plot(ends, ends, color=COLOURS[1], linewidth=1.0, label="polled as often as published")
    axis.set_xlabel("real interval between items (h)")
    axis.set_ylabel("interval between polls (h)")
    axis.set_title(name, fontsize=10)
    axis.legend(fontsize=7, loc="upper left")
