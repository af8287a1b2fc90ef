"""Holds the values that windows compare, once for all windows.

Thousands of queries compare an item with the items that they have met before, and mostly the same ones. The values of a
field are held once, under a number; a window keeps the numbers. An item is looked up once for all windows.

Numbers that no window keeps any more stay in the index until a quarter of all are unused: removing them one by one
would cost more than skipping them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Generic, TypeVar

from headwater.language.ast import Field
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.related_item import Related
from headwater.query.items.similarity import WordWeights, equality_keys
from headwater.query.query_document import ItemKey

LEAST_UNUSED = 64  # unused numbers before the index is swept

Values = TypeVar("Values")


class HeldValues(ABC, Generic[Values]):
    """The values of one field, for the windows of all queries that compare it in the same way."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.keys: list[ItemKey] = []  # by number: the item
        self.related: list[Related] = []  # by number: the item as a link to it needs it
        self.values: list[Values | None] = []  # by number
        self._uses = array("I")  # by number: windows that hold it
        self._latest: dict[ItemKey, int] = {}
        self._versions: dict[ItemKey, list[int]] = {}  # of items that are held with several values
        self._unused: list[int] = []
        self._free: list[int] = []
        self._held_last: tuple[AnalysedItem, int] | None = None

    def __len__(self) -> int:
        return len(self.values) - len(self._unused) - len(self._free)

    @abstractmethod
    def read_values(self, analysed: AnalysedItem) -> Values:
        """Return the values of an item that windows will hold."""

    @abstractmethod
    def find(
        self, analysed: AnalysedItem, other: Field, at: float | None, weights: WordWeights, among: Set[int]
    ) -> Set[int]:
        """Return the numbers, of those in a window, whose values match the field `other` of an item.

        All windows ask about the same item, one after the other, so its answers are kept. Meanwhile windows can only
        have added values of the same item, which is never compared with itself.
        """

    @abstractmethod
    def _add_to_index(self, number: int, values: Values) -> None: ...

    @abstractmethod
    def _remove_from_index(self, unused: Sequence[int]) -> None: ...

    def hold_item(self, analysed: AnalysedItem) -> int:
        """Hold the values of an item for a window, and return their number."""
        if self._held_last is not None and self._held_last[0] is analysed:
            number = self._held_last[1]
            if self._uses[number]:
                self._uses[number] += 1
                return number
        number = self.hold_values(analysed.related, self.read_values(analysed))
        self._held_last = analysed, number
        return number

    def hold_values(self, related: Related, values: Values) -> int:
        key = related.key
        known = self._latest.get(key)
        if known is not None and self.values[known] == values and self.related[known] == related:
            self._uses[known] += 1
            return known
        if self._free:
            number = self._free.pop()
            self.keys[number], self.related[number], self.values[number] = key, related, values
            self._uses[number] = 1
        else:
            number = len(self.values)
            self.keys.append(key)
            self.related.append(related)
            self.values.append(values)
            self._uses.append(1)
        if known is not None:
            self._versions.setdefault(key, [known]).append(number)
        self._latest[key] = number
        self._add_to_index(number, values)
        return number

    def list_versions(self, number: int) -> Iterable[int]:
        """Return the numbers of the item's values, if it is held with several."""
        return self._versions.get(self.keys[number], ())

    def release(self, number: int) -> None:
        """Note that a window does not hold the number any more."""
        self._uses[number] -= 1
        if self._uses[number]:
            return
        key = self.keys[number]
        versions = self._versions.get(key)
        if versions is None:
            del self._latest[key]
        else:
            versions.remove(number)
            self._latest[key] = versions[-1]
            if len(versions) == 1:
                del self._versions[key]
        self._unused.append(number)
        if len(self._unused) > max(LEAST_UNUSED, len(self) // 3):
            self._sweep()

    def _sweep(self) -> None:
        """Remove the unused numbers from the index, so that they are free."""
        self._remove_from_index(self._unused)
        for number in self._unused:
            self.values[number] = None
        self._free += self._unused
        self._unused = []


class EqualValues(HeldValues[frozenset[Hashable]]):
    """Values that are compared for equality; `other` is the field of the items that they are compared with."""

    def __init__(self, field: Field, other: Field) -> None:
        super().__init__(field)
        self._other = other
        self._index: dict[Hashable, set[int]] = {}
        self._asked: tuple[AnalysedItem, Set[int]] | None = None

    def read_values(self, analysed: AnalysedItem) -> frozenset[Hashable]:
        return equality_keys(analysed, self.field, self._other)

    def find(
        self, analysed: AnalysedItem, other: Field, at: float | None, weights: WordWeights, among: Set[int]
    ) -> Set[int]:
        if self._asked is None or self._asked[0] is not analysed:
            values = equality_keys(analysed, self._other, self.field)
            self._asked = analysed, set().union(*(self._index.get(value, ()) for value in values))
        return among & self._asked[1]

    def _add_to_index(self, number: int, values: frozenset[Hashable]) -> None:
        for value in values:
            self._index.setdefault(value, set()).add(number)

    def _remove_from_index(self, unused: Sequence[int]) -> None:
        for number in unused:
            for value in self.values[number] or ():
                holders = self._index[value]
                holders.discard(number)
                if not holders:
                    del self._index[value]
        self._asked = None  # it may name numbers that are free now
