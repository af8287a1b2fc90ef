"""Points: each feed by what it costs and what it brings, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from headwater.web.charts.svg import (
    WIDTH,
    Chart,
    Scale,
    draw_x_axis,
    draw_y_axis,
    log_ticks,
    svg_document,
    svg_element,
    svg_text,
)

SCATTER_HEIGHT, SCATTER_LEFT, SCATTER_TOP, SCATTER_BOTTOM = 240.0, 52.0, 26.0, 36.0


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """One feed: what it is called, where it leads, cost and value, and whether it is saturated (a square)."""

    name: str
    link: str
    x: float
    y: float
    marked: bool = False


def draw_scatter(title: str, dots: Sequence[ScatterPoint], x_unit: str, y_unit: str) -> Chart:
    """`dots` with positive coordinates; those at or below zero are drawn at the edge."""
    xs, ys = [dot.x for dot in dots if dot.x > 0] or [1.0], [dot.y for dot in dots if dot.y > 0] or [1.0]
    across = Scale(min(xs) / 1.5, max(xs) * 1.5, SCATTER_LEFT, WIDTH - 10, log=True)
    up = Scale(min(ys) / 1.5, max(ys) * 1.5, SCATTER_HEIGHT - SCATTER_BOTTOM, SCATTER_TOP, log=True)
    parts = [svg_text(0, 12, y_unit, class_="unit")]
    parts += draw_y_axis(up, log_ticks(up.low, up.high), _format_plain, SCATTER_LEFT, WIDTH - 10)
    parts += draw_x_axis(across, log_ticks(across.low, across.high), _format_plain, SCATTER_HEIGHT - SCATTER_BOTTOM)
    parts.append(svg_text(WIDTH - 10, SCATTER_HEIGHT - 3, x_unit, anchor="end", class_="unit"))
    for dot in dots:
        x, y = across(dot.x), up(dot.y)
        said = svg_element("title", escape(f"{dot.name}: {dot.x:.3g} {x_unit}, {dot.y:.3g} {y_unit}"))
        if dot.marked:
            mark = svg_element("rect", said, x=x - 4, y=y - 4, width=8, height=8, class_="saturated")
        else:
            mark = svg_element("circle", said, cx=x, cy=y, r=3.5, class_="point")
        parts.append(mark)
    rows = tuple((dot.name, f"{dot.x:.3g}", f"{dot.y:.3g}", "yes" if dot.marked else "") for dot in dots)
    return Chart(title, svg_document(SCATTER_HEIGHT, parts, title), ("feed", x_unit, y_unit, "saturated"), rows)


def _format_plain(value: float) -> str:
    return f"{value:g}"
