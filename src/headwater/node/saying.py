"""What goes wrong again and again is said when it begins and once a minute, not each time."""

from __future__ import annotations

import time
from collections.abc import Callable

REPEAT_SECONDS = 60.0


class RepeatFilter:
    """Remembers what was said last.

    >>> saying = RepeatFilter(clock=iter([0.0, 1.0, 2.0, 63.0]).__next__)
    >>> [saying.worth(what) for what in ("the disk is full", "the disk is full", "no connection", "no connection")]
    [True, False, True, True]
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_message: str | None = None
        self._last_time = 0.0

    def is_news(self, what: str) -> bool:
        """Whether it is news, or was said long ago."""
        now = self._clock()
        if what == self._last_message and now < self._last_time + REPEAT_SECONDS:
            return False
        self._last_message, self._last_time = what, now
        return True

    def reset(self) -> None:
        """All is well again: the next time is news."""
        self._last_message = None
