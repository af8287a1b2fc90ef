"""Time along the bottom of a chart: marks at whole hours or days, in UTC as everywhere on the pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

HOUR, DAY = 3600.0, 86_400.0
_STEPS = (60.0, 300.0, 600.0, 1800.0, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 28 * DAY)


def time_ticks(start: float, end: float, about: int = 6) -> tuple[list[float], Callable[[float], str]]:
    """Marks between two moments, and how to write them.

    >>> marks, say = time_ticks(0, 86_400)
    >>> [say(mark) for mark in marks][:3]
    ['00:00', '03:00', '06:00']
    """
    step = next((step for step in _STEPS if (end - start) / step <= about + 2), _STEPS[-1])
    first = -(-start // step) * step
    marks = [first + k * step for k in range(int((end - first) // step) + 1)]
    long = end - start > 1.5 * DAY  # then the hours of several days need to be told apart

    def say(at: float) -> str:
        midnight = long and at % DAY == 0
        return datetime.fromtimestamp(at, UTC).strftime("%-d %b" if step >= DAY or midnight else "%H:%M")

    # A mark at the very end would be written beyond it.
    return [mark for mark in marks if mark <= end - 0.03 * (end - start)], say
