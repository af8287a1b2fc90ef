"""What is worked out again and again from the same few texts, remembered: names of elements, days, people, tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """Text → what a function makes of it; looked up in half the time that `functools.lru_cache` takes.

    At most so many are kept, then it begins anew; of texts longer than `longest` none. What the function raises is
    raised.

    >>> lengths = Memo(len, most=1_000)
    >>> lengths["word"], list(lengths)
    (4, ['word'])
    """

    def __init__(self, work_out: Callable[[K], V], *, most: int, longest: int = 500) -> None:
        super().__init__()
        self._compute = work_out
        self._max_size = most
        self._max_length = longest

    def __missing__(self, text: K) -> V:
        found = self._compute(text)
        if not isinstance(text, str) or len(text) <= self._max_length:
            if len(self) >= self._max_size:
                self.make_room()
            self[text] = found
        return found

    def make_room(self) -> None:
        """Make room."""
        self.clear()
