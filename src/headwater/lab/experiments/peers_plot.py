"""How `peers` looks: delay against completeness at each cost, bars of mean and median delay, rules as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.lab.experiments.base import ExperimentResult, Row
from headwater.lab.plots import COLOURS, create_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VALUE_COLOUR, OTHER_COLOUR, FORESIGHT_COLOUR = COLOURS[1], COLOURS[0], "#8C8C8C"
AS_IT_IS = " as it is"
MOST_LABELS = 12  # points that are named beside themselves; with more of them only the fastest are, the bars name all
TICKS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0)
LINE_HEIGHT = 9.0  # height of a line of names, in points
LEAST_MISSING = 5e-4  # share of items not obtained that is drawn as none: a logarithm knows no nought


def draw_figure(result: ExperimentResult) -> Figure:
    """A column for each cost, and one for the rules as they are where they were run."""
    equal = [row for row in result.rows if not row["strategy"].endswith(AS_IT_IS)]
    own = [row for row in result.rows if row["strategy"].endswith(AS_IT_IS)]
    costs = sorted({row["budget"] for row in equal})
    columns = len(costs) + bool(own)
    most = max([sum(row["budget"] == cost for row in equal) for cost in costs] + [len(own)])
    height = max(3.6, 1.1 + 0.15 * most)
    figure, axes = create_figure(2, columns, 6.0, height) if columns > 1 else create_figure(1, 2, 5.4, height)
    scattered = []
    for column, cost in enumerate(costs):
        rows = sorted((row for row in equal if row["budget"] == cost), key=lambda row: row["mean_delay_s"])
        told = f"{cost:g} poll{'' if cost == 1 else 's'} per feed and day"
        _draw_scatter(axes[column], rows)
        scattered.append((axes[column], rows))
        axes[column].set_title(f"{told}, the same for all", fontsize=10)
        _draw_bars(axes[columns + column], rows, [_strategy_label(row) for row in rows])
        axes[columns + column].set_title(f"Mean and median delay at {told}", fontsize=10)
    if own:
        own.sort(key=lambda row: row["mean_delay_s"])
        _draw_own_costs(axes[columns - 1], own, [row for row in equal if row["strategy"] == "value"])
        _draw_bars(axes[-1], own, [f"{_strategy_label(row)} ({row['budget']:.2g} a day)" for row in own])
        axes[-1].set_title("Mean and median delay of rules as they are", fontsize=10)
    about = result.settings
    figure.suptitle(
        f"{about['trace']}: {about['feeds']:,} feeds, {about['items']:,} items in {about['measured_days']:.0f} days, "
        f"documents of {about['window']}",
        fontsize=11,
    )
    figure.draw_without_rendering()
    for axis, rows in scattered:
        _label_points(axis, rows)
    return figure


def _strategy_label(row: Row) -> str:
    name = str(row["strategy"]).removesuffix(AS_IT_IS)
    return f"{name} (knows the rates)" if row.get("foresight") else name


def _strategy_colour(row: Row) -> str:
    if row.get("foresight"):
        return FORESIGHT_COLOUR
    return VALUE_COLOUR if row["strategy"].startswith("value") else OTHER_COLOUR


def _delay_hours(row: Row, key: str = "mean_delay_s") -> float:
    return float(row[key]) / 3600


def _missing_share(row: Row) -> float:
    return max(1.0 - float(row["completeness"]["mean"]), LEAST_MISSING)


def _draw_scatter(axis: Any, rows: list[Row]) -> None:
    """Right is late, low is incomplete: the best are at the top left."""
    for row in rows:
        star = row["strategy"] == "value"
        look = {"marker": "*", "s": 190, "zorder": 4} if star else {"marker": "o", "s": 34, "zorder": 3}
        axis.scatter(
            _delay_hours(row),
            _missing_share(row),
            color=_strategy_colour(row),
            edgecolors="white",
            linewidths=0.6,
            **look,
        )
    axis.set_xscale("log")
    _format_hours(axis, "x")
    axis.set_yscale("log")
    low, high = min(map(_missing_share, rows)), max(map(_missing_share, rows))
    ticks = [tick for tick in TICKS if 0.5 * low <= max(1 - tick, LEAST_MISSING) <= 1.5 * high]
    axis.set_yticks([max(1 - tick, LEAST_MISSING) for tick in ticks], [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    axis.set_ylim(high * 1.7, low / 1.9)
    spread = _delay_hours(rows[-1]) / max(_delay_hours(rows[0]), 1e-9)
    axis.set_xlim(_delay_hours(rows[0]) / spread**0.08, _delay_hours(rows[-1]) * spread**0.3)
    axis.set_xlabel("mean delay (hours)")
    axis.set_ylabel("completeness")


def _label_points(axis: Any, rows: list[Row]) -> None:
    """Names beside their points, moved until none lies on another name or point; the layout must be final."""
    box, scale = axis.get_window_extent(), 72.0 / axis.figure.dpi  # lengths in points, as the offsets are
    low, high = box.y0 * scale + 4, box.y1 * scale - 4
    start, end = box.x0 * scale - 2, box.x1 * scale + 30  # a name may stick out where nothing follows
    at = [tuple(axis.transData.transform((_delay_hours(row), _missing_share(row))) * scale) for row in rows]
    taken = [(x - 5, x + 5, y) for x, y in at]  # left, right, height
    named = range(len(rows)) if len(rows) <= MOST_LABELS else range(MOST_LABELS)
    for row, (x, y) in ((rows[k], at[k]) for k in named):
        width = 4.7 * len(row["strategy"])
        places = [
            (left, y + LINE_HEIGHT * step)
            for step in sorted(range(-9, 10), key=abs)
            for left in (x + 8, x - 8 - width)
            if low < y + LINE_HEIGHT * step < high and start < left and left + width < end
        ]
        free = (
            (left, height)
            for left, height in places
            if not any(a < left + width and left < b and abs(height - h) < LINE_HEIGHT for a, b, h in taken)
        )
        left, height = next(free, (x + 8, y))
        taken.append((left, left + width, height))
        look = {"fontsize": 8, "color": _strategy_colour(row), "va": "center", "annotation_clip": False}
        look["fontweight"] = "bold" if row["strategy"] == "value" else "normal"
        if height != y:  # a thin line says whose name it is
            look["arrowprops"] = {
                "arrowstyle": "-",
                "color": _strategy_colour(row),
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 2,
            }
        where = (_delay_hours(row), _missing_share(row))
        axis.annotate(row["strategy"], where, xytext=(left - x, height - y), textcoords="offset points", **look)


def _draw_bars(axis: Any, rows: list[Row], labels: list[str]) -> None:
    places = range(len(rows))
    for row, place in zip(rows, places, strict=True):
        first = place == 0
        axis.barh(
            place, _delay_hours(row), 0.74, color=_strategy_colour(row), alpha=0.45, label="mean" if first else None
        )
        median = _delay_hours(row, "median_delay_s")
        axis.barh(place, median, 0.34, color=_strategy_colour(row), label="median" if first else None)
        axis.text(_delay_hours(row), place, f" {_delay_hours(row):.3g}", fontsize=7, va="center")
    axis.set_yticks(list(places), labels, fontsize=8)
    for text, row in zip(axis.get_yticklabels(), rows, strict=True):
        if row["strategy"] == "value":
            text.set_fontweight("bold")
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(visible=False, axis="y")
    axis.set_xlim(0, max(map(_delay_hours, rows)) * 1.12)
    axis.set_xlabel("delay (hours): pale the mean, full the median")


def _draw_own_costs(axis: Any, own: list[Row], ours: list[Row]) -> None:
    for row in own:
        axis.scatter(
            row["budget"], _delay_hours(row), color=OTHER_COLOUR, s=24, edgecolors="white", linewidths=0.6, zorder=3
        )
        axis.annotate(
            _strategy_label(row),
            (row["budget"], _delay_hours(row)),
            xytext=(5, 3),
            textcoords="offset points",
            fontsize=6.5,
        )
    ours = sorted(ours, key=lambda row: row["budget"])
    if ours:
        line = {"color": VALUE_COLOUR, "marker": "*", "markersize": 11, "linewidth": 1.4, "label": "value"}
        axis.plot([row["budget"] for row in ours], [_delay_hours(row) for row in ours], **line)
        axis.legend(fontsize=8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    _format_hours(axis, "x")
    _format_hours(axis, "y")
    axis.set_xlabel("polls per feed and day")
    axis.set_ylabel("mean delay (hours)")
    axis.set_title("Rules as they are, each at its own cost", fontsize=10)


def _format_hours(axis: Any, which: str) -> None:
    """1, 2, 5, 10 in place of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    side.set_minor_formatter(NullFormatter())
