"""Figures 7.7–7.10 of the thesis in one: distances of a changing feed, errors, completeness and freshness by shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.lab.experiments.base import ExperimentResult
from headwater.lab.plots import create_figure, line_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN_SHAPES = ("peaks", "uniform", "waves")


def draw_figure(result: ExperimentResult) -> Figure:
    figure, axes = create_figure(4, 3, width=4.6, height=3.1)
    hours = result.data["hours"]
    for column, shape in enumerate(DRAWN_SHAPES):
        _draw_errors(axes[column], result.data["errors"], shape, hours)
        for row, measure in ((1, 0), (2, 1)):
            _draw_quality(axes[3 * row + column], result.data["quality"], shape, result.data["quality_hours"], measure)
    axes[0].legend(fontsize=8)
    axes[3].legend(fontsize=8)
    for axis in axes[10:]:
        axis.remove()
    _draw_distance(axes[9], result)
    figure.suptitle(
        "A model of the day pays for waves, and for peaks that are refreshed often; two_steps hardly notices"
    )
    return figure


def _draw_errors(axis: Any, errors: Any, shape: str, hours: Any) -> None:
    for place, name in enumerate(("single", "periodic", "hybrid")):
        axis.plot(hours, [errors[shape, name, each].mean() * 100 for each in hours], label=name, **line_style(place))
    axis.set_xscale("log", base=2)
    axis.set_xticks(hours, [f"{each:g}" for each in hours])
    axis.set_xlabel("mean hours between refreshes")
    axis.set_ylabel("divergence error\n(% of a day's items)")
    axis.set_title(f"{shape}: divergence error", fontsize=10)


def _draw_quality(axis: Any, quality: Any, shape: str, hours: Any, measure: int) -> None:
    for place, name in enumerate(("single", "periodic", "hybrid", "known")):
        values = [quality[shape, name, each][measure].mean() for each in hours]
        axis.plot(hours, values, label=name, **line_style(place))
    axis.set_xscale("log", base=2)
    axis.set_xticks(hours, [f"{each:g}" for each in hours])
    axis.set_xlabel("mean hours between refreshes (two_steps)")
    axis.set_ylabel(("completeness C_F", "freshness F_W")[measure])
    axis.set_ylim(0, 1.05)
    axis.set_title(f"{shape}: {('completeness', 'freshness')[measure]}", fontsize=10)


def _draw_distance(axis: Any, result: ExperimentResult) -> None:
    for place, (name, values) in enumerate(result.data["distance"].items()):
        axis.plot(
            np.arange(1, len(values) + 1), values.mean(1), label=f"every {name}", **line_style(place, marker=False)
        )
    for change in (1, 2):
        axis.axvline(change * result.data["phase"] + 0.5, color="#777777", linewidth=0.8)
    axis.set_xlabel("week (uniform | peaks | waves)")
    axis.set_ylabel("distance to the true day")
    axis.set_title("A feed that changes its shape twice", fontsize=10)
    axis.legend(fontsize=8)
