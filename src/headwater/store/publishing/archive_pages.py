"""Cuts the past of a published feed into archive pages, in the order of arrival.

A page is full when it has `size` items, counted from the oldest. The newest page may be short. A page is named by the
position of its last item: that name keeps its items when others arrive, and a reader who follows the pages from the
newest to the oldest meets every item, even if some are deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from headwater.model import Item
from headwater.store.content.items import list_items_by_arrival, select_feeds_with_tag
from headwater.store.queries.hits import IS_SHOWN, list_hits_by_number
from headwater.store.schema.feed_tables import TRASHED_FEEDS
from headwater.store.schema.item_tables import item
from headwater.store.schema.query_tables import hit


@dataclass(frozen=True, slots=True)
class PastItems:
    """The items of a feed in the order of arrival: their positions and ids, and how `limit` after `skip` are loaded."""

    position: ColumnElement[int]
    item_id: ColumnElement[int]
    conditions: tuple[ColumnElement[bool], ...]
    load_items: Callable[[Connection, int, int], Sequence[Item]]

    def select(self, *columns: ColumnElement[Any]) -> Select[Any]:
        return select(*columns).where(*self.conditions)


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """A page of the archive: its number, its items, and the last positions of the pages beside it.

    `is_fixed` says that the page keeps these items while others arrive. `newer` names full pages only.
    """

    number: int
    items: tuple[Item, ...]
    older: int | None
    newer: int | None
    is_fixed: bool


def past_of_query(query_id: int) -> PastItems:
    """Return the past of a query feed: its hits."""

    def load_items(connection: Connection, skip: int, limit: int) -> Sequence[Item]:
        return [one.item for one in list_hits_by_number(connection, query_id, skip, limit)]

    return PastItems(hit.c.id, hit.c.item_id, (hit.c.query_id == query_id, IS_SHOWN), load_items)


def past_of_tag(tag: str) -> PastItems:
    """Return the past of a tag: the items of its feeds."""

    def load_items(connection: Connection, skip: int, limit: int) -> Sequence[Item]:
        return list_items_by_arrival(connection, tag=tag, skip=skip, limit=limit)

    tagged = item.c.feed_id.in_(select_feeds_with_tag(tag))
    return PastItems(item.c.id, item.c.id, (tagged, item.c.feed_id.not_in(TRASHED_FEEDS)), load_items)


def count_past(connection: Connection, past: PastItems, upto: int | None = None) -> int:
    """Count the items of the past, or those up to a position."""
    query = past.select(func.count(past.position))
    return int(connection.execute(query if upto is None else query.where(past.position <= upto)).scalar_one())


def find_numbered_page(connection: Connection, past: PastItems, number: int, size: int) -> ArchivePage | None:
    """Find a page by its number; page 1 is the oldest. The last page may be short."""
    first, count = (number - 1) * size, count_past(connection, past)
    return _find_page(connection, past, first, min(count, first + size), size) if 0 <= first < count else None


def find_page_upto(connection: Connection, past: PastItems, upto: int, size: int) -> ArchivePage | None:
    """Find the page whose last item has the position `upto`, or the last position before it."""
    last = count_past(connection, past, upto)
    return _find_page(connection, past, (last - 1) // size * size, last, size, upto) if last else None


def _find_page(
    connection: Connection, past: PastItems, first: int, last: int, size: int, upto: int | None = None
) -> ArchivePage:
    """Find the items from the number `first` (counted from 0) up to `last`, and the pages beside them."""
    skip = max(first - 1, 0)
    query = past.select(past.position).order_by(past.position).offset(skip).limit(2 * size + first - skip)
    around = list(connection.execute(query).scalars())
    own = around[first - skip :]
    shown = own[: last - first]
    newer_end = 2 * size if len(shown) == size else size
    return ArchivePage(
        first // size + 1,
        tuple(past.load_items(connection, first, last - first)),
        around[0] if first else None,
        own[newer_end - 1] if len(own) >= newer_end else None,
        len(shown) == size or (bool(shown) and shown[-1] == upto),
    )


def find_newest_page(connection: Connection, past: PastItems, shown: Collection[int], size: int) -> int | None:
    """Return the last position of the newest page that a document with the items `shown` must link to.

    That is the short page, unless the document shows all its items; then the last full page. None if there is none.
    """
    count = count_past(connection, past)
    first = count // size * size
    skip = max(first - 1, 0)
    query = past.select(past.position, past.item_id).order_by(past.position).offset(skip)
    rows = connection.execute(query).all()
    if not {row[1] for row in rows[first - skip :]} <= set(shown):
        return int(rows[-1][0])
    return int(rows[0][0]) if first else None
