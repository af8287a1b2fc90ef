"""Keeps the items that a JOIN or DISTINCT compares with, bounded by its window.

Equal values are looked up in an index of the window; a window of a few entries, as most queries have, has none. Similar
texts are found for all windows together (`compared_texts`). Entries are numbered in order of arrival. Numbers of
dropped entries stay in the index until a quarter of the window has been dropped: removing them one by one from the
front of every array would cost more than skipping them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from headwater.language.ast import Field, LastWindow
from headwater.query.feeds.compared_texts import Bags, ComparedFields
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.related_item import Related
from headwater.query.items.similarity import WordWeights, equality_keys, list_word_bags
from headwater.query.query_document import ItemKey

FEW_ENTRIES = 8  # up to this many entries are compared one by one; a window with more gets an index
MAX_DROPPED = 10_000  # dropped items that are remembered, so that a new version does not bring them back


@dataclass(slots=True)
class WindowEntry:
    """An item in a window: the arrival of its first version, and its compared values, or the number of its text."""

    at: float
    related: Related
    values: frozenset[Hashable] | Bags
    text: int = -1


class LookBackWindow:
    """The items within a window, in order of arrival. Their `field` is compared with the field `other` of new items.

    With `at`, they are compared by similarity, and `compared` holds their texts until `clear`.
    """

    def __init__(
        self, window: LastWindow, field: Field, other: Field, at: float | None, compared: ComparedFields
    ) -> None:
        self.window = window
        self._seconds = window.seconds
        self.field = field
        self.other = other
        self.at = at
        self._texts = None if at is None else compared[field]
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
        if self.at is None:
            entry = WindowEntry(now, analysed.related, equality_keys(analysed, self.field, self.other))
        else:
            entry = WindowEntry(now, analysed.related, list_word_bags(analysed, self.field))
        self.put_entry(entry)

    def put_entry(self, entry: WindowEntry) -> None:
        key = entry.related.key
        number = self._numbers.get(key)
        if number is not None:
            self._forget_values(number)
            entry.at = self._entries[number].at
        elif key in self._dropped:
            return
        else:
            number = self._next_number
            self._next_number += 1
            self._numbers[key] = number
        self._entries[number] = entry
        if self._texts is not None:
            entry.text = self._texts.hold_text(key, entry.values)  # type: ignore[arg-type]
        elif self._index is not None:
            self._index_values(self._index, number, entry.values)
        elif len(self._entries) > FEW_ENTRIES:
            self._build_index()
        if self._seconds is None and len(self._entries) > self.window.count:
            self._drop_entry(next(iter(self._entries)))

    def _forget_values(self, number: int) -> None:
        """Forget what is known of the earlier version of an entry."""
        entry = self._entries[number]
        if self._texts is not None:
            self._texts.release_text(entry.text)
        elif self._index is not None:
            for value in entry.values:
                self._index[value].remove(number)

    def clear(self) -> None:
        """Drop all entries, because the query is gone."""
        while self._entries:
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
            for value in entry.values:
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
        entry = self._entries.pop(number)
        key = entry.related.key
        del self._numbers[key]
        self._dropped[key] = None
        if len(self._dropped) > MAX_DROPPED:
            del self._dropped[next(iter(self._dropped))]
        if self._texts is not None:
            self._texts.release_text(entry.text)
        elif self._index is not None and number - self._first_indexed > len(self._entries) // 4:
            self._sweep_index(self._index, number + 1)

    def _sweep_index(self, index: _EntryNumbers, oldest: int) -> None:
        kept = ((value, holders) for value, holders in index.items() if holders and holders[-1] >= oldest)
        self._index = _EntryNumbers(kept)
        for holders in self._index.values():
            if holders[0] < oldest:
                del holders[: bisect_left(holders, oldest)]
        self._first_indexed = oldest

    # matching

    def find_matches(self, analysed: AnalysedItem, weights: WordWeights) -> list[WindowEntry]:
        """Return the entries whose field equals, or is similar to, that of the item, in order of arrival."""
        self.drop_expired(analysed.arrived)
        if not self._entries:
            return []
        if self._texts is None or self.at is None:
            numbers = self._find_equal(equality_keys(analysed, self.other, self.field))
        else:
            find_similar, bags = self._texts.find_similar, list_word_bags(analysed, self.other)
            texts = {text for bag in bags for text in find_similar(bag, weights, self.at)}
            numbers = self._find_holders(self._texts.keys, texts)
        if not numbers:
            return []
        found = (self._entries[number] for number in sorted(numbers))
        if self._seconds is None:
            return list(found)
        since = analysed.arrived - self._seconds
        return [entry for entry in found if entry.at >= since]

    def _find_holders(self, keys: Sequence[ItemKey], texts: Collection[int]) -> set[int]:
        """Return the entries that hold one of the texts. An entry may hold another version of the text's item."""
        numbers = ((text, self._numbers.get(keys[text])) for text in texts)
        return {number for text, number in numbers if number is not None and self._entries[number].text == text}

    def _find_equal(self, values: frozenset[Hashable]) -> set[int]:
        if self._index is None:
            return {number for number, entry in self._entries.items() if not values.isdisjoint(entry.values)}
        return {n for value in values for n in self._index.get(value, ()) if n in self._entries}

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
    """Maps a value to the numbers of its entries."""

    def __missing__(self, value: Hashable) -> array[int]:
        found = self[value] = array("I")
        return found
