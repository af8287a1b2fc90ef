"""Keeps the items that a JOIN or DISTINCT compares with, bounded by its window.

A window knows its items by the numbers of their compared values, which all windows hold together (`held_values`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headwater.language.ast import Field, LastWindow
from headwater.query.feeds.compared_texts import ComparedFields
from headwater.query.feeds.held_values import HeldValues
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.related_item import Related
from headwater.query.items.similarity import WordWeights
from headwater.query.query_document import ItemKey

MAX_DROPPED = 10_000  # dropped items that are remembered, so that a new version does not bring them back


class WindowEntry(NamedTuple):
    """An item in a window: the arrival of its first version there, and its compared values."""

    at: float
    related: Related
    values: Any


class LookBackWindow:
    """The items within a window, in order of arrival. Their `field` is compared with the field `other` of new items.

    With `at`, they are compared by similarity. `compared` holds their values until `clear`.
    """

    def __init__(
        self, window: LastWindow, field: Field, other: Field, at: float | None, compared: ComparedFields
    ) -> None:
        self.window = window
        self._seconds = window.seconds
        self.other = other
        self.at = at
        self._compared: HeldValues[Any] = (
            compared.find_equal(field, other) if at is None else compared.find_texts(field)
        )
        self._held: dict[int, tuple[float, int]] = {}  # number → arrival of the first version, and its place
        self._order: deque[int] = deque()  # the numbers in order of arrival
        self._next_place = 0
        self._dropped: dict[ItemKey, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add_item(self, analysed: AnalysedItem) -> None:
        """Add the item. A new version replaces the earlier one and keeps its age."""
        self.drop_expired(analysed.arrived)
        self._put(self._compared.hold_item(analysed), analysed.arrived)

    def _put(self, number: int, at: float) -> None:
        """Add a number that has been held for this window."""
        compared, held = self._compared, self._held
        if number in held:
            compared.release(number)
            return
        for earlier in compared.list_versions(number):
            if earlier in held:
                self._order = deque(number if each == earlier else each for each in self._order)
                held[number] = held.pop(earlier)
                compared.release(earlier)
                return
        if compared.keys[number] in self._dropped:
            compared.release(number)
            return
        held[number] = at, self._next_place
        self._next_place += 1
        self._order.append(number)
        if self._seconds is None and len(held) > self.window.count:
            self._drop_oldest()

    def clear(self) -> None:
        """Drop all entries, because the query is gone."""
        while self._order:
            self._drop_oldest()

    def drop_expired(self, now: float) -> None:
        """Drop the entries that have left the window. Assumes that time does not go back."""
        if self._seconds is not None:
            since, held, order = now - self._seconds, self._held, self._order
            while order and held[order[0]][0] < since:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        number = self._order.popleft()
        del self._held[number]
        self._dropped[self._compared.keys[number]] = None
        if len(self._dropped) > MAX_DROPPED:
            del self._dropped[next(iter(self._dropped))]
        self._compared.release(number)

    def find_matches(self, analysed: AnalysedItem, weights: WordWeights) -> Sequence[Related]:
        """Return the items whose field equals, or is similar to, that of the item, in order of arrival."""
        self.drop_expired(analysed.arrived)
        held, compared = self._held, self._compared
        if not held:
            return ()
        numbers = compared.find(analysed, self.other, self.at, weights, held.keys())
        if self._seconds is not None:
            since = analysed.arrived - self._seconds
            numbers = {number for number in numbers if held[number][0] >= since}
        return [compared.related[number] for number in sorted(numbers, key=held.__getitem__)]

    # snapshots

    def list_entries(self) -> list[WindowEntry]:
        compared = self._compared
        return [
            WindowEntry(self._held[number][0], compared.related[number], compared.values[number])
            for number in self._order
        ]

    def list_dropped(self) -> list[ItemKey]:
        return list(self._dropped)

    def restore(self, entries: Iterable[WindowEntry], gone: Iterable[ItemKey]) -> None:
        for at, related, values in entries:
            self._put(self._compared.hold_values(related, values), at)
        self._dropped.update(dict.fromkeys(gone))
