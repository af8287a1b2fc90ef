"""What is deleted, when an operator does not want to keep everything for ever."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, or_, select, update

from headwater.store import hits, marks, search
from headwater.store.known import seen_key
from headwater.store.people_tables import mark
from headwater.store.sql import chunks
from headwater.store.tables import checkpoint, item, outbox, refresh, seen, tally
from headwater.store.values import Keep, Pruned

DAY = 86_400.0
HOUR = 3600
CHUNK = 500
TALLY_DAYS = 400
_FORGOTTEN = update(seen).where(seen.c.feed_id == bindparam("of_feed"), seen.c.key == bindparam("of_key"))
_FORGOTTEN = _FORGOTTEN.values(item_id=None)


def prune(connection: Connection, keep: Keep, now: float, limit: int) -> Pruned:
    """At most `limit` of each kind, oldest first, in the caller's transaction."""
    entries = _prune_outbox(connection, keep, now, limit)  # first, so that it no longer spares items
    items = _prune_items(connection, keep, now, limit)
    if keep.days is not None:
        items += hits.prune(connection, now - keep.days * DAY, limit)
    refreshes = 0
    if keep.refresh_days is not None:
        old = select(refresh.c.id).where(refresh.c.at < now - keep.refresh_days * DAY).order_by(refresh.c.at)
        refreshes = connection.execute(delete(refresh).where(refresh.c.id.in_(old.limit(limit)))).rowcount
    connection.execute(delete(tally).where(tally.c.hour < (now - TALLY_DAYS * DAY) // HOUR))
    return Pruned(items, refreshes, entries)


def _slowest(connection: Connection) -> int | None:
    """How far every consumer has read; None when there is no consumer."""
    return connection.execute(select(func.min(checkpoint.c.position))).scalar()


def _prune_outbox(connection: Connection, keep: Keep, now: float, limit: int) -> int:
    done: list[ColumnElement[bool]] = []
    if (slowest := _slowest(connection)) is not None:
        done.append(outbox.c.position <= slowest)
    if keep.outbox_days is not None:
        done.append(outbox.c.at < now - keep.outbox_days * DAY)
    if not done:
        return 0
    old = select(outbox.c.position).where(or_(*done)).order_by(outbox.c.position).limit(limit)
    return connection.execute(delete(outbox).where(outbox.c.position.in_(old))).rowcount


def _prune_items(connection: Connection, keep: Keep, now: float, limit: int) -> int:
    ids: set[int] = set()
    spared = _spared(connection)
    if keep.days is not None:
        old = select(item.c.id).where(item.c.first_seen < now - keep.days * DAY, ~spared).order_by(item.c.first_seen)
        ids.update(connection.execute(old.limit(limit)).scalars())
    if keep.per_feed is not None:
        ids.update(_beyond(connection, keep.per_feed, spared, limit - len(ids)))
    for chunk in chunks(sorted(ids), CHUNK):
        _delete(connection, chunk)
    return len(ids)


def _spared(connection: Connection) -> ColumnElement[bool]:
    """Items that stay: somebody starred them, or some consumer has not read of them yet."""
    starred = item.c.id.in_(select(mark.c.item_id).where(mark.c.starred.is_not(None)))
    slowest = _slowest(connection)
    if slowest is None:
        return starred
    return or_(starred, item.c.id.in_(select(outbox.c.item_id).where(outbox.c.position > slowest)))


def _beyond(connection: Connection, per_feed: int, spared: ColumnElement[bool], limit: int) -> list[int]:
    """Items that are not among the newest `per_feed` of their feed."""
    ids: list[int] = []
    crowded = select(item.c.feed_id).group_by(item.c.feed_id).having(func.count() > per_feed)
    for feed_id in connection.execute(crowded).scalars().all():
        if len(ids) >= limit:
            break
        newest = select(item.c.id).where(item.c.feed_id == feed_id)
        newest = newest.order_by(item.c.published.desc(), item.c.id.desc()).limit(per_feed)
        rest = select(item.c.id).where(item.c.feed_id == feed_id, item.c.id.not_in(newest), ~spared)
        ids += connection.execute(rest.limit(limit - len(ids))).scalars()
    return ids


def _delete(connection: Connection, ids: Sequence[int]) -> None:
    """The items and their words go; that they have been seen stays. Outbox entries without an item are not shown."""
    rows = connection.execute(select(item.c.id, item.c.feed_id, item.c.identity).where(item.c.id.in_(ids))).all()
    search.forget(connection, ids)
    connection.execute(_FORGOTTEN, [{"of_feed": id, "of_key": seen_key(identity)} for _, id, identity in rows])
    for feed_id in {row.feed_id for row in rows}:
        marks.forget(connection, feed_id, [row.id for row in rows if row.feed_id == feed_id])
    connection.execute(delete(item).where(item.c.id.in_(ids)))
