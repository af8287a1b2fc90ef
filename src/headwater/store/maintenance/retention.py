"""Deletes items, refreshes and outbox entries that the policy does not keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, or_, select, update

from headwater.store.content import search
from headwater.store.content.articles import delete_articles
from headwater.store.content.feed_state import hash_identity
from headwater.store.content.items import delete_earlier_versions
from headwater.store.database.dialect import chunks
from headwater.store.queries import hits
from headwater.store.readers import marks
from headwater.store.schema.feed_tables import TRASHED_FEEDS, hourly_count, refresh
from headwater.store.schema.item_tables import checkpoint, item, item_story, outbox, seen_identity
from headwater.store.schema.reader_tables import item_label, mark


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Limits for stored data. None keeps everything; an item is deleted when either limit is passed.

    `days` counts from when the item was first seen, `per_feed` the newest ones of a feed. The identities of
    deleted items are remembered, so that an old item still shown by its feed does not come back as new.
    `refresh_days` is for the refresh log, `outbox_days` for entries that some consumer has not read yet.
    """

    days: float | None = None
    per_feed: int | None = None
    refresh_days: float | None = 90.0
    outbox_days: float | None = 30.0


@dataclass(frozen=True, slots=True)
class PrunedCounts:
    """The numbers of rows that retention deleted."""

    items: int = 0
    refreshes: int = 0
    outbox: int = 0


DAY = 86_400.0
HOUR = 3600
CHUNK = 500
HOURLY_COUNT_DAYS = 400
_CLEAR_SEEN_ITEM = update(seen_identity).where(
    seen_identity.c.feed_id == bindparam("of_feed"), seen_identity.c.key == bindparam("of_key")
)
_CLEAR_SEEN_ITEM = _CLEAR_SEEN_ITEM.values(item_id=None)


def delete_expired(connection: Connection, keep: RetentionPolicy, now: float, *, limit: int = 1000) -> PrunedCounts:
    """Delete rows that the policy does not keep, oldest first, at most `limit` of each kind.

    Call it again while anything was deleted, so that readers and refreshes get their turn between. Items that a
    consumer of the outbox has not read yet are spared.
    """
    entries = _delete_outbox_entries(connection, keep, now, limit)  # first, so that it no longer spares items
    items = _delete_expired_items(connection, keep, now, limit)
    if keep.days is not None:
        items += hits.delete_old_hits(connection, now - keep.days * DAY, limit)
    refreshes = 0
    if keep.refresh_days is not None:
        old = select(refresh.c.id).where(refresh.c.at < now - keep.refresh_days * DAY).order_by(refresh.c.at)
        refreshes = connection.execute(delete(refresh).where(refresh.c.id.in_(old.limit(limit)))).rowcount
    connection.execute(delete(hourly_count).where(hourly_count.c.hour < (now - HOURLY_COUNT_DAYS * DAY) // HOUR))
    return PrunedCounts(items, refreshes, entries)


def _find_slowest_position(connection: Connection) -> int | None:
    """Return the position that every consumer has read; None when there is no consumer."""
    return connection.execute(select(func.min(checkpoint.c.position))).scalar()


def _delete_outbox_entries(connection: Connection, keep: RetentionPolicy, now: float, limit: int) -> int:
    done: list[ColumnElement[bool]] = []
    if (slowest := _find_slowest_position(connection)) is not None:
        done.append(outbox.c.position <= slowest)
    if keep.outbox_days is not None:
        done.append(outbox.c.at < now - keep.outbox_days * DAY)
    if not done:
        return 0
    old = select(outbox.c.position).where(or_(*done)).order_by(outbox.c.position).limit(limit)
    return connection.execute(delete(outbox).where(outbox.c.position.in_(old))).rowcount


def _delete_expired_items(connection: Connection, keep: RetentionPolicy, now: float, limit: int) -> int:
    ids: set[int] = set()
    spared = _spared_items(connection)
    if keep.days is not None:
        old = select(item.c.id).where(item.c.first_seen < now - keep.days * DAY, ~spared).order_by(item.c.first_seen)
        ids.update(connection.execute(old.limit(limit)).scalars())
    if keep.per_feed is not None:
        ids.update(_list_items_beyond(connection, keep.per_feed, spared, limit - len(ids)))
    for chunk in chunks(sorted(ids), CHUNK):
        _delete_items(connection, chunk)
    return len(ids)


def _spared_items(connection: Connection) -> ColumnElement[bool]:
    """Build the condition for items that stay: starred, labelled, trashed, or unread by a consumer of the outbox."""
    starred = item.c.id.in_(select(mark.c.item_id).where(mark.c.starred.is_not(None)))
    kept = or_(starred, item.c.id.in_(select(item_label.c.item_id)), item.c.feed_id.in_(TRASHED_FEEDS))
    slowest = _find_slowest_position(connection)
    if slowest is None:
        return kept
    return or_(kept, item.c.id.in_(select(outbox.c.item_id).where(outbox.c.position > slowest)))


def _list_items_beyond(connection: Connection, per_feed: int, spared: ColumnElement[bool], limit: int) -> list[int]:
    """List items that are not among the newest `per_feed` of their feed."""
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


def _delete_items(connection: Connection, ids: Sequence[int]) -> None:
    """Delete items and their index words; their identities stay seen. Outbox entries without an item are not shown."""
    rows = connection.execute(select(item.c.id, item.c.feed_id, item.c.identity).where(item.c.id.in_(ids))).all()
    search.remove_from_index(connection, ids)
    connection.execute(
        _CLEAR_SEEN_ITEM, [{"of_feed": id, "of_key": hash_identity(identity)} for _, id, identity in rows]
    )
    for feed_id in {row.feed_id for row in rows}:
        marks.delete_marks_of_items(connection, feed_id, [row.id for row in rows if row.feed_id == feed_id])
    delete_earlier_versions(connection, ids)
    delete_articles(connection, ids)
    connection.execute(delete(item_story).where(item_story.c.item_id.in_(ids)))
    connection.execute(delete(item).where(item.c.id.in_(ids)))
