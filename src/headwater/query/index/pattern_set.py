"""Finds which of many prefixes and regular expressions a field has, without testing each.

Prefixes ("volcan*") are found by the words of the item, regular expressions with one RE2 automaton per set instead of
one per pattern.

An RE2 set cannot be changed. New patterns are therefore matched individually until there are enough for another set.
Sets stay small and exclude large patterns: if an automaton runs out of memory, RE2 silently finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

import re2

SET_SIZE = 64  # patterns per set
LARGE_PROGRAM = 2_000  # instructions; larger patterns are matched individually
MAX_MEMORY = 64 * 1024 * 1024  # bytes per automaton; many times enough for SET_SIZE × LARGE_PROGRAM instructions


def _make_options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    return options


class PatternSet:
    """The patterns that queries search in one field, each with its flags: `(?i)cve-\\d+`.

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
        """Drop a pattern. In a set it is only marked; a set with most of its patterns dropped is dissolved."""
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
        """Return the patterns that match one of the texts."""
        found: set[str] = set()
        for text in texts:
            try:
                encoded = text.encode()
            except UnicodeEncodeError:  # a lone surrogate is searched as a question mark
                text = text.encode(errors="replace").decode()
                encoded = text.encode()
            for made, members in self._sets:
                found.update([members[number] for number in made.Match(encoded) or ()])
            found.update([pattern for pattern, search in self._single.items() if search(text) is not None])
        return found - self._dropped if self._dropped else found


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
