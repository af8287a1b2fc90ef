"""Builds the parts of an SVG chart: scales, ticks, axes, elements.

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

from headwater.times import find_utc_offset

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
    """A chart with its finding as the title, and the same numbers as a table for readers who cannot see it."""

    title: str
    svg: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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
