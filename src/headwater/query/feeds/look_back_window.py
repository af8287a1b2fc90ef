"""Keeps the items that a JOIN or DISTINCT compares with, indexed by the compared field and bounded by its window.

Equal values are looked up. Similar texts are found through their rarest words: once the remaining words of a text carry
less of its squared length than the required cosine allows, a text that shares only those cannot be similar enough
(Cauchy–Schwarz). Only the first few words need a look-up, and nothing is missed.

Entries are numbered in order of arrival. The index holds, for each value or word, the ascending numbers of its entries.
A window of a few entries, as most queries have, has no index.
Numbers of dropped entries stay in the index until a quarter of the window has been dropped: removing them one by one
from the front of every array would cost more than skipping them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from headwater.language.ast import Field, LastWindow
from headwater.query.hits import Related
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.similarity import (
    TOLERANCE,
    WeighedBag,
    WordBag,
    WordWeights,
    equality_keys,
    list_word_bags,
)
from headwater.query.query_document import ItemKey

FEW_ENTRIES = 8  # up to this many entries are compared one by one; a window with more gets an index
FEW_HOLDERS = 256  # entries with a word of the text; below, adding them up one by one is faster than arrays
SEEN_SHARE = 0.75  # of the share that a text must have in common; beyond it, candidates are tested one by one
NO_ENTRIES = array("I")  # read-only
MAX_DROPPED = 10_000  # dropped items that are remembered, so that a new version does not bring them back


@dataclass(slots=True)
class WindowEntry:
    """An item in a window: the arrival of its first version, and its compared values."""

    at: float
    related: Related
    values: frozenset[Hashable] | tuple[WordBag, ...]


def make_related(analysed: AnalysedItem) -> Related:
    item = analysed.item
    return Related(analysed.source, item.identity, item.id, item.title, item.link, item.first_seen)


class LookBackWindow:
    """The items within a window, in order of arrival. Their `field` is compared with the field `other` of new items."""

    def __init__(self, window: LastWindow, field: Field, other: Field, at: float | None) -> None:
        self.window = window
        self._seconds = window.seconds
        self.field = field
        self.other = other
        self.at = at
        self._entries: dict[int, WindowEntry] = {}
        self._numbers: dict[ItemKey, int] = {}
        self._index: _EntryNumbers | None = None
        self._dropped: dict[ItemKey, None] = {}
        self._next_number = 0
        self._first_indexed = 0  # lower numbers are not in the index

    def __len__(self) -> int:
        return len(self._entries)

    def add_item(self, now: float, analysed: AnalysedItem) -> None:
        """Add the item. A new version replaces the earlier one and keeps its age."""
        self.drop_expired(now)
        values: frozenset[Hashable] | tuple[WordBag, ...]
        if self.at is None:
            values = equality_keys(analysed, self.field, self.other)
        else:
            values = list_word_bags(analysed, self.field)
        self.put_entry(WindowEntry(now, make_related(analysed), values))

    def put_entry(self, entry: WindowEntry) -> None:
        key = entry.related.key
        number = self._numbers.get(key)
        if number is not None:
            entry.at = self._entries[number].at
            if self._index is not None:
                for value in _list_index_values(self._entries[number]):
                    self._index[value].remove(number)
        elif key in self._dropped:
            return
        else:
            number = self._next_number
            self._next_number += 1
            self._numbers[key] = number
        self._entries[number] = entry
        if self._index is not None:
            self._index_values(self._index, number, _list_index_values(entry))
        elif len(self._entries) > FEW_ENTRIES:
            self._build_index()
        if self._seconds is None and len(self._entries) > self.window.count:
            self._drop_entry(next(iter(self._entries)))

    def drop_expired(self, now: float) -> None:
        """Drop the entries that have left the window. Assumes that time does not go back."""
        if self._seconds is None:
            return
        since = now - self._seconds
        while self._entries:
            oldest = next(iter(self._entries))
            if self._entries[oldest].at >= since:
                return
            self._drop_entry(oldest)

    def _build_index(self) -> None:
        self._index = _EntryNumbers()
        self._first_indexed = next(iter(self._entries))
        for number, entry in self._entries.items():
            for value in _list_index_values(entry):
                self._index[value].append(number)

    def _index_values(self, index: _EntryNumbers, number: int, values: Collection[Hashable]) -> None:
        if number == self._next_number - 1:
            for holders in map(index.__getitem__, values):
                holders.append(number)
        else:  # a new version of an entry
            for value in values:
                insort(index[value], number)

    def _drop_entry(self, number: int) -> None:
        """Drop the oldest entry."""
        key = self._entries.pop(number).related.key
        del self._numbers[key]
        self._dropped[key] = None
        if len(self._dropped) > MAX_DROPPED:
            del self._dropped[next(iter(self._dropped))]
        if self._index is not None and number - self._first_indexed > len(self._entries) // 4:
            self._sweep_index(self._index, number + 1)

    def _sweep_index(self, index: _EntryNumbers, oldest: int) -> None:
        kept = ((value, holders) for value, holders in index.items() if holders and holders[-1] >= oldest)
        self._index = _EntryNumbers(kept)
        for holders in self._index.values():
            if holders[0] < oldest:
                del holders[: bisect_left(holders, oldest)]
        self._first_indexed = oldest

    # matching

    def find_matches(self, analysed: AnalysedItem, weight: WordWeights) -> list[WindowEntry]:
        """Return the entries whose field equals, or is similar to, that of the item, in order of arrival."""
        self.drop_expired(analysed.arrived)
        if self.at is None:
            numbers = self._find_equal(equality_keys(analysed, self.other, self.field))
        else:
            bags = list_word_bags(analysed, self.other)
            numbers = {n for bag in bags for n in self._find_similar(bag, weight, self.at)}
        found = (self._entries[number] for number in sorted(numbers))
        if self._seconds is None:
            return list(found)
        since = analysed.arrived - self._seconds
        return [entry for entry in found if entry.at >= since]

    def _find_equal(self, values: frozenset[Hashable]) -> set[int]:
        if self._index is None:
            return {number for number, entry in self._entries.items() if not values.isdisjoint(entry.values)}
        return {n for value in values for n in self._index.get(value, ()) if n in self._entries}

    def _find_similar(self, bag: WordBag, weight: WordWeights, at: float) -> Iterator[int]:
        weighed = weight.weigh_bag(bag)
        for number in self._find_candidates(weighed, at):
            values: tuple[WordBag, ...] = self._entries[number].values  # type: ignore[assignment]
            if any(weighed.is_similar(other, at) for other in values):
                yield number

    def _find_candidates(self, weighed: WeighedBag, at: float) -> list[int]:
        """Return all entries that can be similar enough, and few others.

        The rarest words are looked up until the remaining ones contribute so little to the squared length of the text
        that a candidate must have several of the words looked up. The remaining words are then tested on the
        candidates. If few entries have any of the words, all words are looked up.
        """
        if at <= TOLERANCE or self._index is None:
            return [number for number, entry in self._entries.items() if entry.values]
        shares, length = weighed.shares, weighed.length
        wanted = weighed.count_needed(at)
        terms = list(weighed.bag)
        get = self._index.get
        holders = [get(term, NO_ENTRIES) for term in terms]
        if sum(map(len, holders)) < FEW_HOLDERS:
            return self._add_shares(holders, weighed.share_list, wanted)
        many = np.fromiter(map(len, holders), np.int64, len(holders))
        order = np.argsort(many)
        covered = shares[order].cumsum()
        place = int(np.searchsorted(covered, length - wanted * SEEN_SHARE)) + 1
        first, rest = order[:place], order[place:]
        found = b"".join([holders[at] for at in first.tolist()])
        # relative to the first indexed number; numbers below the oldest entry are skipped
        numbers = np.frombuffer(found, np.uint32) - np.uint32(self._first_indexed)
        shared = np.bincount(numbers, np.repeat(shares[first], many[first]))
        remaining = shares[rest]
        gone = next(iter(self._entries)) - self._first_indexed
        possible = np.flatnonzero(shared[gone:] >= wanted - float(remaining.sum()) * (1 + TOLERANCE)) + gone
        if not len(possible):
            return []
        others = list(zip([terms[at] for at in rest.tolist()], remaining.tolist(), strict=True))
        return [
            number
            for number, known in zip((possible + self._first_indexed).tolist(), shared[possible].tolist(), strict=True)
            if known + self._sum_shared(number, others) >= wanted
        ]

    def _add_shares(self, holders: list[array[int]], shares: list[float], wanted: float) -> list[int]:
        """Return the entries whose shared words contribute enough."""
        shared: dict[int, float] = {}
        for numbers, share in zip(holders, shares, strict=True):
            for number in numbers:
                shared[number] = shared.get(number, 0.0) + share
        return [number for number, found in shared.items() if found >= wanted and number in self._entries]

    def _sum_shared(self, number: int, shares: list[tuple[str, float]]) -> float:
        """Return the sum of the shares of the words that an entry contains."""
        values: tuple[WordBag, ...] = self._entries[number].values  # type: ignore[assignment]
        if len(values) == 1:
            (words,) = values
            return sum([share for term, share in shares if term in words])
        return sum(share for term, share in shares if any(term in bag for bag in values))

    # snapshots

    def list_entries(self) -> list[WindowEntry]:
        return list(self._entries.values())

    def list_dropped(self) -> list[ItemKey]:
        return list(self._dropped)

    def restore(self, entries: list[WindowEntry], gone: list[ItemKey]) -> None:
        for entry in entries:
            self.put_entry(entry)
        self._dropped.update(dict.fromkeys(gone))


class _EntryNumbers(dict[Hashable, "array[int]"]):
    """Maps a value or word to the numbers of its entries."""

    def __missing__(self, value: Hashable) -> array[int]:
        found = self[value] = array("I")
        return found


def _list_index_values(entry: WindowEntry) -> Collection[Hashable]:
    if isinstance(entry.values, frozenset):
        return entry.values
    if len(entry.values) == 1:
        return entry.values[0].keys()
    return {term for bag in entry.values for term in bag}
