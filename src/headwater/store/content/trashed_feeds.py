"""Moves feeds to the trash and back: `deleted_at` is set, and a few small rows wait in the trash entry.

Items, marks, hits and the refresh log stay where they are, so a feed with 10,000 items goes and comes back at once.
The row of `feed_state` goes to the entry too: the schedule, overviews and hubs join it, and so do not see the feed.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import Connection, delete, select, update

from headwater.errors import NotFound
from headwater.model import Feed
from headwater.store.content import outbox, websub_leases
from headwater.store.database.dialect import chunks
from headwater.store.maintenance.trash_entries import (
    TRASHED_FEED,
    Remover,
    TrashRow,
    add_trash_entry,
    encode_objects,
    insert_table_rows,
    take_rows,
)
from headwater.store.saved_state import bump_revision
from headwater.store.schema.feed_tables import FEED_IS_LIVE, TRASHED_FEEDS, feed, feed_state, feed_tag
from headwater.store.schema.item_tables import article_feed, item
from headwater.store.schema.item_tables import outbox as outbox_table
from headwater.store.schema.query_tables import QUERY_IS_LIVE, implicit_feed, query_address, query_feed
from headwater.store.schema.reader_tables import subscription, subscription_tag, trash

CHUNK = 500
UNMATCHED = "unmatched outbox entries"
_SMALL_TABLES = (feed_state, feed_tag, implicit_feed, article_feed, query_address, subscription, subscription_tag)


def trash_feed(connection: Connection, gone: Feed, by: Remover) -> int:
    """Move a feed to the trash for everybody and return the number of its entry. Its WebSub lease is cancelled."""
    mine = select(feed.c.id).where(feed.c.id == gone.id, FEED_IS_LIVE)
    if connection.execute(mine.with_for_update()).first() is None:  # waits for a verdict that is being saved
        raise NotFound(f"There is no feed {gone.id}.")
    rows = {table.name: take_rows(connection, table, table.c.feed_id == gone.id) for table in _SMALL_TABLES}
    matched = outbox.read_checkpoint(connection, "queries")
    entries = select(outbox_table).join(item, item.c.id == outbox_table.c.item_id)
    entries = entries.where(outbox_table.c.position > matched, item.c.feed_id == gone.id)
    rows[UNMATCHED] = [dict(row._mapping) for row in connection.execute(entries.order_by(outbox_table.c.position))]
    connection.execute(update(feed).where(feed.c.id == gone.id).values(deleted_at=by.at))
    websub_leases.cancel_leases(connection, [gone.id])
    bump_revision(connection)
    return add_trash_entry(connection, by, TRASHED_FEED, gone.title or gone.url, rows, [gone.id])


def restore_feeds(connection: Connection, ids: Collection[int]) -> None:
    """Restore feeds from the trash; their names and addresses must be free."""
    for chunk in chunks(sorted(ids), CHUNK):
        connection.execute(update(feed).where(feed.c.id.in_(chunk)).values(deleted_at=None))
        which = (trash.c.kind == TRASHED_FEED, trash.c.objects.in_([encode_objects([id]) for id in chunk]))
        for stored in connection.execute(delete(trash).where(*which).returning(trash.c.rows)).scalars().all():
            rows: dict[str, list[TrashRow]] = json.loads(stored)
            insert_table_rows(connection, rows)
            _append_passed_entries(connection, rows[UNMATCHED])
    bump_revision(connection)


def restore_addresses(connection: Connection, keys: Collection[str]) -> None:
    """Restore the trashed feeds at these addresses (normalised) unless another feed has the address now.

    A feed whose name is taken comes back without it.
    """
    trashed = select(feed.c.id, feed.c.url_key, feed.c.name).where(feed.c.id.in_(TRASHED_FEEDS))
    rows = connection.execute(trashed.where(feed.c.url_key.in_(keys)).order_by(feed.c.id)).all()
    latest = {row.url_key: row for row in rows}
    if not latest:
        return
    for key in connection.execute(
        select(feed.c.url_key).where(feed.c.url_key.in_(list(latest)), FEED_IS_LIVE)
    ).scalars():
        del latest[key]
    for row in latest.values():
        if row.name is not None and find_name_holder(connection, row.name) is not None:
            connection.execute(update(feed).where(feed.c.id == row.id).values(name=None))
    restore_feeds(connection, [row.id for row in latest.values()])


def find_name_holder(connection: Connection, name: str) -> str | None:
    """Find the feed or query feed that has a name, in any case: they share their names. Returns its spelling."""
    key = name.casefold()
    taken = connection.execute(select(query_feed.c.name).where(query_feed.c.key == key, QUERY_IS_LIVE)).scalar()
    named = connection.execute(select(feed.c.name).where(feed.c.name.is_not(None), FEED_IS_LIVE)).scalars()
    return taken or next((other for other in named if other.casefold() == key), None)


def _append_passed_entries(connection: Connection, unmatched: list[TrashRow]) -> None:
    """Append the entries again that the query processor skipped while the feed was in the trash."""
    passed = outbox.read_checkpoint(connection, "queries")
    if missed := [row for row in unmatched if row["position"] <= passed]:
        outbox.lock_outbox(connection)
        for row in missed:
            outbox.append_entries(connection, row["kind"], [(row["item_id"], row["at"])])
