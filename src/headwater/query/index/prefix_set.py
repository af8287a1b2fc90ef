"""Finds the searched prefixes ("volcan*") of an item's words without testing each prefix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

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
        self._sizes: Counter[int] = Counter()  # lengths of the heads

    def __len__(self) -> int:
        return len(self._prefixes)

    def add(self, prefix: str) -> None:
        if prefix not in self._prefixes:
            self._prefixes.add(prefix)
            head = prefix[:HEAD_LETTERS]
            self._lengths.setdefault(head, Counter())[len(prefix)] += 1
            self._sizes[len(head)] += 1

    def drop(self, prefix: str) -> None:
        if prefix in self._prefixes:
            self._prefixes.remove(prefix)
            head = prefix[:HEAD_LETTERS]
            self._sizes -= Counter((len(head),))
            lengths = self._lengths[head]
            lengths[len(prefix)] -= 1
            if not lengths[len(prefix)]:
                del lengths[len(prefix)]
            if not lengths:
                del self._lengths[head]

    def find_prefixes(self, words: Collection[str]) -> set[str]:
        """Return the prefixes of these words."""
        found: set[str] = set()
        known = self._lengths.keys()
        for size in self._sizes:
            for word in [word for word in words if word[:size] in known]:
                found.update([word[:length] for length in self._lengths[word[:size]]])
        return found & self._prefixes
