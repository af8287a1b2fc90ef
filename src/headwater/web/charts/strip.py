"""Refreshes along time: a bar for new items, red on top for lost ones, grey for "unchanged", hatched for errors."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headwater.model import Ending, Refresh
from headwater.web.charts.svg import (
    WIDTH,
    Chart,
    Scale,
    draw_x_axis,
    draw_y_axis,
    linear_ticks,
    svg_document,
    svg_element,
    svg_text,
)
from headwater.web.charts.times import time_ticks
from headwater.when import format_time

STRIP_HEIGHT, STRIP_LEFT, STRIP_TOP, STRIP_BOTTOM = 150.0, 36.0, 22.0, 132.0
STRIP_BASE = 112.0  # under it a mark for each refresh that brought nothing
_HATCH = (
    '<defs><pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="4" height="4" class="hatch-back"/><line x1="0" y1="0" x2="0" y2="4" class="hatch-line"/>'
    "</pattern></defs>"
)


def draw_refresh_strip(title: str, refreshes: Sequence[Refresh], start: float, end: float) -> Chart:
    """Refreshes, oldest first."""
    most = max((one.new + one.lost for one in refreshes), default=0) or 1
    across = Scale(start, max(end, start + 60), STRIP_LEFT, WIDTH - 4)
    up = Scale(0, most, STRIP_BASE, STRIP_TOP)
    marks, say = time_ticks(start, end)
    whole = [mark for mark in linear_ticks(0, most, 3) if mark == int(mark)]
    parts = [_HATCH, svg_text(0, 12, "items per refresh", class_="unit")]
    parts += draw_y_axis(up, whole, lambda value: f"{value:.0f}", STRIP_LEFT, WIDTH - 4)
    parts += draw_x_axis(across, marks, say, STRIP_BOTTOM)
    wide = min(max((WIDTH - STRIP_LEFT) / max(len(refreshes), 1) * 0.6, 1.5), 8.0)
    for one in refreshes:
        parts += _draw_bar(one, across(one.at) - wide / 2, wide, up)
    rows = tuple(
        (
            format_time(one.at),
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


def _draw_bar(one: Refresh, x: float, wide: float, up: Scale) -> list[str]:
    said = svg_element(
        "title", escape(f"{format_time(one.at)}: {one.ending.value}, {one.new} new, {one.lost:.0f} lost")
    )
    if not one.ending.ok:
        return [
            svg_element("rect", said, x=x, y=STRIP_TOP, width=wide, height=STRIP_BASE + 12 - STRIP_TOP, class_="failed")
        ]
    parts = []
    if one.new:
        y = up(one.new)
        parts.append(svg_element("rect", said, x=x, y=y, width=wide, height=STRIP_BASE - y, class_="new"))
    if one.lost >= 0.5:
        y, below = up(one.new + one.lost), up(one.new)
        parts.append(svg_element("rect", said, x=x, y=y, width=wide, height=max(below - y, 3.0), class_="lost"))
    kind = "same" if one.ending is Ending.UNCHANGED or not one.new else "new"
    parts.append(svg_element("rect", said, x=x, y=STRIP_BASE + 4, width=wide, height=8.0, class_=kind))
    return parts


def _text_or_dash(value: int | None) -> str:
    return "–" if value is None else str(value)
