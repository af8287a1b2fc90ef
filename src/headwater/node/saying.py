"""What goes wrong again and again is said when it begins and once a minute, not each time."""

from __future__ import annotations

import time
from collections.abc import Callable

AGAIN = 60.0


class Saying:
    """Remembers what was said last.

    >>> saying = Saying(clock=iter([0.0, 1.0, 2.0, 63.0]).__next__)
    >>> [saying.worth(what) for what in ("the disk is full", "the disk is full", "no connection", "no connection")]
    [True, False, True, True]
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: str | None = None
        self._at = 0.0

    def worth(self, what: str) -> bool:
        """Whether it is news, or was said long ago."""
        now = self._clock()
        if what == self._said and now < self._at + AGAIN:
            return False
        self._said, self._at = what, now
        return True

    def over(self) -> None:
        """All is well again: the next time is news."""
        self._said = None
