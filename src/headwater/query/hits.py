"""Defines the results of matching an item: hits, related items and failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

from headwater.model import Item
from headwater.query.items.origin import Origin
from headwater.query.items.related_item import Related
from headwater.query.stories.story_items import ItemStory


@dataclass(slots=True)
class Hit:
    """An item that belongs to a query feed.

    `item` is the item as the feed publishes it, `original` as its source provides it; they differ if SET, here or in a
    feed below, has rewritten it. `branches` are the numbers of the matched sources, in the order of `list_sources`.
    `related` are the items found by joins: None without joins, and for an update, which keeps the first ones. An
    `update` changes an item in place that the feed has emitted before. `fresh` says that the hit should be delivered:
    it is not an update, not back-filled, and not delivered before.

    The hit of a story (EACH STORY) is its first item, from the feed `origin`: without its text, which the engine does
    not keep, and not the item that has just arrived. An update of a story has all its `related` items.

    The class is not frozen: an item can have thousands of hits, and freezing would triple their cost.
    """

    query: str
    item: Item
    original: Item
    branches: frozenset[int]
    related: tuple[Related, ...] | None = None
    update: bool = False
    fresh: bool = True
    origin: Origin | None = None

    @property
    def rewritten_fields(self) -> dict[str, Any]:
        """Return the fields that SET has changed, with their new values."""
        if self.item is self.original:
            return {}
        pairs = ((name, getattr(self.item, name)) for name in Item.__struct_fields__)
        return {name: value for name, value in pairs if value != getattr(self.original, name)}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A past item for the back-fill of a query feed.

    `emitted` maps query feeds to the item as they published it: a feed that reads others is filled from these. Without
    `origin`, the origin of the item's feed is used. `story` is the item's story and `previous` its version before
    this one, if they are known.
    """

    item: Item
    arrived: float | None = None
    origin: Origin | None = None
    emitted: Mapping[str, Item] = field(default_factory=dict)
    story: ItemStory | None = None
    previous: Item | None = None


@dataclass(frozen=True, slots=True)
class MatchFailure:
    """A query whose evaluation failed on an item; all other queries have been evaluated."""

    query: str
    error: Exception


class Hits(Sequence[Hit]):
    """The hits of one item. Hits of plain filters, of which there can be thousands, are created on first access.

    `plain` are the numbers of queries with a single source that emit the item unchanged; `named` provides their names.
    `before` are those that have emitted it before, `delivered` those that must not deliver it again. `failures` are
    the queries whose evaluation failed.
    """

    __slots__ = ("_all", "_before", "_delivered", "_item", "_made", "_named", "_plain", "failures")

    def __init__(
        self,
        item: Item,
        named: Sequence[NamedQuery | None],
        plain: Sequence[int] = (),
        made: Sequence[Hit] = (),
        before: frozenset[int] = frozenset(),
        delivered: frozenset[int] = frozenset(),
        failures: Sequence[MatchFailure] = (),
    ) -> None:
        self.failures = failures
        self._item = item
        self._named = named
        self._plain = plain
        self._made = made
        self._before = before
        self._delivered = delivered
        self._all: list[Hit] | None = None

    def _make_hits(self) -> list[Hit]:
        if self._all is None:
            item, before, delivered = self._item, self._before, self._delivered
            found = list(self._made)
            for number in self._plain:
                entry = self._named[number]
                if entry is not None:  # otherwise the query has been dropped since
                    update = number in before
                    fresh = not update and number not in delivered
                    found.append(Hit(entry.name, item, item, ONLY_BRANCH, None, update, fresh))
            self._all = found
        return self._all

    def __len__(self) -> int:
        return len(self._make_hits())

    def __iter__(self) -> Iterator[Hit]:
        return iter(self._make_hits())

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Hit]: ...
    def __getitem__(self, at: int | slice) -> Hit | Sequence[Hit]:
        return self._make_hits()[at]

    def __eq__(self, other: object) -> bool:
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


class NamedQuery(Protocol):
    name: str


ONLY_BRANCH = frozenset({0})
