"""What the engine says of an item: which query feeds it comes out of, how, and beside what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, overload

from headwater.model import Item
from headwater.query.items.origin import Origin


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


@dataclass(slots=True)
class Hit:
    """An item comes out of a query feed. A value, though not frozen: thousands are made of an item, and freezing would
    treble what that costs.

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
    def rewritten_fields(self) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class MatchFailure:
    """A query on which an item could not be tried; all others have been."""

    query: str
    error: Exception


class Hits(Sequence[Hit]):
    """The hits of one item. Those of plain filters, of which there can be thousands, are made when first looked at.

    `plain` are numbers of queries that `named` knows by name; the item comes out of them unchanged, through their only
    source. `before` are the ones that have emitted it before, `delivered` those that must not deliver it again.
    `failures` are queries on which the item could not be tried: a defect, but of one query, and not of the others.
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
                record = self._named[number]
                if record is not None:  # else the query was dropped since
                    update = number in before
                    fresh = not update and number not in delivered
                    found.append(Hit(record.name, item, item, ONLY_BRANCH, None, update, fresh))
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
