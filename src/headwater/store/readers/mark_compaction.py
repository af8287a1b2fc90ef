"""Replaces many marks by moved read positions, once an hour."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, text, update

from headwater.store.database.item_ids import find_last_settled_item
from headwater.store.readers.marks import set_states
from headwater.store.readers.subscriptions import list_readers
from headwater.store.schema.reader_tables import mark, mark_undo, subscription
from headwater.store.store import Store

UNDO_SECONDS = 3600.0  # during which “mark all as read” can be undone
MANY_READ = 10  # items of a feed that are read one by one before its position is moved
WORTH_MOVING = 100  # newer items before a position moves to the end
REDUNDANT_AFTER = 7 * 86_400.0  # seconds after which marks that repeat the position are deleted


async def compact_all_marks(store: Store, now: float) -> int:
    """Compact the marks of all readers, one transaction per reader; returns how many marks were deleted."""
    await store.write(delete_expired_undo, now)
    gone = 0
    last = await store.read(find_last_settled_item)
    for user_id in await store.read(list_readers):
        gone += await store.write(compact_marks, user_id, last, now)
    return gone + await store.write(delete_redundant_marks, now)


def delete_expired_undo(connection: Connection, now: float) -> None:
    """Delete undo records that have expired."""
    connection.execute(delete(mark_undo).where(mark_undo.c.at < now - UNDO_SECONDS))


def delete_redundant_marks(connection: Connection, now: float) -> int:
    """Delete older marks that repeat the position; returns how many."""
    return connection.execute(_REDUNDANT, {"old": now - REDUNDANT_AFTER}).rowcount


def compact_marks(connection: Connection, user_id: int, last: int, now: float) -> int:
    """Replace marks of one reader by fewer marks and later positions; returns how many marks were deleted.

    If the reader has read most of a feed item by item, the position moves to `last` and the few unread items are
    marked instead. If everything is read, the position moves to `last`, up to which no item can appear any more.
    """
    if connection.execute(select(mark_undo.c.id).where(mark_undo.c.user_id == user_id).limit(1)).first() is not None:
        return 0
    read = connection.execute(_MANY_READ, {"user": user_id, "last": last, "many": MANY_READ}).all()
    gone = sum(_move_position(connection, user_id, feed_id, number, last, now) for feed_id, number in read)
    connection.execute(_MOVE_TO_END, {"user": user_id, "last": last, "near": last - WORTH_MOVING})
    return gone


def _move_position(connection: Connection, user_id: int, feed_id: int, read: int, last: int, now: float) -> int:
    given = {"user": user_id, "feed": feed_id, "last": last}
    unread = connection.execute(_STILL_UNREAD, given).scalars().all()
    if len(unread) >= read:
        return 0
    set_states(connection, user_id, [(feed_id, id) for id in unread], 0, now)
    mine = (subscription.c.user_id == user_id, subscription.c.feed_id == feed_id)
    connection.execute(update(subscription).where(*mine).values(read_up_to=last))
    theirs = (mark.c.user_id == user_id, mark.c.feed_id == feed_id, mark.c.item_id <= last)
    return connection.execute(delete(mark).where(*theirs, mark.c.state == 1, mark.c.starred.is_(None))).rowcount


_REDUNDANT = text(
    "DELETE FROM mark WHERE state = 1 AND starred IS NULL AND changed < :old AND item_id <= "
    "(SELECT s.read_up_to FROM subscription s WHERE s.user_id = mark.user_id AND s.feed_id = mark.feed_id)"
)
_MANY_READ = text(
    "SELECT m.feed_id, COUNT(*) FROM subscription s JOIN mark m ON m.user_id = s.user_id AND m.feed_id = s.feed_id "
    "AND m.item_id > s.read_up_to AND m.item_id <= :last WHERE s.user_id = :user AND m.state = 1 "
    "GROUP BY m.feed_id HAVING COUNT(*) > :many"
)
_UNREAD_AFTER = (
    "FROM item i LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = i.feed_id AND m.item_id = i.id "
    "WHERE i.feed_id = {feed} AND i.id > {position} AND COALESCE(m.state, 0) = 0"
)
_POSITION = "(SELECT read_up_to FROM subscription WHERE user_id = :user AND feed_id = :feed)"
_STILL_UNREAD = text(f"SELECT i.id {_UNREAD_AFTER.format(feed=':feed', position=_POSITION)} AND i.id <= :last")
_MOVE_TO_END = text(
    "UPDATE subscription SET read_up_to = :last WHERE user_id = :user AND read_up_to < :near AND NOT EXISTS "
    f"(SELECT 1 {_UNREAD_AFTER.format(feed='subscription.feed_id', position='subscription.read_up_to')})"
)
