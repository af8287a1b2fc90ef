"""Draws the charts of one feed: a strip of its refreshes, and a heat map of its week."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from html import escape

from headwater.model import Ending, Refresh
from headwater.times import format_time
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
    time_ticks,
)

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
