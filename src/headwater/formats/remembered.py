"""What is worked out again and again from the same few texts, remembered: names of elements, days, people, tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Remembered(dict[K, V]):
    """Text → what a function makes of it; looked up in half the time that `functools.lru_cache` takes.

    At most so many are kept, then it begins anew; of texts longer than `longest` none. What the function raises is
    raised.

    >>> lengths = Remembered(len, most=1_000)
    >>> lengths["word"], list(lengths)
    (4, ['word'])
    """

    def __init__(self, work_out: Callable[[K], V], *, most: int, longest: int = 500) -> None:
        super().__init__()
        self._work_out = work_out
        self._most = most
        self._longest = longest

    def __missing__(self, text: K) -> V:
        found = self._work_out(text)
        if not isinstance(text, str) or len(text) <= self._longest:
            if len(self) >= self._most:
                self.forget()
            self[text] = found
        return found

    def forget(self) -> None:
        """Make room."""
        self.clear()
