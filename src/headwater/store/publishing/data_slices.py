"""Lists and counts items, refreshes and hits by id, a slice at a time, for exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from headwater.model import Item, Refresh
from headwater.store.content import items, refreshes
from headwater.store.queries import hits
from headwater.store.queries.hits import StoredHit
from headwater.store.schema.feed_tables import TRASHED_FEEDS, refresh
from headwater.store.schema.item_tables import item
from headwater.store.schema.query_tables import hit


@dataclass(frozen=True, slots=True)
class DataSlice:
    """A part of the past: `since` ≤ time < `until`, of one feed or of all."""

    since: float | None = None
    until: float | None = None
    feed_id: int | None = None


def list_item_slice(connection: Connection, after: int, part: DataSlice, limit: int) -> list[Item]:
    query = select(item).where(*_item_conditions(part), item.c.id > after).order_by(item.c.id).limit(limit)
    return [items.read_item(row) for row in connection.execute(query)]


def list_refresh_slice(connection: Connection, after: int, part: DataSlice, limit: int) -> list[tuple[int, Refresh]]:
    query = select(refresh).where(*_refresh_conditions(part), refresh.c.id > after).order_by(refresh.c.id).limit(limit)
    return [(row.id, refreshes.read_refresh(row)) for row in connection.execute(query)]


def list_hit_slice(connection: Connection, query_id: int, after: int, part: DataSlice, limit: int) -> list[StoredHit]:
    """List hits by id, beyond `after`; hits of replaced definitions are left out."""
    query = select(hit.c.id).where(*_hit_conditions(query_id, part), hit.c.id > after).order_by(hit.c.id).limit(limit)
    return hits.find_hits(connection, connection.execute(query).scalars().all())


def count_slice(connection: Connection, what: str, query_id: int | None, after: int, part: DataSlice) -> int:
    """Count the rows beyond the id `after`: hits of a query feed, or else “refreshes” or “items”."""
    if query_id is not None:
        return count_hit_slice(connection, query_id, after, part)
    count = count_refresh_slice if what == "refreshes" else count_item_slice
    return count(connection, after, part)


def count_item_slice(connection: Connection, after: int, part: DataSlice) -> int:
    return _count_rows(
        connection, select(func.count()).select_from(item).where(*_item_conditions(part), item.c.id > after)
    )


def count_refresh_slice(connection: Connection, after: int, part: DataSlice) -> int:
    return _count_rows(
        connection, select(func.count()).select_from(refresh).where(*_refresh_conditions(part), refresh.c.id > after)
    )


def count_hit_slice(connection: Connection, query_id: int, after: int, part: DataSlice) -> int:
    return _count_rows(
        connection, select(func.count()).select_from(hit).where(*_hit_conditions(query_id, part), hit.c.id > after)
    )


def _count_rows(connection: Connection, query: Select[Any]) -> int:
    number: int = connection.execute(query).scalar_one()
    return number


def _item_conditions(part: DataSlice) -> list[ColumnElement[bool]]:
    return _slice_conditions(item.c.published, item.c.feed_id, part)


def _refresh_conditions(part: DataSlice) -> list[ColumnElement[bool]]:
    return _slice_conditions(refresh.c.at, refresh.c.feed_id, part)


def _hit_conditions(query_id: int, part: DataSlice) -> list[ColumnElement[bool]]:
    return [hit.c.query_id == query_id, hit.c.current, *_slice_conditions(hit.c.arrived, hit.c.feed_id, part)]


def _slice_conditions(when: Any, feed_id: Any, part: DataSlice) -> list[ColumnElement[bool]]:
    wanted = [feed_id.not_in(TRASHED_FEEDS)] + ([] if part.since is None else [when >= part.since])
    wanted += [] if part.until is None else [when < part.until]
    return wanted + ([] if part.feed_id is None else [feed_id == part.feed_id])
