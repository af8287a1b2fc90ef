"""Remembers a bounded number of computed values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """Maps a text to the result of a function; a look-up takes half the time of `functools.lru_cache`.

    It is emptied when it holds `max_size` results. Results of texts longer than `max_length` are not remembered, and
    neither are exceptions.

    >>> lengths = Memo(len, max_size=1_000)
    >>> lengths["word"], list(lengths)
    (4, ['word'])
    """

    def __init__(self, compute: Callable[[K], V], *, max_size: int, max_length: int = 500) -> None:
        super().__init__()
        self._compute = compute
        self._max_size = max_size
        self._max_length = max_length

    def __missing__(self, text: K) -> V:
        found = self._compute(text)
        if not isinstance(text, str) or len(text) <= self._max_length:
            if len(self) >= self._max_size:
                self.make_room()
            self[text] = found
        return found

    def make_room(self) -> None:
        """Forget results so that another one can be added."""
        self.clear()
