"""All the regular expressions that queries search a field for, tried together: one automaton instead of hundreds.

RE2 makes one automaton of a set of patterns, but the set cannot change. So patterns wait beside it, each on its own,
until there are enough of them for a set of their own. Sets stay small and large patterns out of them: where the
automaton has no room for its states RE2 finds nothing, and does not say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import re2

SET_SIZE = 64  # patterns in a set
LARGE_PROGRAM = 2_000  # instructions of a pattern that is tried on its own
MAX_MEMORY = 64 * 1024 * 1024  # bytes an automaton may take; enough for TOGETHER × LARGE instructions many times over


def _make_options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    return options


class PatternSet:
    """Patterns of one field, each written with its flags: `(?i)cve-\\d+`.

    >>> known = PatternSet()
    >>> known.add("a+b"); known.add("(?i)B")
    >>> sorted(known.find_matching(["xaab"]))
    ['(?i)B', 'a+b']
    """

    def __init__(self) -> None:
        self._single: dict[str, Callable[[str], object]] = {}
        self._large: set[str] = set()
        self._sets: list[tuple[re2.Set, tuple[str, ...]]] = []
        self._dropped: set[str] = set()

    def __len__(self) -> int:
        return len(self._single) + sum(len(members) for _, members in self._sets) - len(self._dropped)

    def add(self, pattern: str) -> None:
        if pattern in self._dropped:
            self._dropped.discard(pattern)
            return
        compiled = re2.compile(pattern, _make_options())
        self._single[pattern] = compiled.search
        if compiled.programsize > LARGE_PROGRAM:
            self._large.add(pattern)
        elif len(self._single) - len(self._large) >= SET_SIZE:
            self._build_set([each for each in self._single if each not in self._large])

    def _build_set(self, patterns: list[str]) -> None:
        made = re2.Set.SearchSet(_make_options())
        for pattern in patterns:
            made.Add(pattern)
            self._single.pop(pattern, None)
        made.Compile()
        self._sets.append((made, tuple(patterns)))

    def drop(self, pattern: str) -> None:
        """A pattern inside a set is only remembered as gone; a set of which most is gone is taken apart."""
        if self._single.pop(pattern, None) is not None:
            self._large.discard(pattern)
            return
        self._dropped.add(pattern)
        for number, (_, members) in enumerate(self._sets):
            if pattern in members:
                left = [each for each in members if each not in self._dropped]
                if len(left) * 2 < len(members):
                    del self._sets[number]
                    self._dropped.difference_update(members)
                    for each in left:
                        self.add(each)
                return

    def find_matching(self, texts: Iterable[str]) -> set[str]:
        """The patterns found in one of the texts."""
        found: set[str] = set()
        for text in texts:
            try:
                encoded = text.encode()
            except UnicodeEncodeError:  # half a character, which UTF-8 cannot hold, is looked at as a question mark
                text = text.encode(errors="replace").decode()
                encoded = text.encode()
            for made, members in self._sets:
                found.update([members[number] for number in made.Match(encoded) or ()])
            found.update([pattern for pattern, search in self._single.items() if search(text) is not None])
        return found - self._dropped if self._dropped else found
