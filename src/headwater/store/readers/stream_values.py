"""Defines what a stream is, which part of it is asked for, and an item as one reader has it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from headwater.model import Item

HIT_ID_OFFSET = 1 << 62  # what is added to the id of a hit to make it one of its own among those of items


@dataclass(frozen=True, slots=True)
class Stream:
    """A feed, a query feed, everything under a tag, or (nothing given) everything that a reader reads."""

    feed: int | None = None
    query: int | None = None
    tag: str | None = None


class ReaderItem(msgspec.Struct, frozen=True):
    """An item as one person has it. In a query feed `hit_id` is its place there, and `item` what the feed shows."""

    item: Item
    read: bool
    starred: bool
    query_id: int | None = None
    hit_id: int | None = None
    arrived: float = 0.0

    @property
    def id(self) -> int:
        """One number for whatever stands in a stream: the item's, or that of its place in a query feed."""
        return HIT_ID_OFFSET + self.hit_id if self.hit_id is not None else self.item.id or 0


@dataclass(frozen=True, slots=True)
class StreamPage:
    """A page of a stream; pass `next` as `before` to get the following one, None at the end."""

    items: tuple[ReaderItem, ...] = ()
    next: tuple[float, int] | None = None


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """A part of a stream. `before` is `StreamPage.next` of the previous page.

    `unread` True lists only unread items, False only read ones. `since` and `until` bound the time of arrival
    (since ≤ arrived < until). `by_arrival` orders by arrival instead of publication. `queries` lists, in streams that
    are more than one feed, also what the query feeds show, each as an entry of its own.
    """

    unread: bool | None = None
    starred: bool = False
    since: float | None = None
    until: float | None = None
    before: tuple[float, int] | None = None
    limit: int = 100
    oldest_first: bool = False
    by_arrival: bool = False
    queries: bool = False
