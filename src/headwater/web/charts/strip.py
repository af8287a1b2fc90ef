"""Refreshes along time: a bar for new items, red on top for lost ones, grey for "unchanged", hatched for errors."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headwater.model import Ending, Refresh
from headwater.web.charts.svg import WIDTH, Chart, Scale, drawing, element, ticks, words, x_axis, y_axis
from headwater.web.charts.times import time_ticks
from headwater.when import exactly

HEIGHT, LEFT, TOP, BOTTOM = 150.0, 36.0, 22.0, 132.0
BASE = 112.0  # under it a mark for each refresh that brought nothing
_HATCH = (
    '<defs><pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="4" height="4" class="hatch-back"/><line x1="0" y1="0" x2="0" y2="4" class="hatch-line"/>'
    "</pattern></defs>"
)


def strip(title: str, refreshes: Sequence[Refresh], start: float, end: float) -> Chart:
    """Refreshes, oldest first."""
    most = max((one.new + one.lost for one in refreshes), default=0) or 1
    across = Scale(start, max(end, start + 60), LEFT, WIDTH - 4)
    up = Scale(0, most, BASE, TOP)
    marks, say = time_ticks(start, end)
    whole = [mark for mark in ticks(0, most, 3) if mark == int(mark)]
    parts = [_HATCH, words(0, 12, "items per refresh", class_="unit")]
    parts += y_axis(up, whole, lambda value: f"{value:.0f}", LEFT, WIDTH - 4)
    parts += x_axis(across, marks, say, BOTTOM)
    wide = min(max((WIDTH - LEFT) / max(len(refreshes), 1) * 0.6, 1.5), 8.0)
    for one in refreshes:
        parts += _bar(one, across(one.at) - wide / 2, wide, up)
    rows = tuple(
        (
            exactly(one.at),
            one.ending.value,
            str(one.new),
            f"{one.lost:.0f}",
            _or_dash(one.window),
            _or_dash(one.overlap),
        )
        for one in refreshes
    )
    columns = ("refresh", "outcome", "new", "lost", "window", "overlap")
    return Chart(title, drawing(HEIGHT + 4, parts, title), columns, rows)


def _bar(one: Refresh, x: float, wide: float, up: Scale) -> list[str]:
    said = element("title", escape(f"{exactly(one.at)}: {one.ending.value}, {one.new} new, {one.lost:.0f} lost"))
    if not one.ending.ok:
        return [element("rect", said, x=x, y=TOP, width=wide, height=BASE + 12 - TOP, class_="failed")]
    parts = []
    if one.new:
        y = up(one.new)
        parts.append(element("rect", said, x=x, y=y, width=wide, height=BASE - y, class_="new"))
    if one.lost >= 0.5:
        y, below = up(one.new + one.lost), up(one.new)
        parts.append(element("rect", said, x=x, y=y, width=wide, height=max(below - y, 3.0), class_="lost"))
    kind = "same" if one.ending is Ending.UNCHANGED or not one.new else "new"
    parts.append(element("rect", said, x=x, y=BASE + 4, width=wide, height=8.0, class_=kind))
    return parts


def _or_dash(value: int | None) -> str:
    return "–" if value is None else str(value)
