"""Figures 13, 8 and 11 of Sia & Cho from a result of `fast-news`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.lab.experiments.base import ExperimentResult
from headwater.lab.plots import create_figure, line_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_figure(result: ExperimentResult) -> Figure:
    learning = {(each.strategy, each.per_day, each.learn) for each in result.data["learning"]}
    figure, axes = create_figure(1, 3 if learning else 1, width=5.2)
    rows = [row for row in result.rows if " on " not in row["strategy"]]
    policies = [row for row in rows if row["learn_days"] == 14.0]
    names = dict.fromkeys(row["strategy"] for row in policies)
    if len(names) > 1:
        names.pop("cgm_freshness", None)  # a hundred times the others
    for place, name in enumerate(names):
        mine = sorted((row["budget"], row["mean_delay_s"] / 60) for row in policies if row["strategy"] == name)
        axes[0].plot(*zip(*mine, strict=True), label=name, **line_style(place))
    axes[0].set_xticks(sorted({row["budget"] for row in policies}))
    axes[0].set_ylim(0, None)
    axes[0].set_xlabel("retrievals per feed and day")
    axes[0].set_ylabel("mean delay (min)")
    axes[0].set_title("Scheduling and allocation help by different means")
    axes[0].legend(fontsize=9)
    if learning:
        for axis, strategy, title, label in (
            (axes[1], "allocation", "Two weeks are enough to learn rates", "days of learning (4 retrievals a day)"),
            (axes[2], "retrieval", "Patterns need hardly more than a week", "days of learning (1 retrieval a day)"),
        ):
            mine = sorted(
                (row["learn_days"], row["mean_delay_s"] / 60)
                for row in rows
                if (row["strategy"], row["budget"], row["learn_days"]) in learning and row["strategy"] == strategy
            )
            axis.plot(*zip(*mine, strict=True), **line_style(2 if strategy == "allocation" else 1))
            axis.set_ylim(0, 1.2 * max(delay for _, delay in mine))
            axis.set_xlabel(label)
            axis.set_ylabel("mean delay (min)")
            axis.set_title(title)
    return figure
