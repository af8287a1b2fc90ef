"""Draws charts as SVG: scales, axes, a feed's refreshes and week, scatter plots, lines and sparklines.

Colours are CSS classes, so that the style sheet can set them for light and dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from html import escape
from typing import Any

from markupsafe import Markup

from headwater.model import Ending, Refresh
from headwater.times import find_utc_offset, format_number, format_plain, format_time, name_zone

HOUR, DAY = 3600.0, 86_400.0
_STEPS = (60.0, 300.0, 600.0, 1800.0, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 28 * DAY)


def time_ticks(
    start: float, end: float, zone: tzinfo = UTC, about: int = 6
) -> tuple[list[float], Callable[[float], str]]:
    """Return times that are round in a time zone between two times, and the function that formats them.

    >>> marks, format_mark = time_ticks(0, 86_400)
    >>> [format_mark(mark) for mark in marks][:3]
    ['00:00', '03:00', '06:00']
    """
    step = next((step for step in _STEPS if (end - start) / step <= about + 2), _STEPS[-1])
    ahead = find_utc_offset(start, zone)
    first = -(-(start + ahead) // step) * step - ahead
    marks = [first + k * step for k in range(int((end - first) // step) + 1)]
    long = end - start > 1.5 * DAY  # midnights are labelled with the date, since hours repeat

    def format_mark(at: float) -> str:
        moment = datetime.fromtimestamp(at, zone)
        midnight = long and (moment.hour, moment.minute) == (0, 0)
        return moment.strftime("%-d %b" if step >= DAY or midnight else "%H:%M")

    # The label of a tick at the very end would be cut off.
    return [mark for mark in marks if mark <= end - 0.03 * (end - start)], format_mark


WIDTH = 480.0  # of a chart: a phone shows it at three quarters of this size, so letters stay readable


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its finding as the title, and the same numbers as a table for readers who cannot see it.

    The note says what a reader could misunderstand.
    """

    title: str
    svg: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def svg_element(name: str, inside: str = "", **attributes: Any) -> str:
    """Return one element; `class_` becomes class, `stroke_width` stroke-width, and None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{inside}</{name}>"


def _attribute_text(value: Any) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(str(value))


def svg_text(x: float, y: float, text: str, *, anchor: str = "start", class_: str = "") -> str:
    return svg_element(
        "text", escape(text), x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=class_ or None
    )


def svg_document(
    height: float, parts: Iterable[str], title: str, *, class_: str = "chart", width: float = WIDTH
) -> Markup:
    label = escape(title)
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}" class="{class_}">'
    return Markup(head + "".join(parts) + "</svg>")


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values `low`…`high` to positions `start`…`end`, linearly or logarithmically (`log`)."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)


def linear_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return about `about` round numbers from `low` to `high`.
    >>> linear_ticks(0.0, 9.3), linear_ticks(0.97, 1.0, 3)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.97, 0.98, 0.99, 1.0])
    """
    if not high > low:
        return [low]
    raw = (high - low) / about
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= raw * 0.75)
    first = math.ceil(low / step - 1e-9)
    return [round(float(k * step), 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten from `low` to `high`, about five at most.

    >>> log_ticks(0.5, 200)
    [1.0, 10.0, 100.0]
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max((last - first) // 5, 1)
    return [10.0**k for k in range(first, last + 1, step)]


def draw_y_axis(
    scale: Scale, marks: Sequence[float], format_mark: Callable[[float], str], left: float, right: float
) -> list[str]:
    """Draw horizontal grid lines with their numbers at the left."""
    parts = []
    for mark in marks:
        y = scale(mark)
        parts.append(svg_element("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(svg_text(left - 6, y + 4, format_mark(mark), anchor="end"))
    return parts


def draw_x_axis(scale: Scale, marks: Sequence[float], format_mark: Callable[[float], str], bottom: float) -> list[str]:
    parts = [svg_element("line", x1=scale.start, x2=scale.end, y1=bottom, y2=bottom, class_="axis")]
    for mark in marks:
        x = scale(mark)
        parts.append(svg_element("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="axis"))
        parts.append(svg_text(x, bottom + 17, format_mark(mark), anchor="middle"))
    return parts


def svg_path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points) if points else ""


STRIP_HEIGHT, STRIP_LEFT, STRIP_TOP, STRIP_BOTTOM = 150.0, 36.0, 22.0, 132.0
STRIP_BASE = 112.0  # bars stand on it; below it is one mark per refresh
_HATCH = (
    '<defs><pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="4" height="4" class="hatch-back"/><line x1="0" y1="0" x2="0" y2="4" class="hatch-line"/>'
    "</pattern></defs>"
)


def draw_refresh_strip(title: str, refreshes: Sequence[Refresh], start: float, end: float, zone: tzinfo = UTC) -> Chart:
    """Draw a bar for each refresh, oldest first: its new items, and above them the lost ones."""
    most = max((one.new + one.lost for one in refreshes), default=0) or 1
    across = Scale(start, max(end, start + 60), STRIP_LEFT, WIDTH - 4)
    up = Scale(0, most, STRIP_BASE, STRIP_TOP)
    marks, format_mark = time_ticks(start, end, zone)
    whole = [mark for mark in linear_ticks(0, most, 3) if mark == int(mark)]
    parts = [_HATCH, svg_text(0, 12, "items per refresh", class_="unit")]
    parts += draw_y_axis(up, whole, lambda value: f"{value:.0f}", STRIP_LEFT, WIDTH - 4)
    parts += draw_x_axis(across, marks, format_mark, STRIP_BOTTOM)
    wide = min(max((WIDTH - STRIP_LEFT) / max(len(refreshes), 1) * 0.6, 1.5), 8.0)
    for one in refreshes:
        parts += _draw_bar(one, across(one.at) - wide / 2, wide, up, zone)
    rows = tuple(
        (
            format_time(one.at, zone),
            one.ending.value,
            str(one.new),
            f"{one.lost:.0f}",
            _text_or_dash(one.window),
            _text_or_dash(one.overlap),
        )
        for one in refreshes
    )
    columns = ("refresh", "outcome", "new", "lost", "window", "overlap")
    return Chart(title, svg_document(STRIP_HEIGHT + 4, parts, title), columns, rows)


def _draw_bar(one: Refresh, x: float, wide: float, up: Scale, zone: tzinfo) -> list[str]:
    tooltip = svg_element(
        "title", escape(f"{format_time(one.at, zone)}: {one.ending.value}, {one.new} new, {one.lost:.0f} lost")
    )
    if not one.ending.ok:
        return [
            svg_element(
                "rect", tooltip, x=x, y=STRIP_TOP, width=wide, height=STRIP_BASE + 12 - STRIP_TOP, class_="failed"
            )
        ]
    parts = []
    if one.new:
        y = up(one.new)
        parts.append(svg_element("rect", tooltip, x=x, y=y, width=wide, height=STRIP_BASE - y, class_="new"))
    if one.lost >= 0.5:
        y, below = up(one.new + one.lost), up(one.new)
        parts.append(svg_element("rect", tooltip, x=x, y=y, width=wide, height=max(below - y, 3.0), class_="lost"))
    kind = "same" if one.ending is Ending.UNCHANGED or not one.new else "new"
    parts.append(svg_element("rect", tooltip, x=x, y=STRIP_BASE + 4, width=wide, height=8.0, class_=kind))
    return parts


def _text_or_dash(value: int | None) -> str:
    return "–" if value is None else str(value)


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHADES = 7
HEAT_LEFT, HEAT_TOP, CELL_WIDTH, ROW_HEIGHT = 34.0, 32.0, (WIDTH - 34.0) / 24, 22.0


def draw_heat_map(
    title: str, believed: Sequence[float], counted: Sequence[int], weeks: float, zone: str = "UTC"
) -> Chart:
    """Draw a week by hours of a time zone: expected items as shades, counted items as numbers.

    `believed` are the expected items of each of the 168 hours, `counted` the items seen in them during `weeks`.
    """
    # The darkest shade is at least twice the mean, so that a feed without a pattern does not look busy all week.
    most = max(max(believed, default=0.0), 2 * sum(believed) / max(len(believed), 1)) or 1.0
    parts = [svg_text(WIDTH, 10, f"hour of the day ({zone})", anchor="end", class_="unit")]
    parts += [
        svg_text(HEAT_LEFT + CELL_WIDTH * (h + 0.5), HEAT_TOP - 4, str(h), anchor="middle") for h in range(0, 24, 3)
    ]
    rows = []
    for day, name in enumerate(DAYS):
        y = HEAT_TOP + ROW_HEIGHT * day
        parts.append(svg_text(0, y + 15, name))
        for hour in range(24):
            rate, seen = believed[24 * day + hour], counted[24 * day + hour]
            shade = 0 if rate <= 0 else min(1 + int(rate / most * SHADES), SHADES)
            tooltip = f"{name} {hour}:00: {rate:.2g} items expected, {seen} seen in {weeks:.0f} weeks"
            cell = svg_element("title", escape(tooltip))
            x = HEAT_LEFT + CELL_WIDTH * hour
            parts.append(
                svg_element(
                    "rect", cell, x=x, y=y, width=CELL_WIDTH - 1, height=ROW_HEIGHT - 1, class_=f"h{shade}", rx=2
                )
            )
            if seen:
                on = "on-dark" if shade > SHADES // 2 else "on-light"
                number = str(seen) if seen < 100 else "99+"
                parts.append(svg_text(x + CELL_WIDTH / 2, y + 15, number, anchor="middle", class_=f"count {on}"))
            rows.append((f"{name} {hour:02}:00", f"{rate:.3g}", str(seen)))
    columns = (f"hour of the week ({zone})", "items expected", f"items seen in {weeks:.0f} weeks")
    return Chart(title, svg_document(HEAT_TOP + ROW_HEIGHT * 7 + 2, parts, title), columns, tuple(rows))


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
