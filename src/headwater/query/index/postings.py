"""From the features of an item to the owners posted under them, with what is still to be asked, as rows of numbers.

Under a feature stands one array of pairs: an owner, and an *asking*: the number of one more feature, with flags that
say what it means.

    0                       nothing more to ask: one word, from any source
    feature                 it must be there as well: two words, or a word and a source
    feature | ABSENT        it must not be there
    feature | PHRASE        it must be there, and then a phrase of which it is a word
    EITHER                  nothing more, but posted under many features, so that an item can meet it more than once
    feature | RULE          it must be there; the owner is a rule, to be tried as a whole
    … | NAMED               the source is part of it: also for items of feeds that ALL does not read

The first pair of every array is the feature's own number. So the arrays of an item's features, put one after the
other, say both which features there are and who asks for them: no string is looked at once they are found, and a
million owners are a few megabytes that are read in rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from sys import intern
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba

ABSENT, PHRASE, EITHER, RULE, NAMED = 1 << 31, 1 << 30, 1 << 29, 1 << 28, 1 << 27
FEATURE = NAMED - 1  # the bits of the feature's number
LATER = PHRASE | EITHER | RULE
HEAD = ABSENT  # asks that feature 0, which is always there, be absent: never met
UNCOMPILED = 8_000  # entries up to which loading the compiler (a second, 100 MB) costs more than it brings
SOON = 200  # items that are met without it first: nobody who has just started waits for it, nor who has few
FEW = 8 * 64  # bytes; eight are an entry

MatchedOwners: TypeAlias = "tuple[array[int], array[int]]"
"""Owners with nothing more to ask; and the others, each followed by its asking."""


class Postings:
    """`opened` and `closed` hear of features that are asked for from now on, or no longer. `compile` says whether to
    use compiled code; None: where it is installed and there are entries enough."""

    def __init__(self, opened: Callable[[str], None], closed: Callable[[str], None]) -> None:
        self._on_opened = opened
        self._on_closed = closed
        self.compile: bool | None = None
        self._rows: dict[str, array[int]] = {}
        self._names: list[str] = [""]  # by number
        self._uses = array("I", (0,))  # by number: entries that ask for the feature
        self._free: list[int] = []
        self._dead_counts: dict[str, int] = {}
        self._present = np.ones(1, np.uint8)  # by number; all but the first are 0 between two items
        self._size = 0
        self._ready = self._later = np.empty(0, np.uint32)  # where compiled code writes
        self._large_lookups = 0  # items that were met while entries were many

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    # what stands under a feature

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
        """The number by which an entry asks for the feature."""
        return self.get_row(feature)[0]

    def feature_name(self, asking: int) -> str:
        """The feature that is asked for."""
        return self._names[asking & FEATURE]

    def add_entry(self, key: str, owner: int, asking: int = 0) -> None:
        self.get_row(key).extend((owner, asking))
        self._uses[asking & FEATURE] += 1
        self._size += 1

    def list_entries(self, key: str) -> Iterator[tuple[int, int]]:
        """Owners and askings under the feature, those of dead owners too."""
        row = self._rows.get(key)
        return iter(()) if row is None else zip(row[2::2], row[3::2], strict=True)

    def count_entries(self, key: str) -> int:
        row = self._rows.get(key)
        return 0 if row is None else len(row) // 2 - 1

    def count_open_questions(self, key: str) -> int:
        """How many owners under the feature have more to be asked, rules counted four times."""
        asked = np.frombuffer(self._rows[key].tobytes(), np.uint32)[3::2]
        asked = asked[(asked & (ABSENT | EITHER)) == 0]
        return int(np.count_nonzero(asked & FEATURE)) + 4 * int(np.count_nonzero(asked & RULE))

    def keep_entries(self, key: str, staying: Iterable[tuple[int, int]]) -> None:
        """Let only these entries stand under the feature."""
        row = self._rows[key]
        left = array("I", (row[0], HEAD))
        for entry in staying:
            left.extend(entry)
        self._rows[key] = left
        self._size -= (len(row) - len(left)) // 2
        self._dead_counts.pop(key, None)
        gone = {asking & FEATURE for asking in row[3::2]} - {0}
        for asking in row[3::2]:
            self._uses[asking & FEATURE] -= 1
        for asking in left[3::2]:
            self._uses[asking & FEATURE] += 1
        for number in gone:
            self._drop_unused_feature(number)
        self._drop_unused_feature(row[0])

    def _drop_unused_feature(self, number: int) -> None:
        """Let go of a feature that neither has owners nor is asked for."""
        key = self._names[number]
        if key and not self._uses[number] and len(self._rows[key]) == 2:
            del self._rows[key]
            self._names[number] = ""
            self._free.append(number)
            self._on_closed(key)

    # the dead

    def mark_dead(self, key: str) -> bool:
        """An owner under the feature is no more: whether it is time to clean."""
        dead = self._dead_counts[key] = self._dead_counts.get(key, 0) + 1
        return dead * 2 > self.count_entries(key)

    def find_dead(self, features: set[str]) -> Iterable[str]:
        """Those of the features under which there are dead owners."""
        return self._dead_counts.keys() & features if self._dead_counts else ()

    # matching

    def find_matches(self, features: Iterable[str], named: bool = False) -> MatchedOwners:
        """The owners whose entries hold for an item with these features; `named`: only of entries that name a source,
        and rules."""
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
    """As `_met`, without numpy, which is slower to be asked than a few numbers are to be looked at."""
    each = iter(rows)
    pairs = list(zip(each, each, strict=True))
    there = {0, *[owner for owner, asking in pairs if asking == HEAD]}
    ready, later = array("I"), array("I")
    for owner, asking in pairs:
        if (asking & FEATURE in there) != asking >> 31 and (not only or asking & only):
            if asking & LATER:
                later.extend((owner, asking))
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
    """As `_met`, one number after the other, for the compiler: how much of both it has filled."""
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
