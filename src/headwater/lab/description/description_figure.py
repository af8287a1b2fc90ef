"""Draws the description of a trace: classes, shapes, rates, habits and subjects above, typical days below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.lab.description import activity
from headwater.lab.description.activity import CLASS_NAMES, DayShape
from headwater.lab.description.description import TraceDescription
from headwater.lab.figures import COLOURS, create_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HATCHES = ("//", "", "..")
PAPER_SCALE, PAPER_SLOPE = 376.0, -0.78  # Sia & Cho, fig. 7: the curve a·x^b


def draw_description(found: TraceDescription, title: str) -> Figure:
    """Draw all parts of a description as one figure."""
    figure, (cover,) = create_figure(width=18, height=10)
    cover.remove()
    figure.suptitle(f"{title}: {found.feeds:,} feeds, {found.items:,} items in {found.days:,.0f} days")
    rows = figure.add_gridspec(3, 1, height_ratios=(1.5, 1, 1))
    top = rows[0].subgridspec(1, 5)
    _draw_activity(figure.add_subplot(top[0]), found)
    draw_shapes(figure.add_subplot(top[1]), found.count_shapes(found.shapes))
    _draw_power_law(figure.add_subplot(top[2]), found)
    _draw_habits(figure.add_subplot(top[3]), found)
    _draw_subjects(figure.add_subplot(top[4]), found)
    if found.clusters is not None:
        sizes = found.clusters.sizes
        for place, centre in enumerate(found.clusters.centres):
            if place % 6 == 0:
                days = rows[1 + place // 6].subgridspec(1, 6)
            axis = figure.add_subplot(days[place % 6])
            _draw_pattern(axis, centre, int(sizes[place]), int(sizes.sum()), first=place % 6 == 0)
    return figure


def _draw_activity(axis: Any, found: TraceDescription) -> None:
    sizes = np.bincount(found.classes, minlength=len(CLASS_NAMES)) / found.feeds * 100
    axis.bar(CLASS_NAMES, sizes, color=COLOURS[0])
    axis.set_xlabel("items per feed and day")
    axis.set_ylabel("feeds (%)")
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(f"{sizes[0]:.0f} % publish less than daily", fontsize=10)


def draw_shapes(axis: Any, by_class: dict[str, dict[str, int]], *, legend: bool = True) -> None:
    """Draw stacked shares of the three shapes in every activity class, as the thesis' figures 6.6 and 6.7."""
    below = np.zeros(len(CLASS_NAMES))
    totals = np.array([max(sum(by_class[name].values()), 1) for name in CLASS_NAMES])
    for shape in DayShape:
        label = shape.name.lower()
        height = np.array([by_class[name][label] for name in CLASS_NAMES]) / totals * 100
        colour = COLOURS[int(shape)]
        axis.bar(CLASS_NAMES, height, bottom=below, label=label, color=colour, hatch=HATCHES[shape], edgecolor="white")
        below += height
    axis.set_xlabel("items per feed and day")
    axis.set_ylabel("feeds of the class (%)")
    axis.set_title("Daily shapes per activity class", fontsize=10)
    axis.set_ylim(0, 114)  # leaves room for a legend, also without one
    axis.set_yticks(range(0, 101, 20))
    if legend:
        axis.legend(fontsize=8, loc="upper center", ncols=3, frameon=False)
    axis.tick_params(axis="x", labelsize=8)


def _draw_power_law(axis: Any, found: TraceDescription) -> None:
    counts = np.round(found.per_day * found.days).astype(int)
    values, often = np.unique(counts[counts > 0], return_counts=True)
    axis.loglog(values, often, ".", color=COLOURS[0], markersize=4)
    axis.set_xlabel("items of a feed")
    axis.set_ylabel("feeds with that many")
    if found.law is None:
        axis.set_title("Too few feeds for a power law", fontsize=10)
        return
    x = np.array([values[0], values[-1]], dtype=float)
    axis.loglog(x, found.law.scale * x**found.law.line, color=COLOURS[1], label=f"line, slope {found.law.line:.2f}")
    axis.loglog(x, PAPER_SCALE * x**PAPER_SLOPE, color=COLOURS[2], linestyle="--", label="Sia & Cho, slope −.78")
    axis.set_ylim(0.7, None)
    axis.set_title(f"Power law x^−{found.law.likelihood:.2f} by likelihood", fontsize=10)
    axis.legend(fontsize=8)


def _draw_habits(axis: Any, found: TraceDescription) -> None:
    sizes = np.bincount(found.habits, minlength=len(activity.HABITS)) / found.feeds * 100
    axis.barh(activity.HABITS, sizes, color=COLOURS[2])
    cited = activity.PUBLISHED_HABITS
    axis.plot([100 * each for each in cited.values()], list(cited), "kx", markersize=8, label="cited by thesis 5.1")
    axis.legend(fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("feeds (%)")
    axis.set_title(f"Most feeds are {activity.HABITS[int(sizes.argmax())]}", fontsize=10)


def _draw_subjects(axis: Any, found: TraceDescription) -> None:
    """Draw the feeds by subject, as the thesis' figure 6.1."""
    axis.barh(list(found.subjects), list(found.subjects.values()), color=COLOURS[1])
    axis.invert_yaxis()
    axis.set_xlabel("feeds")
    axis.set_title("Thesis fig. 6.1: subjects by keywords", fontsize=10)


def _draw_pattern(axis: Any, centre: Any, size: int, total: int, *, first: bool) -> None:
    axis.step(np.arange(25), np.append(centre, centre[-1]) * 100, where="post", color=COLOURS[0], linewidth=1.2)
    axis.set_xticks((0, 6, 12, 18, 24))
    axis.set_xlim(0, 24)
    axis.set_ylim(0, None)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title(f"{size:,} feeds ({size / total:.0%})", fontsize=9)
    axis.set_xlabel("hour (UTC)", fontsize=8)
    axis.tick_params(labelsize=8)
    if first:
        axis.set_ylabel("items per hour (%)", fontsize=8)
