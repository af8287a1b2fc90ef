"""Remembers versions and emissions of recent items, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Protocol, TypeAlias

from headwater.model import Item
from headwater.query.query_document import ItemKey

MAX_ITEMS = 20_000
MAX_EMISSIONS = 4_000_000


class RecentItem:
    """The last version of an item, the queries that emitted it, and those of them that did so without delivery."""

    __slots__ = ("content_hash", "emitted", "silent", "version")

    def __init__(
        self, content_hash: str, version: int, emitted: Sequence[int], silent: frozenset[int] = frozenset()
    ) -> None:
        self.content_hash = content_hash
        self.version = version
        self.emitted = emitted
        self.silent = silent


class RecentItems:
    """The most recent items. Drops the oldest when there are too many items or emissions."""

    def __init__(self, items: int = MAX_ITEMS, emissions: int = MAX_EMISSIONS) -> None:
        self._max_items = items
        self._max_emissions = emissions
        self._recent: OrderedDict[ItemKey, RecentItem] = OrderedDict()
        self._emission_count = 0

    def __len__(self) -> int:
        return len(self._recent)

    def get(self, key: ItemKey) -> RecentItem | None:
        return self._recent.get(key)

    def put(self, key: ItemKey, recent: RecentItem) -> None:
        """Store the item as the newest one and drop the oldest beyond the bounds."""
        before = self._recent.pop(key, None)
        if before is not None:
            self._emission_count -= len(before.emitted)
        self._recent[key] = recent
        self._emission_count += len(recent.emitted)
        while len(self._recent) > self._max_items or self._emission_count > self._max_emissions:
            _, oldest = self._recent.popitem(last=False)
            self._emission_count -= len(oldest.emitted)

    def note_backfilled(self, key: ItemKey, item: Item, number: int) -> None:
        """Note that a query feed has emitted the item in a back-fill, without delivery."""
        known = self._recent.get(key)
        if known is None:
            self.put(key, RecentItem(item.content_hash, item.version, (number,), frozenset({number})))
        else:
            known.emitted = (*known.emitted, number)
            known.silent |= {number}
            self._emission_count += 1

    def items(self) -> list[tuple[ItemKey, RecentItem]]:
        return list(self._recent.items())


class QueryDefinition(Protocol):
    """A query feed: its name, and the numbers of the definitions that it replaced."""

    name: str
    replaced: tuple[int, ...]


class EngineMemory:
    """Earlier emissions of an item, from the engine's own memory."""

    def __init__(self, recent: RecentItem) -> None:
        self._emitted = set(recent.emitted)
        self._silent = recent.silent

    def has_emitted(self, number: int, query: QueryDefinition) -> bool:
        return number in self._emitted

    def has_delivered(self, number: int, query: QueryDefinition) -> bool:
        return any(old in self._emitted and old not in self._silent for old in query.replaced)


class CallerMemory:
    """Earlier emissions of an item, as stated by the caller."""

    def __init__(self, emitted: Collection[str], delivered: Collection[str]) -> None:
        self._emitted = {name.casefold() for name in emitted}
        self._delivered = {name.casefold() for name in delivered}

    def has_emitted(self, number: int, query: QueryDefinition) -> bool:
        return query.name.casefold() in self._emitted

    def has_delivered(self, number: int, query: QueryDefinition) -> bool:
        return query.name.casefold() in self._delivered


ItemMemory: TypeAlias = EngineMemory | CallerMemory | None
