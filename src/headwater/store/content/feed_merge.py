"""Two feeds that turned out to be one: the items of the second become the first's, and the second is removed."""

from __future__ import annotations

from sqlalchemy import Connection, exists, select, update

from headwater.errors import InputError
from headwater.store.content import feeds
from headwater.store.database.dialect import insert_or_ignore
from headwater.store.schema.feed_tables import feed_tag, hit, item, seen_identity
from headwater.store.schema.reader_tables import mark, subscription, subscription_tag


def merge_feeds(connection: Connection, into: int, gone: int) -> int:
    """How many items moved; those that `into` has under the same identity go with the removed feed."""
    if into == gone:
        raise InputError("A feed cannot be merged with itself: choose another.")
    feeds.find_feed(connection, into)
    old = feeds.find_feed(connection, gone)
    theirs = seen_identity.alias("theirs")
    has = exists(select(theirs.c.key).where(theirs.c.feed_id == into, theirs.c.key == seen_identity.c.key))
    rows = connection.execute(
        select(seen_identity.c.key, seen_identity.c.item_id).where(seen_identity.c.feed_id == gone, ~has)
    ).all()
    ids = [row.item_id for row in rows if row.item_id is not None]
    moved = seen_identity.c.feed_id == gone
    connection.execute(update(seen_identity).where(moved, ~has).values(feed_id=into))
    for table, column in ((item, item.c.id), (hit, hit.c.item_id)):
        for start in range(0, len(ids), 500):
            connection.execute(update(table).where(column.in_(ids[start : start + 500])).values(feed_id=into))
    if old.tags:
        tags = [{"feed_id": into, "tag": tag} for tag in old.tags]
        connection.execute(insert_or_ignore(connection.dialect.name, feed_tag), tags)
    _move_readers(connection, into, gone)
    feeds.delete_feed(connection, gone)
    return len(ids)


def _move_readers(connection: Connection, into: int, gone: int) -> None:
    """Who read the second reads the first, with their tags and marks; where both were read, as the first was."""
    dialect = connection.dialect.name
    mine = select(subscription).where(subscription.c.feed_id == gone)
    rows = [dict(row._mapping) | {"feed_id": into} for row in connection.execute(mine)]
    if rows:
        connection.execute(insert_or_ignore(dialect, subscription), rows)
    tagged = select(subscription_tag).where(subscription_tag.c.feed_id == gone)
    tags = [dict(row._mapping) | {"feed_id": into} for row in connection.execute(tagged)]
    if tags:
        connection.execute(insert_or_ignore(dialect, subscription_tag), tags)
    here = select(item.c.id).where(item.c.feed_id == into)
    connection.execute(update(mark).where(mark.c.feed_id == gone, mark.c.item_id.in_(here)).values(feed_id=into))
