"""Finds the searched prefixes ("volcan*") of an item's words without testing each prefix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

HEAD_LETTERS = 3  # one look-up rules out a word if no prefix starts with its first three letters


class PrefixSet:
    """The prefixes that queries search in one field.

    >>> known = PrefixSet()
    >>> for prefix in ("volc", "volcan", "as"):
    ...     known.add(prefix)
    >>> sorted(known.find_prefixes(["volcano", "ash", "cloud"]))
    ['as', 'volc', 'volcan']
    """

    def __init__(self) -> None:
        self._prefixes: set[str] = set()
        self._lengths: dict[str, Counter[int]] = {}  # head → number of prefixes of each length that start with it

    def __len__(self) -> int:
        return len(self._prefixes)

    def add(self, prefix: str) -> None:
        if prefix not in self._prefixes:
            self._prefixes.add(prefix)
            self._lengths.setdefault(prefix[:HEAD_LETTERS], Counter())[len(prefix)] += 1

    def drop(self, prefix: str) -> None:
        if prefix in self._prefixes:
            self._prefixes.remove(prefix)
            lengths = self._lengths[prefix[:HEAD_LETTERS]]
            lengths[len(prefix)] -= 1
            if not lengths[len(prefix)]:
                del lengths[len(prefix)]
            if not lengths:
                del self._lengths[prefix[:HEAD_LETTERS]]

    def find_prefixes(self, words: Iterable[str]) -> set[str]:
        """Return the prefixes of these words."""
        found: set[str] = set()
        for word in words:
            for size in range(1, HEAD_LETTERS + 1):
                for length in self._lengths.get(word[:size], ()):
                    if word[:length] in self._prefixes:
                        found.add(word[:length])
        return found
