"""Lines: one or two quantities along a third; and sparklines, which are lines without anything around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headwater.web.charts.svg import WIDTH, Chart, Scale, drawing, element, path, ticks, words, x_axis, y_axis
from headwater.web.charts.times import time_ticks

HEIGHT, LEFT, TOP, BOTTOM = 220.0, 52.0, 26.0, 34.0
Say = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Along:
    """The bottom of a chart: its scale, where its marks are, how they are written, and what it measures."""

    scale: Scale
    marks: Sequence[float]
    say: Say
    unit: str


def along_time(start: float, end: float) -> Along:
    marks, say = time_ticks(start, end)
    return Along(Scale(start, max(end, start + 60), LEFT, WIDTH - 12), marks, say, "time (UTC)")


def along(low: float, high: float, say: Say, unit: str, *, marks: Sequence[float], log: bool = False) -> Along:
    return Along(Scale(low, high, LEFT, WIDTH - 12, log), marks, say, unit)


def line(
    title: str,
    bottom: Along,
    points: Sequence[tuple[float, float]],
    unit: str,
    say: Say,
    *,
    low: float | None = None,
    high: float | None = None,
    marked: tuple[float, float, str] | None = None,
    breaks: float | None = None,
    say_x: Say | None = None,
) -> Chart:
    """One quantity. `marked` is a point with its words; where points lie more than `breaks` apart, the line ends."""
    values = [y for _, y in points] + ([marked[1]] if marked else [])
    lowest = min(values) if low is None else low
    highest = max(values) if high is None else high
    if highest <= lowest:
        highest = lowest + (abs(lowest) or 1.0) * 0.1
    up = Scale(lowest, highest, HEIGHT - BOTTOM, TOP)
    marks = ticks(lowest, highest, 4)
    parts = [words(0, 12, unit, class_="unit")]
    parts += y_axis(up, marks, say, LEFT, WIDTH - 12)
    parts += x_axis(bottom.scale, bottom.marks, bottom.say, HEIGHT - BOTTOM)
    parts.append(words(WIDTH - 12, HEIGHT - 3, bottom.unit, anchor="end", class_="unit"))
    for run in _runs(points, breaks):
        places = [(bottom.scale(x), up(y)) for x, y in run]
        if len(places) == 1:
            parts.append(element("circle", cx=places[0][0], cy=places[0][1], r=2.0, class_="dot"))
        parts.append(element("path", d=path(places), class_="line"))
    if marked is not None:
        x, y = bottom.scale(marked[0]), up(marked[1])
        anchor = "end" if x > WIDTH * 0.7 else "start"
        beside = x - 9 if anchor == "end" else x + 9
        parts.append(element("circle", cx=x, cy=y, r=5.0, class_="today"))
        parts.append(words(beside, y + 17 if y < HEIGHT / 2 else y - 9, marked[2], anchor=anchor, class_="said"))
    rows = tuple(((say_x or bottom.say)(x), say(y)) for x, y in points)
    return Chart(title, drawing(HEIGHT, parts, title), (bottom.unit, unit), rows)


def _runs(points: Sequence[tuple[float, float]], breaks: float | None) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = []
    for point in points:
        if not runs or (breaks is not None and point[0] - runs[-1][-1][0] > breaks):
            runs.append([])
        runs[-1].append(point)
    return runs


def spark(values: Sequence[float | None], said: str, span: float = 0.0) -> Markup:
    """A small line for the eye; `said` tells the same in words. Nothing where there is too little to draw.

    Its height stands for `span` at the least, so that next to nothing does not look like a fall.
    """
    known = [(float(k), value) for k, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return Markup("")
    low, high = min(y for _, y in known), max(y for _, y in known)
    across = Scale(0, max(len(values) - 1, 1), 2, 118)
    up = Scale(min(low, high - span), high if high > low or span else low + 1, 24, 3)
    places = [(across(x), up(y)) for x, y in known]
    end = element("circle", cx=places[-1][0], cy=places[-1][1], r=2.0, class_="dot")
    parts = [element("path", d=path(places), class_="line"), end]
    return drawing(27, parts, said, class_="spark", width=120)
