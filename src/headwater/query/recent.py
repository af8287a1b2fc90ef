"""The items that came last: which version, and which query feeds have emitted them. Bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Protocol, TypeAlias

from headwater.model import Item
from headwater.query.document import Key

ITEMS = 20_000
EMISSIONS = 4_000_000


class Seen:
    """One item: its last version, the owners that emitted it, and of these the ones that did so without delivering."""

    __slots__ = ("content_hash", "emitted", "silent", "version")

    def __init__(
        self, content_hash: str, version: int, emitted: Sequence[int], silent: frozenset[int] = frozenset()
    ) -> None:
        self.content_hash = content_hash
        self.version = version
        self.emitted = emitted
        self.silent = silent


class Recent:
    def __init__(self, items: int = ITEMS, emissions: int = EMISSIONS) -> None:
        self._items = items
        self._emissions = emissions
        self._seen: OrderedDict[Key, Seen] = OrderedDict()
        self._held = 0

    def __len__(self) -> int:
        return len(self._seen)

    def get(self, key: Key) -> Seen | None:
        return self._seen.get(key)

    def put(self, key: Key, seen: Seen) -> None:
        """Remember the item as the newest; the oldest go."""
        before = self._seen.pop(key, None)
        if before is not None:
            self._held -= len(before.emitted)
        self._seen[key] = seen
        self._held += len(seen.emitted)
        while len(self._seen) > self._items or self._held > self._emissions:
            _, oldest = self._seen.popitem(last=False)
            self._held -= len(oldest.emitted)

    def fill(self, key: Key, item: Item, number: int) -> None:
        """A query feed has taken the item in without delivering it."""
        known = self._seen.get(key)
        if known is None:
            self.put(key, Seen(item.content_hash, item.version, (number,), frozenset({number})))
        else:
            known.emitted = (*known.emitted, number)
            known.silent |= {number}
            self._held += 1

    def items(self) -> list[tuple[Key, Seen]]:
        return list(self._seen.items())


class Definition(Protocol):
    """A query feed: its name, and the numbers of the definitions it took the place of."""

    name: str
    replaced: tuple[int, ...]


class Remembered:
    """What earlier versions of an item have come out of, by our own memory."""

    def __init__(self, seen: Seen) -> None:
        self._emitted = set(seen.emitted)
        self._silent = seen.silent

    def emitted(self, number: int, query: Definition) -> bool:
        return number in self._emitted

    def delivered(self, number: int, query: Definition) -> bool:
        return any(old in self._emitted and old not in self._silent for old in query.replaced)


class Told:
    """The same, as the caller says it."""

    def __init__(self, emitted: Collection[str], delivered: Collection[str]) -> None:
        self._emitted = {name.casefold() for name in emitted}
        self._delivered = {name.casefold() for name in delivered}

    def emitted(self, number: int, query: Definition) -> bool:
        return query.name.casefold() in self._emitted

    def delivered(self, number: int, query: Definition) -> bool:
        return query.name.casefold() in self._delivered


Before: TypeAlias = Remembered | Told | None
