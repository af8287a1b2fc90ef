"""Restores trashed objects: inserts their rows again under the old ids and updates everything that depends on them.

Nothing that exists is overwritten: if a name or an address is taken, an error says by what. Rows that refer to
something removed meanwhile (a feed, a query feed, a user, an item that retention deleted) are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Column, Connection, delete, or_, select, update

from headwater.errors import NotFound
from headwater.store.content import outbox
from headwater.store.database.dialect import chunks, insert_or_ignore
from headwater.store.maintenance.trash import JOINED, QUERY_TAGS, WANTED
from headwater.store.maintenance.trash_conflicts import check_conflicts
from headwater.store.maintenance.trash_rows import (
    SERVER_KINDS,
    TRASHED_FEED,
    TRASHED_MERGE,
    TRASHED_QUERY_FEED,
    TRASHED_SUBSCRIPTION,
    RestoredObject,
    Row,
    TrashEntry,
    list_trash_rows,
    read_trash_rows,
)
from headwater.store.queries import query_feeds
from headwater.store.readers import marks, subscriptions
from headwater.store.readers.accounts import SCOPES
from headwater.store.saved_state import FEEDS, PUBLISHED, QUERIES, bump_revision
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.feed_tables import feed
from headwater.store.schema.item_tables import index_queue, item, seen_identity
from headwater.store.schema.item_tables import outbox as outbox_table
from headwater.store.schema.query_tables import hit, implicit_feed, query_feed
from headwater.store.schema.reader_tables import (
    mark,
    query_subscription,
    subscription,
    subscription_tag,
    trash_entry,
    user,
)

TRASH_SECONDS = 86_400.0  # seconds for which what was removed is kept
CHUNK = 500
MOST_LISTED = 100
_PARENTS: dict[str, Column[int]] = {"feed_id": feed.c.id, "query_id": query_feed.c.id, "user_id": user.c.id}


def list_trash(
    connection: Connection, who: int | None, now: float, *, scopes: Collection[str] = SCOPES
) -> list[TrashEntry]:
    """List the entries that a user (None: the command line) can restore, the latest first."""
    query = (
        select(trash_entry)
        .where(trash_entry.c.at >= now - TRASH_SECONDS)
        .order_by(trash_entry.c.id.desc())
        .limit(MOST_LISTED)
    )
    if who is not None:
        mine = trash_entry.c.kind.not_in(SERVER_KINDS) & (trash_entry.c.user_id == who)
        query = query.where(or_(mine, trash_entry.c.kind.in_(SERVER_KINDS)) if "admin" in scopes else mine)
    return [
        TrashEntry(row.id, row.kind, row.label, row.at, row.at + TRASH_SECONDS, row.user_id)
        for row in connection.execute(query)
    ]


def delete_expired_trash(connection: Connection, now: float) -> int:
    """Delete what is too old to be restored, and return how many entries there were."""
    return _delete_trash(connection, now - TRASH_SECONDS)


def empty_trash(connection: Connection, numbers: Collection[int] | None = None) -> int:
    """Delete these entries, or all, and return how many there were."""
    return _delete_trash(connection, float("inf"), numbers)


def _delete_trash(connection: Connection, before: float, ids: Collection[int] | None = None) -> int:
    """Removals (of these numbers, or all) from before a moment are for good from now on; how many there were."""
    which = [trash_entry.c.at < before] + ([] if ids is None else [trash_entry.c.id.in_(sorted(ids))])
    return connection.execute(delete(trash_entry).where(*which)).rowcount


def restore_from_trash(
    connection: Connection, number: int, who: int | None, now: float, *, scopes: Collection[str] = SCOPES
) -> RestoredObject:
    """Bring back what was removed; NotFound where there is nothing, or nothing that this person trash_row, or no
    longer.

    InputError, and nothing is changed, where something else is in its place.
    """
    row = connection.execute(select(trash_entry).where(trash_entry.c.id == number).with_for_update()).first()
    if row is None or row.at < now - TRASH_SECONDS or not _may_restore(row.kind, row.user_id, who, scopes):
        raise NotFound("There is nothing to take back here, or no longer: what is removed is kept for a day.")
    check_conflicts(connection, row.kind, number, scopes)
    if row.kind == TRASHED_MERGE:
        _split_merged_feed(connection, number)
    back = _Restorer(connection)
    for name, rows in read_trash_rows(connection, number):
        back.insert_piece(name, rows)
    back.finish()
    ref = _object_reference(connection, row.kind, number)
    connection.execute(delete(trash_entry).where(trash_entry.c.id == number))
    return RestoredObject(row.kind, row.label, ref)


def _may_restore(kind: str, by: int | None, who: int | None, scopes: Collection[str]) -> bool:
    if who is None:
        return True
    return "admin" in scopes if kind in SERVER_KINDS else by == who


def _object_reference(connection: Connection, kind: str, number: int) -> int | str | None:
    name, column = _REFS.get(kind, ("", ""))
    rows = list_trash_rows(connection, number, name) if name else []
    return rows[0][column] if rows else None


_REFS = {
    TRASHED_FEED: (feed.name, "id"),
    TRASHED_MERGE: (feed.name, "id"),
    TRASHED_SUBSCRIPTION: (subscription.name, "feed_id"),
    TRASHED_QUERY_FEED: (query_feed.name, "name"),
}


def _split_merged_feed(connection: Connection, number: int) -> None:
    """Two feeds that were merged are two again: what came from the second goes back to it, as it is now, and who only
    read the second no longer reads the first. What was lost in merging comes with the rows that were kept."""
    row = list_trash_rows(connection, number, feed.name)[0]
    connection.execute(insert_or_ignore(connection.dialect.name, feed), row)
    for _, rows in read_trash_rows(connection, number, item.name):
        ids = [one["id"] for one in rows]
        now_in = connection.execute(select(item.c.feed_id).where(item.c.id.in_(ids)).distinct()).scalars().all()
        marked = (mark.c.user_id.in_(select(user.c.id)), mark.c.feed_id.in_(now_in), mark.c.item_id.in_(ids))
        for table, which in ((mark, marked), (item, (item.c.id.in_(ids),)), (hit, (hit.c.item_id.in_(ids),))):
            connection.execute(update(table).where(*which).values(feed_id=row["id"]))
    joined = list_trash_rows(connection, number, JOINED)
    for chunk in chunks([one for one in joined if one["table"] == seen_identity.name], CHUNK):
        came = (seen_identity.c.feed_id == chunk[0]["feed_id"], seen_identity.c.key.in_([one["key"] for one in chunk]))
        connection.execute(update(seen_identity).where(*came).values(feed_id=row["id"]))
    for one in joined:
        if one["table"] != seen_identity.name:
            table = metadata.tables[one.pop("table")]
            connection.execute(delete(table).where(*(table.c[name] == value for name, value in one.items())))


# Rows


def _find_existing(connection: Connection, column: Column[Any], ids: Collection[Any]) -> set[Any]:
    found: set[Any] = set()
    for chunk in chunks(ids, CHUNK):
        found.update(connection.execute(select(column).where(column.in_(chunk))).scalars())
    return found


class _Restorer:
    """Rows on their way back, piece by piece, and what is to be done when all are there."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ready = {
            query_feed.name: self._restore_query_feeds,
            hit.name: self._restore_hits,
            mark.name: self._restore_marks,
            subscription_tag.name: self._restore_tags,
        }
        self._noted = {
            WANTED: self._resume_feeds,
            QUERY_TAGS: self._restore_query_tags,
            outbox_table.name: self._restore_unread_marks,
        }
        self._names: set[str] = set()
        self._readers: set[int] = set()  # whose marks came back
        self._new: set[int] = set()  # items that came back
        self._unread: list[Row] = []  # entries of the outbox

    def insert_piece(self, name: str, rows: list[Row]) -> None:
        self._names.add(name)
        if name in self._noted:
            self._noted[name](rows)
            return
        table = metadata.tables.get(name)
        if table is None:  # something that was only needed to check
            return
        for column, parent in _PARENTS.items():
            if column in table.c and rows:
                there = _find_existing(self._connection, parent, {row[column] for row in rows})
                rows = [row for row in rows if row[column] in there]
        rows = self._ready.get(name, list)(rows)
        if name == item.name:  # one that is there is indexed, or waits for it
            there = _find_existing(self._connection, item.c.id, {row["id"] for row in rows})
            rows = [row for row in rows if row["id"] not in there]
        if rows:
            here = [{key: value for key, value in row.items() if key in table.c} for row in rows]
            self._connection.execute(insert_or_ignore(self._connection.dialect.name, table), here)
        if name == item.name and rows:
            self._new.update(row["id"] for row in rows)
            new = [{"item_id": row["id"]} for row in rows]
            self._connection.execute(insert_or_ignore(self._connection.dialect.name, index_queue), new)

    def finish(self) -> None:
        connection, names = self._connection, self._names
        for reader in sorted(self._readers):
            marks.fill_mark_times(connection, reader)
        released = query_feeds.pause_unreferenced_feeds(connection)
        if released or names & {"feed", "feed_tag", WANTED}:
            bump_revision(connection, FEEDS)
        bump_revision(connection, PUBLISHED)
        self._append_missed_entries()

    def _restore_query_feeds(self, rows: list[Row]) -> list[Row]:
        """As if they had been given just now, so that the processor fills them with what arrived meanwhile. A
        definition that had not been taken up yet takes the place of the one before, as it would have."""
        outbox.lock_outbox(self._connection)
        now: Row = {
            "position": outbox.find_last_position(self._connection),
            "revision": bump_revision(self._connection, QUERIES),
        }
        return [row | now | ({"active": None} if row["active"] == row["text"] else {}) for row in rows]

    def _restore_hits(self, rows: list[Row]) -> list[Row]:
        feeds = self._find_feeds_of_items(rows)
        return [row | {"feed_id": feeds.get(row["item_id"], row["feed_id"])} for row in rows]

    def _restore_marks(self, rows: list[Row]) -> list[Row]:
        """Counts rely on every mark having its item. Feeds may have been merged, and times may have changed."""
        feeds = self._find_feeds_of_items(rows)
        self._readers.update(row["user_id"] for row in rows)
        rows = [row | {"feed_id": feeds[row["item_id"]]} for row in rows if row["item_id"] in feeds]
        return [row | {"arrived": None} if row["state"] == 0 else row for row in rows]

    def _find_feeds_of_items(self, rows: Sequence[Row]) -> dict[int, int]:
        """Find the feed that each item belongs to now."""
        found: dict[int, int] = {}
        for chunk in chunks({row["item_id"] for row in rows}, CHUNK):
            query = select(item.c.id, item.c.feed_id).where(item.c.id.in_(chunk))
            found |= {row.id: row.feed_id for row in self._connection.execute(query)}
        return found

    def _restore_tags(self, rows: list[Row]) -> list[Row]:
        """Only of what is subscribed now."""
        which = (
            subscription.c.user_id.in_({row["user_id"] for row in rows}),
            subscription.c.feed_id.in_({row["feed_id"] for row in rows}),
        )
        mine = {tuple(row) for row in self._connection.execute(select(*subscription.primary_key.columns).where(*which))}
        return [row for row in rows if (row["user_id"], row["feed_id"]) in mine]

    def _resume_feeds(self, rows: list[Row]) -> None:
        """Feeds that were left alone because nobody subscribed any more are wanted as they were."""
        alone = _find_existing(self._connection, implicit_feed.c.feed_id, {row["feed_id"] for row in rows})
        for row in rows:
            if row["feed_id"] in alone:
                id, how = row["feed_id"], {"weight": row["weight"], "paused": row["paused"]}
                self._connection.execute(delete(implicit_feed).where(implicit_feed.c.feed_id == id))
                self._connection.execute(update(feed).where(feed.c.id == id).values(how))

    def _restore_query_tags(self, rows: list[Row]) -> None:
        for row in rows:
            mine = (
                query_subscription.c.user_id == row["user_id"],
                query_subscription.c.query_id == row["query_id"],
            )
            now = self._connection.execute(select(query_subscription.c.tags).where(*mine)).first()
            without = tuple(tag for tag in subscriptions.read_query_tags(row["tags"]) if tag != row["tag"])
            if now is not None and subscriptions.read_query_tags(now.tags) == without:
                self._connection.execute(update(query_subscription).where(*mine).values(tags=row["tags"]))
            elif now is not None:  # it has other tags since: this one more
                subscriptions.change_tags(self._connection, row["user_id"], query_id=row["query_id"], add=[row["tag"]])

    def _restore_unread_marks(self, rows: list[Row]) -> None:
        self._unread += [row for row in rows if row["item_id"] in self._new]

    def _append_missed_entries(self) -> None:
        """Entries of the outbox that the query processor had not met and has passed by meanwhile, without items."""
        passed = outbox.read_checkpoint(self._connection, "queries")
        missed = [row for row in self._unread if row["position"] <= passed]
        if missed:
            outbox.lock_outbox(self._connection)
        for row in missed:
            outbox.append_entries(self._connection, row["kind"], [(row["item_id"], row["at"])])
