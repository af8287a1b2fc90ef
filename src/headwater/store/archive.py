"""The whole past in the order of ids, a piece at a time: what an export reads."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from headwater.model import Item, Refresh
from headwater.store import hits, items, refreshes
from headwater.store.tables import hit, item, refresh
from headwater.store.values import Slice, StoredHit


def items_after(connection: Connection, after: int, part: Slice, limit: int) -> list[Item]:
    query = select(item).where(*_items(part), item.c.id > after).order_by(item.c.id).limit(limit)
    return [items.read_item(row) for row in connection.execute(query)]


def refreshes_after(connection: Connection, after: int, part: Slice, limit: int) -> list[tuple[int, Refresh]]:
    query = select(refresh).where(*_refreshes(part), refresh.c.id > after).order_by(refresh.c.id).limit(limit)
    return [(row.id, refreshes.read_refresh(row)) for row in connection.execute(query)]


def hits_after(connection: Connection, query_id: int, after: int, part: Slice, limit: int) -> list[StoredHit]:
    """In the order of ids beyond `after`; hits of replaced definitions are left out."""
    query = select(hit.c.id).where(*_hits(query_id, part), hit.c.id > after).order_by(hit.c.id).limit(limit)
    return hits.by_ids(connection, connection.execute(query).scalars().all())


def count_items(connection: Connection, after: int, part: Slice) -> int:
    return _count(connection, select(func.count()).select_from(item).where(*_items(part), item.c.id > after))


def count_refreshes(connection: Connection, after: int, part: Slice) -> int:
    return _count(connection, select(func.count()).select_from(refresh).where(*_refreshes(part), refresh.c.id > after))


def count_hits(connection: Connection, query_id: int, after: int, part: Slice) -> int:
    return _count(connection, select(func.count()).select_from(hit).where(*_hits(query_id, part), hit.c.id > after))


def _count(connection: Connection, query: Select[Any]) -> int:
    number: int = connection.execute(query).scalar_one()
    return number


def _items(part: Slice) -> list[ColumnElement[bool]]:
    return _between(item.c.published, item.c.feed_id, part)


def _refreshes(part: Slice) -> list[ColumnElement[bool]]:
    return _between(refresh.c.at, refresh.c.feed_id, part)


def _hits(query_id: int, part: Slice) -> list[ColumnElement[bool]]:
    return [hit.c.query_id == query_id, hit.c.current, *_between(hit.c.arrived, hit.c.feed_id, part)]


def _between(when: Any, feed_id: Any, part: Slice) -> list[ColumnElement[bool]]:
    wanted = [] if part.since is None else [when >= part.since]
    wanted += [] if part.until is None else [when < part.until]
    return wanted + ([] if part.feed_id is None else [feed_id == part.feed_id])
