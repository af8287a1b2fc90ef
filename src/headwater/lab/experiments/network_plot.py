"""Pictures of networks for three α, their degree distributions, and the quality by hops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.lab.experiments.base import ExperimentResult
from headwater.lab.plots import COLOURS, create_figure, line_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN_ALPHAS = (4.0, 20.0, 100.0)
DRAWN_MEASURES = (
    ("completeness", "completeness", 1.0),
    ("freshness", "freshness", 1.0),
    ("mean_delay_s", "mean delay (h)", 3600.0),
)
ALPHA_LABELS = {4.0: "a few hubs", 20.0: "clusters", 100.0: "chains of near neighbours"}


def draw_network(result: ExperimentResult, grow: Callable[..., Any], generator: Callable[..., Any]) -> Figure:
    figure, axes = create_figure(3, 3, width=4.8, height=4.0)
    nodes = result.data["picture_nodes"]
    points = generator(0, 0).random((nodes, 2))
    points[0] = 0.5
    for column, alpha in enumerate(DRAWN_ALPHAS):
        tree = grow(alpha, 0, nodes)
        _draw_tree(axes[column], points, tree, f"α = {alpha:g}: {ALPHA_LABELS[alpha]}")
        _draw_degrees(axes[3 + column], tree.degrees, alpha)
    for column, (key, label, scale) in enumerate(DRAWN_MEASURES):
        axis = axes[6 + column]
        for place, (alpha, table) in enumerate(result.data["by_hops"].items()):
            values = [row[key] / scale for row in table.values()]
            axis.plot(list(table), values, label=f"α = {alpha:g}", **line_style(place))
        axis.set_xlabel("hops from the source")
        axis.set_ylabel(label)
        axis.set_title(f"{label.split(' (')[0].capitalize()} along the cascade", fontsize=10)
        axis.set_xticks(sorted({hops for table in result.data["by_hops"].values() for hops in table}))
    axes[6].legend(fontsize=8)
    figure.suptitle(f"Networks of {nodes:,} nodes: α trades hubs against likeness, and every hop costs time")
    return figure


def _draw_tree(axis: Any, points: Any, tree: Any, title: str) -> None:
    from matplotlib.collections import LineCollection

    child = np.arange(1, len(points))
    lines = np.stack([points[child], points[tree.parents[child]]], axis=1)
    # As picture elements even in an SVG: ten thousand lines would make it megabytes.
    axis.add_collection(LineCollection(list(lines), linewidths=0.3, colors=COLOURS[0], alpha=0.6, rasterized=True))
    axis.plot(*points[0], marker="*", color=COLOURS[1], markersize=11)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_aspect("equal")
    axis.set_xticks(())
    axis.set_yticks(())
    axis.grid(visible=False)
    axis.set_title(title, fontsize=10)


def _draw_degrees(axis: Any, degrees: Any, alpha: float) -> None:
    values, often = np.unique(degrees[degrees > 0], return_counts=True)
    above = often[::-1].cumsum()[::-1] / len(degrees)
    axis.loglog(values, above, ".", color=COLOURS[0], markersize=4)
    axis.set_xlabel("readers of a node (out-degree)")
    axis.set_ylabel("share of nodes with as many or more")
    axis.set_title(f"α = {alpha:g}: largest degree {int(degrees.max()):,}", fontsize=10)
