"""The items a JOIN or a DISTINCT looks back at, indexed by what it compares, bounded by its window.

Equal values are found by look-up. Alike texts are found through their rarest words: if the words of a text beyond the
first few carry less than the asked cosine's share of its length, a text that shares only those cannot be as alike
(Cauchy–Schwarz), so that only the first few need looking up, and nothing is missed.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from math import sqrt

from headwater.language.ast import Field, Window
from headwater.query.compare import bags, keys
from headwater.query.document import Key
from headwater.query.hits import Related
from headwater.query.similar import TOLERANCE, Bag, Weight, alike
from headwater.query.text import Analysed

ROUNDING = 1e-12
FORGOTTEN = 10_000  # items that have left the window, remembered so that a new version does not bring them back


@dataclass(slots=True)
class Entry:
    """An item in a window: when its first version came, and the values that are compared."""

    at: float
    related: Related
    values: frozenset[Hashable] | tuple[Bag, ...]


def related(seen: Analysed) -> Related:
    item = seen.item
    return Related(seen.source, item.identity, item.id, item.title, item.link, item.first_seen)


class Past:
    """The items within a window, in the order in which they came."""

    def __init__(self, window: Window, field: Field, at: float | None) -> None:
        self.window = window
        self.field = field
        self.at = at
        self._entries: dict[int, Entry] = {}
        self._numbers: dict[Key, int] = {}
        self._index: dict[Hashable, list[int]] = {}  # value or word → numbers, oldest first
        self._gone: dict[Key, None] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, now: float, seen: Analysed) -> None:
        """Remember the item; a new version of one we have takes its place, and does not make it younger."""
        self.prune(now)
        values = keys(seen, self.field) if self.at is None else bags(seen, self.field)
        self.put(Entry(now, related(seen), values))

    def put(self, entry: Entry) -> None:
        key = entry.related.key
        number = self._numbers.get(key)
        if number is not None:
            entry.at = self._entries[number].at
            self._unindex(number)
        elif key in self._gone:
            return
        else:
            number = self._next
            self._next += 1
            self._numbers[key] = number
        self._entries[number] = entry
        for value in _indexed(entry):
            holders = self._index.get(value)
            if holders is None:
                self._index[value] = [number]
            else:
                holders.append(number)
        if self.window.seconds is None and len(self._entries) > self.window.count:
            self._forget(next(iter(self._entries)))

    def prune(self, now: float) -> None:
        """Let go what has left the window. Time does not go back."""
        if self.window.seconds is None:
            return
        since = now - self.window.seconds
        while self._entries:
            oldest = next(iter(self._entries))
            if self._entries[oldest].at >= since:
                return
            self._forget(oldest)

    def _forget(self, number: int) -> None:
        self._unindex(number)
        key = self._entries.pop(number).related.key
        del self._numbers[key]
        self._gone[key] = None
        if len(self._gone) > FORGOTTEN:
            del self._gone[next(iter(self._gone))]

    def _unindex(self, number: int) -> None:
        for value in _indexed(self._entries[number]):
            holders = self._index[value]
            holders.remove(number)  # the oldest, which go first, stand first
            if not holders:
                del self._index[value]

    # looking back

    def meeting(self, seen: Analysed, field: Field, weight: Weight) -> list[Entry]:
        """The entries whose field equals, or is alike, this field of the item; in the order in which they came."""
        self.prune(seen.arrived)
        if self.at is None:
            numbers = {n for value in keys(seen, field) for n in self._index.get(value, ())}
        else:
            numbers = {n for bag in bags(seen, field) for n in self._alike(bag, weight, self.at)}
        found = (self._entries[number] for number in sorted(numbers))
        if self.window.seconds is None:
            return list(found)
        since = seen.arrived - self.window.seconds
        return [entry for entry in found if entry.at >= since]

    def _alike(self, bag: Bag, weight: Weight, at: float) -> Iterator[int]:
        entries, squares = self._entries, _Squares(weight)
        length = sum(count * count * squares[term] for term, count in bag.items())
        for number in self._candidates(bag, squares, length, at):
            for other in entries[number].values:
                if _as_alike(bag, length, other, squares, weight, at):  # type: ignore[arg-type]
                    yield number
                    break

    def _candidates(self, bag: Bag, squares: _Squares, length: float, at: float) -> list[int]:
        """Every entry that can be alike, and few others."""
        if at <= TOLERANCE:
            return [number for number, entry in self._entries.items() if entry.values]
        index, nobody = self._index, ()
        shares = [(len(index.get(term, nobody)), count * count * squares[term], term) for term, count in bag.items()]
        shares.sort()
        # the part of the text's squared length that a text must share; a hair less, for rounding
        left, wanted = length, length * (at - TOLERANCE) ** 2 * (1 - TOLERANCE)
        shared: dict[int, float] = {}
        place = 0
        for _, share, term in shares:
            if left < wanted:  # nobody new can share enough with what is left
                break
            place += 1
            left -= share
            for number in index.get(term, nobody):
                shared[number] = shared.get(number, 0.0) + share
        # The others' shares decide among those found. Going through all of them costs most, so it is done seldom.
        again = wanted * 0.85
        for _, share, term in shares[place:]:
            left -= share
            for number in self._holding(term, shared):
                shared[number] += share
            if left < again:
                least, again = wanted - left, left * 0.85
                shared = {number: found for number, found in shared.items() if found >= least}
                if not shared:
                    break
        return [number for number, found in shared.items() if found >= wanted]

    def _holding(self, term: str, numbers: dict[int, float]) -> list[int]:
        """Which of the numbers have the word: asked of the word or of them, whichever are fewer."""
        holders = self._index.get(term, ())
        if len(holders) < 2 * len(numbers):
            return [number for number in holders if number in numbers]
        entries = self._entries
        return [number for number in numbers if any(term in bag for bag in entries[number].values)]  # type: ignore[operator]

    # surviving

    def entries(self) -> list[Entry]:
        return list(self._entries.values())

    def gone(self) -> list[Key]:
        return list(self._gone)

    def restore(self, entries: list[Entry], gone: list[Key]) -> None:
        for entry in entries:
            self.put(entry)
        self._gone.update(dict.fromkeys(gone))


class _Squares(dict[str, float]):
    """Squared weights of words, each worked out once."""

    def __init__(self, weight: Weight) -> None:
        self._weight = weight

    def __missing__(self, term: str) -> float:
        found = self[term] = self._weight(term) ** 2
        return found


def _as_alike(bag: Bag, length: float, other: Bag, squares: _Squares, weight: Weight, at: float) -> bool:
    """As `alike`, with one text's squared length known; where rounding could decide, `alike` does."""
    dot = sum([count * other[term] * squares[term] for term, count in bag.items() if term in other])
    found = dot / sqrt(length * sum([count * count * squares[term] for term, count in other.items()]))
    if abs(found - at + TOLERANCE) < ROUNDING:
        return alike(bag, other, weight, at)
    return found >= at - TOLERANCE


def _indexed(entry: Entry) -> Collection[Hashable]:
    if isinstance(entry.values, frozenset):
        return entry.values
    if len(entry.values) == 1:
        return entry.values[0].keys()
    return {term for bag in entry.values for term in bag}
