"""Saying what people have read with fewer marks, from time to time: positions move on, and redundant marks go."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, text, update

from headwater.store.marks import SET_READ, put_in_order
from headwater.store.people_tables import mark, subscribed, undo

UNDO_LASTS = 3600.0  # seconds
MANY = 10  # items read one by one, before the position is moved
WORTH_MOVING = 100  # items between a position and the newest one
REST = 7 * 86_400.0  # marks that say what the position says anyway are forgotten after this time


def forget_undo(connection: Connection, now: float) -> None:
    """“Mark all as read” can be taken back until here."""
    connection.execute(delete(undo).where(undo.c.at < now - UNDO_LASTS))


def forget_redundant(connection: Connection, now: float) -> int:
    """Marks that say what the position says are forgotten after a while; how many went."""
    return connection.execute(_REDUNDANT, {"old": now - REST}).rowcount


def compact(connection: Connection, user_id: int, last: int, now: float) -> int:
    """Say the same of what one person has read with fewer marks, and positions nearer to the newest item; how many
    marks went.

    Where somebody has read most of a feed item by item, the position moves behind it and the few unread ones get marks
    instead. Where everything is read, the position moves to `last`, before which no item can appear any more.
    """
    if connection.execute(select(undo.c.id).where(undo.c.user_id == user_id).limit(1)).first() is not None:
        return 0
    read = connection.execute(_MANY_READ, {"user": user_id, "last": last, "many": MANY}).all()
    gone = sum(_turn_over(connection, user_id, feed_id, number, last, now) for feed_id, number in read)
    connection.execute(_TO_THE_END, {"user": user_id, "last": last, "near": last - WORTH_MOVING})
    return gone


def _turn_over(connection: Connection, user_id: int, feed_id: int, read: int, last: int, now: float) -> int:
    given = {"user": user_id, "feed": feed_id, "last": last}
    unread = connection.execute(_STILL_UNREAD, given).scalars().all()
    if len(unread) >= read:
        return 0
    rows = ({"user_id": user_id, "feed_id": feed_id, "item_id": id, "state": 0, "changed": now} for id in unread)
    SET_READ.run(connection, rows)
    put_in_order(connection, user_id)
    mine = (subscribed.c.user_id == user_id, subscribed.c.feed_id == feed_id)
    connection.execute(update(subscribed).where(*mine).values(read_up_to=last))
    theirs = (mark.c.user_id == user_id, mark.c.feed_id == feed_id, mark.c.item_id <= last)
    return connection.execute(delete(mark).where(*theirs, mark.c.state == 1, mark.c.starred.is_(None))).rowcount


_REDUNDANT = text(
    "DELETE FROM mark WHERE state = 1 AND starred IS NULL AND changed < :old AND item_id <= "
    "(SELECT s.read_up_to FROM subscribed s WHERE s.user_id = mark.user_id AND s.feed_id = mark.feed_id)"
)
_MANY_READ = text(
    "SELECT m.feed_id, COUNT(*) FROM subscribed s JOIN mark m ON m.user_id = s.user_id AND m.feed_id = s.feed_id "
    "AND m.item_id > s.read_up_to AND m.item_id <= :last WHERE s.user_id = :user AND m.state = 1 "
    "GROUP BY m.feed_id HAVING COUNT(*) > :many"
)
_BEHIND_IT = (
    "FROM item i LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = i.feed_id AND m.item_id = i.id "
    "WHERE i.feed_id = {feed} AND i.id > {position} AND COALESCE(m.state, 0) = 0"
)
_POSITION = "(SELECT read_up_to FROM subscribed WHERE user_id = :user AND feed_id = :feed)"
_STILL_UNREAD = text(f"SELECT i.id {_BEHIND_IT.format(feed=':feed', position=_POSITION)} AND i.id <= :last")
_TO_THE_END = text(
    "UPDATE subscribed SET read_up_to = :last WHERE user_id = :user AND read_up_to < :near AND NOT EXISTS "
    f"(SELECT 1 {_BEHIND_IT.format(feed='subscribed.feed_id', position='subscribed.read_up_to')})"
)
