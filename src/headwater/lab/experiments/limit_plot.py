"""How `limit` looks: completeness of every kind of knowledge beside the bounds of what is possible, for each budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.lab.experiments.base import ExperimentResult, Row
from headwater.lab.plots import COLOURS, LINES, create_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUND = "bound, "
VALUE_COLOUR, OTHER_COLOUR = COLOURS[1], COLOURS[0]
BOUND_COLOURS = {"open loop": COLOURS[2], "seen divergence": COLOURS[3], "clairvoyant": COLOURS[6]}


def draw_figure(result: ExperimentResult) -> Figure:
    budgets = sorted({row["budget"] for row in result.rows})
    many = sum(row["budget"] == budgets[0] and not row["strategy"].startswith(BOUND) for row in result.rows)
    figure, axes = create_figure(1, len(budgets), width=5.6, height=1.6 + 0.3 * many)
    for axis, budget in zip(axes, budgets, strict=True):
        _draw_budget(axis, [row for row in result.rows if row["budget"] == budget])
        axis.set_title(f"b = {budget:g} requests per cycle", fontsize=10)
    about = result.settings
    figure.suptitle(
        f"Who knows what, and how near it comes to the bound: {about['feeds']} feeds, W = {about['window']}, "
        f"{about['seeds']} worlds",
        fontsize=11,
    )
    return figure


def _draw_budget(axis: Any, rows: list[Row]) -> None:
    bounds = {row["strategy"].removeprefix(BOUND): row for row in rows if row["strategy"].startswith(BOUND)}
    shown = sorted(
        (row for row in rows if not row["strategy"].startswith(BOUND)), key=lambda row: -row["completeness"]["mean"]
    )
    for place, row in enumerate(shown):
        mean, sd = row["completeness"]["mean"], row["completeness"]["sd"]
        colour = VALUE_COLOUR if row["strategy"].startswith("value") else OTHER_COLOUR
        axis.errorbar(mean, place, xerr=sd, fmt="o", color=colour, ecolor=colour, capsize=3, markersize=6)
        axis.text(
            0.995, place, f"{mean:.3f}", fontsize=8, va="center", ha="right", transform=axis.get_yaxis_transform()
        )
    for line, (name, row) in zip(LINES, bounds.items(), strict=False):
        mean = row["completeness"]["mean"]
        axis.axvline(mean, color=BOUND_COLOURS[name], linestyle=line, linewidth=1.6, label=f"{name} {mean:.3f}")
    axis.set_yticks(range(len(shown)), [row["strategy"] for row in shown], fontsize=8)
    axis.set_ylim(len(shown) - 0.4, -0.6)
    axis.grid(visible=False, axis="y")
    lowest = min(row["completeness"]["mean"] - row["completeness"]["sd"] for row in shown)
    highest = max(row["completeness"]["mean"] + row["completeness"]["sd"] for row in rows)
    axis.set_xlim(lowest - 0.02, highest + 0.15 * (highest - lowest))
    axis.set_xlabel("feed completeness C_F (whisker: sd over the worlds)")
    axis.legend(title="bound", fontsize=7.5, title_fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=3)
