"""The items that came last: which version, and which query feeds have emitted them. Bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Protocol, TypeAlias

from headwater.model import Item
from headwater.query.query_document import ItemKey

MAX_ITEMS = 20_000
MAX_EMISSIONS = 4_000_000


class RecentItem:
    """One item: its last version, the owners that emitted it, and of these the ones that did so without delivering."""

    __slots__ = ("content_hash", "emitted", "silent", "version")

    def __init__(
        self, content_hash: str, version: int, emitted: Sequence[int], silent: frozenset[int] = frozenset()
    ) -> None:
        self.content_hash = content_hash
        self.version = version
        self.emitted = emitted
        self.silent = silent


class RecentItems:
    def __init__(self, items: int = MAX_ITEMS, emissions: int = MAX_EMISSIONS) -> None:
        self._max_items = items
        self._max_emissions = emissions
        self._recent: OrderedDict[ItemKey, RecentItem] = OrderedDict()
        self._emission_count = 0

    def __len__(self) -> int:
        return len(self._recent)

    def get(self, key: ItemKey) -> RecentItem | None:
        return self._recent.get(key)

    def put(self, key: ItemKey, seen: RecentItem) -> None:
        """Remember the item as the newest; the oldest go."""
        before = self._recent.pop(key, None)
        if before is not None:
            self._emission_count -= len(before.emitted)
        self._recent[key] = seen
        self._emission_count += len(seen.emitted)
        while len(self._recent) > self._max_items or self._emission_count > self._max_emissions:
            _, oldest = self._recent.popitem(last=False)
            self._emission_count -= len(oldest.emitted)

    def note_backfilled(self, key: ItemKey, item: Item, number: int) -> None:
        """A query feed has taken the item in without delivering it."""
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
    """A query feed: its name, and the numbers of the definitions it took the place of."""

    name: str
    replaced: tuple[int, ...]


class EngineMemory:
    """What earlier versions of an item have come out of, by our own memory."""

    def __init__(self, seen: RecentItem) -> None:
        self._emitted = set(seen.emitted)
        self._silent = seen.silent

    def has_emitted(self, number: int, query: QueryDefinition) -> bool:
        return number in self._emitted

    def has_delivered(self, number: int, query: QueryDefinition) -> bool:
        return any(old in self._emitted and old not in self._silent for old in query.replaced)


class CallerMemory:
    """The same, as the caller says it."""

    def __init__(self, emitted: Collection[str], delivered: Collection[str]) -> None:
        self._emitted = {name.casefold() for name in emitted}
        self._delivered = {name.casefold() for name in delivered}

    def has_emitted(self, number: int, query: QueryDefinition) -> bool:
        return query.name.casefold() in self._emitted

    def has_delivered(self, number: int, query: QueryDefinition) -> bool:
        return query.name.casefold() in self._delivered


ItemMemory: TypeAlias = EngineMemory | CallerMemory | None
