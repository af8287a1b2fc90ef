"""Draws the charts of quality: scatter plots of feeds, lines and sparklines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from html import escape

from markupsafe import Markup

from headwater.times import format_number, format_plain, name_zone
from headwater.web.charts.svg import (
    WIDTH,
    Chart,
    Scale,
    draw_x_axis,
    draw_y_axis,
    linear_ticks,
    log_ticks,
    svg_document,
    svg_element,
    svg_path,
    svg_text,
    time_ticks,
)

SCATTER_HEIGHT, SCATTER_LEFT, SCATTER_TOP, SCATTER_BOTTOM = 240.0, 52.0, 26.0, 36.0


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """One feed in a scatter plot: its name and link, cost and value; a saturated feed is `marked` with a square."""

    name: str
    link: str
    x: float
    y: float
    marked: bool = False


def draw_scatter(title: str, dots: Sequence[ScatterPoint], x_unit: str, y_unit: str) -> Chart:
    """Draw feeds on logarithmic axes; points at or below zero are drawn at the edge."""
    xs, ys = [dot.x for dot in dots if dot.x > 0] or [1.0], [dot.y for dot in dots if dot.y > 0] or [1.0]
    across = Scale(min(xs) / 1.5, max(xs) * 1.5, SCATTER_LEFT, WIDTH - 10, log=True)
    up = Scale(min(ys) / 1.5, max(ys) * 1.5, SCATTER_HEIGHT - SCATTER_BOTTOM, SCATTER_TOP, log=True)
    parts = [svg_text(0, 12, y_unit, class_="unit")]
    parts += draw_y_axis(up, log_ticks(up.low, up.high), format_plain, SCATTER_LEFT, WIDTH - 10)
    parts += draw_x_axis(across, log_ticks(across.low, across.high), format_plain, SCATTER_HEIGHT - SCATTER_BOTTOM)
    parts.append(svg_text(WIDTH - 10, SCATTER_HEIGHT - 3, x_unit, anchor="end", class_="unit"))
    for dot in dots:
        x, y = across(dot.x), up(dot.y)
        tooltip = svg_element(
            "title", escape(f"{dot.name}: {format_number(dot.x)} {x_unit}, {format_number(dot.y)} {y_unit}")
        )
        if dot.marked:
            mark = svg_element("rect", tooltip, x=x - 4, y=y - 4, width=8, height=8, class_="saturated")
        else:
            mark = svg_element("circle", tooltip, cx=x, cy=y, r=3.5, class_="point")
        parts.append(mark)
    rows = tuple((dot.name, format_number(dot.x), format_number(dot.y), "yes" if dot.marked else "") for dot in dots)
    return Chart(title, svg_document(SCATTER_HEIGHT, parts, title), ("feed", x_unit, y_unit, "saturated"), rows)


LINE_HEIGHT, LINE_LEFT, LINE_TOP, LINE_BOTTOM = 220.0, 52.0, 26.0, 34.0
FormatNumber = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class XAxis:
    """The horizontal axis of a chart: its scale, its ticks (`marks`), their format (`format_mark`) and its unit."""

    scale: Scale
    marks: Sequence[float]
    format_mark: FormatNumber
    unit: str


def time_axis(start: float, end: float, zone: tzinfo) -> XAxis:
    """Return an axis from `start` to `end` in a time zone, at least a minute long."""
    marks, format_mark = time_ticks(start, end, zone)
    unit = f"time ({name_zone(end, zone)})"
    return XAxis(Scale(start, max(end, start + 60), LINE_LEFT, WIDTH - 12), marks, format_mark, unit)


def x_axis_scale(
    low: float, high: float, format_mark: FormatNumber, unit: str, *, marks: Sequence[float], log: bool = False
) -> XAxis:
    return XAxis(Scale(low, high, LINE_LEFT, WIDTH - 12, log), marks, format_mark, unit)


def draw_line(
    title: str,
    bottom: XAxis,
    points: Sequence[tuple[float, float]],
    unit: str,
    format_y: FormatNumber,
    *,
    low: float | None = None,
    high: float | None = None,
    marked: tuple[float, float, str] | None = None,
    breaks: float | None = None,
    format_x: FormatNumber | None = None,
) -> Chart:
    """Draw one quantity as a line. `marked` is a highlighted point with its label.

    The line is interrupted where neighbouring points are more than `breaks` apart.
    """
    values = [y for _, y in points] + ([marked[1]] if marked else [])
    lowest = min(values) if low is None else low
    highest = max(values) if high is None else high
    if highest <= lowest:
        highest = lowest + (abs(lowest) or 1.0) * 0.1
    up = Scale(lowest, highest, LINE_HEIGHT - LINE_BOTTOM, LINE_TOP)
    marks = linear_ticks(lowest, highest, 4)
    parts = [svg_text(0, 12, unit, class_="unit")]
    parts += draw_y_axis(up, marks, format_y, LINE_LEFT, WIDTH - 12)
    parts += draw_x_axis(bottom.scale, bottom.marks, bottom.format_mark, LINE_HEIGHT - LINE_BOTTOM)
    parts.append(svg_text(WIDTH - 12, LINE_HEIGHT - 3, bottom.unit, anchor="end", class_="unit"))
    for run in _split_at_gaps(points, breaks):
        places = [(bottom.scale(x), up(y)) for x, y in run]
        if len(places) == 1:
            parts.append(svg_element("circle", cx=places[0][0], cy=places[0][1], r=2.0, class_="dot"))
        parts.append(svg_element("path", d=svg_path(places), class_="line"))
    if marked is not None:
        x, y = bottom.scale(marked[0]), up(marked[1])
        anchor = "end" if x > WIDTH * 0.7 else "start"
        beside = x - 9 if anchor == "end" else x + 9
        parts.append(svg_element("circle", cx=x, cy=y, r=5.0, class_="today"))
        parts.append(
            svg_text(beside, y + 17 if y < LINE_HEIGHT / 2 else y - 9, marked[2], anchor=anchor, class_="said")
        )
    rows = tuple(((format_x or bottom.format_mark)(x), format_y(float(f"{y:.4g}"))) for x, y in points)
    return Chart(title, svg_document(LINE_HEIGHT, parts, title), (bottom.unit, unit), rows)


def _split_at_gaps(points: Sequence[tuple[float, float]], breaks: float | None) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = []
    for point in points:
        if not runs or (breaks is not None and point[0] - runs[-1][-1][0] > breaks):
            runs.append([])
        runs[-1].append(point)
    return runs


def draw_sparkline(values: Sequence[float | None], alt: str, span: float = 0.0) -> Markup:
    """Draw a small line without axes; `alt` is its text alternative. Return "" for fewer than two values.

    The height covers at least `span`, so that a tiny change does not look like a fall.
    """
    known = [(float(k), value) for k, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return Markup("")
    low, high = min(y for _, y in known), max(y for _, y in known)
    across = Scale(0, max(len(values) - 1, 1), 2, 118)
    up = Scale(min(low, high - span), high if high > low or span else low + 1, 24, 3)
    places = [(across(x), up(y)) for x, y in known]
    end = svg_element("circle", cx=places[-1][0], cy=places[-1][1], r=2.0, class_="dot")
    parts = [svg_element("path", d=svg_path(places), class_="line"), end]
    return svg_document(27, parts, alt, class_="spark", width=120)
