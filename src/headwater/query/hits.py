"""What the engine says of an item: which query feeds it comes out of, how, and beside what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from headwater.model import Item
from headwater.query.text import Origin


@dataclass(frozen=True, slots=True)
class Related:
    """An item that a join has found beside another, as far as an annotation needs it."""

    source: str
    identity: str
    id: int | None
    title: str | None
    link: str | None
    first_seen: float

    @property
    def key(self) -> tuple[str, str]:
        return self.source, self.identity


@dataclass(frozen=True, slots=True)
class Hit:
    """An item comes out of a query feed.

    `item` is the item as the feed publishes it, `original` as its source gave it; they differ where SET, here or in a
    feed below, wrote it anew. `branches` are the numbers of the sources, in the order of `language.normal.leaves`,
    through which this version came. `related` is what joins found: None without joins, and for an update, which keeps
    what was found first. An `update` changes an item in place that the feed has emitted before. `fresh` says that the
    hit is to be delivered: neither an update, nor filled in from history, nor delivered before.
    """

    query: str
    item: Item
    original: Item
    branches: frozenset[int]
    related: tuple[Related, ...] | None = None
    update: bool = False
    fresh: bool = True

    @property
    def rewritten(self) -> dict[str, Any]:
        """The fields that SET changed, with their new values."""
        if self.item is self.original:
            return {}
        pairs = ((each.name, getattr(self.item, each.name)) for each in fields(Item))
        return {name: value for name, value in pairs if value != getattr(self.original, name)}


@dataclass(frozen=True, slots=True)
class Arrival:
    """An item of the past, to fill a new query feed with.

    `emitted` holds, for the query feeds that emitted it, the item as they did: a feed that reads others is filled
    from what they have published. Without `origin` the one told for the item's feed counts.
    """

    item: Item
    arrived: float | None = None
    origin: Origin | None = None
    emitted: Mapping[str, Item] = field(default_factory=dict)
