"""Stores owners under features as rows of numbers, and finds the owners that an item matches.

The row of a feature is one array of pairs: an owner, and a *requirement*: the number of another feature with flags.

    0                       no requirement: one word, from any source
    feature                 must be present as well: two words, or a word and a source
    feature | ABSENT        must be absent
    feature | PHRASE        must be present, and then a phrase that contains it
    EITHER                  no requirement, but posted under several features, so an item can match more than once
    feature | RULE          must be present; the owner is a rule that is evaluated as a whole
    EXCEPT                  the owner has all items without the features that it is posted under
    … | NAMED               the condition names a source, so it also applies to feeds that ALL does not read

The first pair of a row holds the feature's own number. The concatenated rows of an item's features therefore tell both
which features are present and what their entries require. No string is compared after the look-up, and a million
owners are a few megabytes that are read sequentially.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from sys import intern
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba

ABSENT, PHRASE, EITHER, RULE, NAMED, EXCEPT = 1 << 31, 1 << 30, 1 << 29, 1 << 28, 1 << 27, 1 << 26
FEATURE = EXCEPT - 1  # the bits of the feature's number
LATER = PHRASE | EITHER | RULE | EXCEPT
HEAD = ABSENT  # requires the absence of feature 0, which is always present: never met
UNCOMPILED = 8_000  # below this number of entries, loading numba (a second, 100 MB) does not pay
SOON = 200  # lookups before numba is loaded, so that no start waits for it
FEW = 8 * 64  # bytes; an entry has eight

MatchedOwners: TypeAlias = "tuple[array[int], array[int]]"
"""Owners whose requirements are met, and pairs of owner and requirement that need a further test."""


class Postings:
    """The rows of all features.

    `opened` and `closed` are called when a feature gets its first use and loses its last one. `compile` says whether
    to use compiled code; None means if numba is installed and there are enough entries.
    """

    def __init__(self, opened: Callable[[str], None], closed: Callable[[str], None]) -> None:
        self._on_opened = opened
        self._on_closed = closed
        self.compile: bool | None = None
        self._rows: dict[str, array[int]] = {}
        self._names: list[str] = [""]  # by number
        self._uses = array("I", (0,))  # by number: entries that require the feature
        self._free: list[int] = []
        self._dead_counts: dict[str, int] = {}
        self._present = np.ones(1, np.uint8)  # by number; all but the first are 0 between two lookups
        self._size = 0
        self._ready = self._later = np.empty(0, np.uint32)  # buffers for compiled code
        self._large_lookups = 0  # lookups while there were many entries

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    # rows

    def get_row(self, key: str) -> array[int]:
        found = self._rows.get(key)
        if found is None:
            key = intern(key)
            if self._free:
                number = self._free.pop()
                self._names[number] = key
            else:
                number = len(self._names)
                self._names.append(key)
                self._uses.append(0)
                if number >= len(self._present):
                    self._present = np.zeros(2 * number + 1024, np.uint8)
                    self._present[0] = 1
            found = self._rows[key] = array("I", (number, HEAD))
            self._on_opened(key)
        return found

    def feature_number(self, feature: str) -> int:
        """Return the number of the feature, for use in a requirement."""
        return self.get_row(feature)[0]

    def feature_name(self, requirement: int) -> str:
        """Return the feature of a requirement."""
        return self._names[requirement & FEATURE]

    def add_entry(self, key: str, owner: int, requirement: int = 0) -> None:
        self.get_row(key).extend((owner, requirement))
        self._uses[requirement & FEATURE] += 1
        self._size += 1

    def list_entries(self, key: str) -> Iterator[tuple[int, int]]:
        """Iterate over owners and requirements under the feature, including dead owners."""
        row = self._rows.get(key)
        return iter(()) if row is None else zip(row[2::2], row[3::2], strict=True)

    def count_entries(self, key: str) -> int:
        row = self._rows.get(key)
        return 0 if row is None else len(row) // 2 - 1

    def count_open_questions(self, key: str) -> int:
        """Count the entries under the feature with a requirement; rules count four times."""
        asked = np.frombuffer(self._rows[key].tobytes(), np.uint32)[3::2]
        asked = asked[(asked & (ABSENT | EITHER)) == 0]
        return int(np.count_nonzero(asked & FEATURE)) + 4 * int(np.count_nonzero(asked & RULE))

    def keep_entries(self, key: str, staying: Iterable[tuple[int, int]]) -> None:
        """Replace the entries under the feature by these."""
        row = self._rows[key]
        left = array("I", (row[0], HEAD))
        for entry in staying:
            left.extend(entry)
        self._rows[key] = left
        self._size -= (len(row) - len(left)) // 2
        self._dead_counts.pop(key, None)
        gone = {requirement & FEATURE for requirement in row[3::2]} - {0}
        for requirement in row[3::2]:
            self._uses[requirement & FEATURE] -= 1
        for requirement in left[3::2]:
            self._uses[requirement & FEATURE] += 1
        for number in gone:
            self._drop_unused_feature(number)
        self._drop_unused_feature(row[0])

    def _drop_unused_feature(self, number: int) -> None:
        """Drop a feature that has no owners and is not required."""
        key = self._names[number]
        if key and not self._uses[number] and len(self._rows[key]) == 2:
            del self._rows[key]
            self._names[number] = ""
            self._free.append(number)
            self._on_closed(key)

    # dead entries

    def mark_dead(self, key: str) -> bool:
        """Count a dead owner under the feature, and return whether most of its entries are dead."""
        dead = self._dead_counts[key] = self._dead_counts.get(key, 0) + 1
        return dead * 2 > self.count_entries(key)

    def find_dead(self, features: set[str]) -> Iterable[str]:
        """Return the features with dead owners."""
        return self._dead_counts.keys() & features if self._dead_counts else ()

    # matching

    def find_matches(self, features: Iterable[str], named: bool = False) -> MatchedOwners:
        """Find the owners whose entries match an item with these features.

        `named` restricts the result to rules and to entries that name a source.
        """
        found = b"".join(filter(None, map(self._rows.get, features)))
        only = NAMED | RULE if named else 0
        if len(found) < FEW:
            return _find_matches_few(array("I", found), only)
        rows = np.frombuffer(found, np.uint32)
        if not self._uses_compiled():
            return _find_matches_numpy(rows, self._present, only)
        if len(self._ready) < len(rows):
            self._ready, self._later = np.empty(len(rows), np.uint32), np.empty(2 * len(rows), np.uint32)
        ready, later = compile_with_numba(_find_matches_loop)(rows, self._present, only, self._ready, self._later)
        return array("I", self._ready[:ready].tobytes()), array("I", self._later[:later].tobytes())

    def _uses_compiled(self) -> bool:
        if self.compile is not None or not NUMBA_AVAILABLE:
            return NUMBA_AVAILABLE and self.compile is True
        self._large_lookups += self._size >= UNCOMPILED
        return self._large_lookups > SOON


def _find_matches_few(rows: array[int], only: int) -> MatchedOwners:
    """Return the same as `_find_matches_numpy`; faster for a few entries."""
    each = iter(rows)
    pairs = list(zip(each, each, strict=True))
    there = {0, *[owner for owner, requirement in pairs if requirement == HEAD]}
    ready, later = array("I"), array("I")
    for owner, requirement in pairs:
        if (requirement & FEATURE in there) != requirement >> 31 and (not only or requirement & only):
            if requirement & LATER:
                later.extend((owner, requirement))
            else:
                ready.append(owner)
    return ready, later


def _find_matches_numpy(rows: NDArray[np.uint32], there: NDArray[np.uint8], only: int) -> MatchedOwners:
    owners, asked = rows[::2], rows[1::2]
    heads = owners[asked == HEAD]
    there[heads] = 1
    holds = there[asked & FEATURE] != asked >> 31
    there[heads] = 0
    if only:
        holds &= (asked & only) != 0
    met = rows.reshape(-1, 2)[holds]
    later = (met[:, 1] & LATER) != 0
    return array("I", met[~later, 0].tobytes()), array("I", met[later].tobytes())


def _find_matches_loop(rows: Any, there: Any, only: int, ready: Any, later: Any) -> tuple[int, int]:
    """Return the same as `_find_matches_numpy` in a loop for numba: fills both buffers and returns their lengths."""
    for at in range(0, len(rows), 2):
        if rows[at + 1] == HEAD:
            there[rows[at]] = 1
    first, second = 0, 0
    for at in range(0, len(rows), 2):
        asked = rows[at + 1]
        if there[asked & FEATURE] != asked >> 31 and (only == 0 or asked & only):
            if asked & LATER:
                later[second] = rows[at]
                later[second + 1] = asked
                second += 2
            else:
                ready[first] = rows[at]
                first += 1
    for at in range(0, len(rows), 2):
        if rows[at + 1] == HEAD:
            there[rows[at]] = 0
    return first, second
