"""Moves objects to the trash: saves the rows that an object is made of in the transaction that deletes them.

Each function returns the number of the trash entry, for `restore_from_trash`. The functions of each noun do the
deleting (`delete_feed`, `delete_query_feeds`, …); this module only lists the rows to save, referenced ones first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Table, select

from headwater.store.content import feeds, outbox
from headwater.store.database.dialect import chunks
from headwater.store.maintenance.trash_rows import (
    TRASHED_API_TOKEN,
    TRASHED_FEED,
    TRASHED_MERGE,
    TRASHED_QUERY_FEED,
    TRASHED_SUBSCRIPTION,
    TRASHED_TAG,
    TRASHED_USER,
    Remover,
    Row,
    TrashWriter,
)
from headwater.store.queries import query_feeds
from headwater.store.readers import accounts, subscriptions
from headwater.store.schema.feed_tables import feed, feed_state, feed_tag, feed_window, refresh
from headwater.store.schema.item_tables import article_feed, article_query, item, seen_identity
from headwater.store.schema.item_tables import outbox as outbox_table
from headwater.store.schema.query_tables import (
    hit,
    implicit_feed,
    item_version,
    offered_count,
    origin,
    query_address,
    query_feed,
    selectivity,
)
from headwater.store.schema.reader_tables import (
    api_token,
    mark,
    mark_undo,
    query_subscription,
    subscription,
    subscription_tag,
    user,
)
from headwater.store.schema.storable_text import replace_unstorable

CHUNK = 500
# What is kept beside rows: feeds that somebody wanted, tags of query feeds, the query feeds that others read, and who
# and what joined the feed that another was merged into.
WANTED, QUERY_TAGS, READS, JOINED = "feeds wanted", "tags of query feeds", "query feeds read", "joined"
_FEED_ROWS: tuple[Table, ...] = (
    *(feed_state, feed_window, feed_tag, implicit_feed, article_feed, offered_count, query_address, selectivity),
    *(subscription, subscription_tag, item, seen_identity, refresh, hit, mark),
)
_QUERY_ROWS: tuple[Table, ...] = (query_address, selectivity, article_query, query_subscription, origin, hit)
# Not the sessions: who comes back signs in again.
_USER_ROWS: tuple[Table, ...] = (api_token, subscription, subscription_tag, query_subscription, mark, mark_undo)


def move_feed_to_trash(connection: Connection, feed_id: int, by: Remover) -> int:
    """A feed and everything that came of it, for everybody. Our subscription at its hub is not kept: it is ended."""
    keep = _trash_feed_rows(connection, TRASHED_FEED, feed_id, by)
    feeds.delete_feed(connection, feed_id)
    return keep.id


def merge_feeds_with_undo(connection: Connection, into: int, gone: int, by: Remover) -> tuple[int, int]:
    """Two feeds become one: how many items moved, and the number by which the second becomes itself again."""
    keep = _trash_feed_rows(connection, TRASHED_MERGE, gone, by)
    for table in (
        seen_identity,
        subscription,
        subscription_tag,
        feed_tag,
    ):  # what comes to the first and must leave it again
        theirs, ours = (
            {tuple(getattr(row, name) for name in _JOINED[table.name]) for row in connection.execute(query)}
            for query in (select(table).where(table.c.feed_id == id) for id in (gone, into))
        )
        rows = [dict(zip(_JOINED[table.name], one, strict=True)) for one in sorted(theirs - ours)]
        keep.add_note(JOINED, [{"table": str(table.name), "feed_id": into} | row for row in rows])
    return feeds.merge_feeds(connection, into, gone), keep.id


_JOINED = {
    seen_identity.name: ("key",),
    subscription.name: ("user_id",),
    subscription_tag.name: ("user_id", "tag"),
    feed_tag.name: ("tag",),
}


def _trash_feed_rows(connection: Connection, kind: str, feed_id: int, by: Remover) -> TrashWriter:
    found = feeds.find_feed(connection, feed_id)
    keep = TrashWriter(connection, by, kind, found.title or found.url)
    keep.add_rows(feed, feed.c.id == feed_id)
    for table in _FEED_ROWS:
        keep.add_rows(table, table.c.feed_id == feed_id)
    shown = connection.execute(select(hit.c.item_id).where(hit.c.feed_id == feed_id).distinct()).scalars()
    keep.add_rows_among(item_version.c.item_id, shown.all())
    theirs = select(item.c.id).where(item.c.feed_id == feed_id)
    matched = outbox.read_checkpoint(connection, "queries")  # what has not met the queries yet shall still do so
    keep.add_rows(outbox_table, outbox_table.c.position > matched, outbox_table.c.item_id.in_(theirs))
    return keep


def move_subscription_to_trash(connection: Connection, user_id: int, feed_id: int, by: Remover) -> int:
    """One person's subscription to a feed; NotFound if there is none."""
    subscriptions.require_subscription(connection, user_id, feed_id)
    (mine,) = subscriptions.find_subscriptions(connection, user_id, [feed_id], ())
    keep = TrashWriter(connection, by, TRASHED_SUBSCRIPTION, mine.title)
    for table in (subscription, subscription_tag):
        keep.add_rows(table, table.c.user_id == user_id, table.c.feed_id == feed_id)
    keep.add_rows(mark, mark.c.user_id == user_id, mark.c.feed_id == feed_id, mark.c.starred.is_(None))
    keep.add_note(WANTED, _read_wanted_state(connection, [feed_id]))
    subscriptions.unsubscribe_from_feed(connection, user_id, feed_id)
    return keep.id


def move_query_subscription_to_trash(connection: Connection, user_id: int, query_id: int, by: Remover) -> int:
    name = query_feeds.find_query_names(connection, [query_id]).get(query_id, "")
    keep = TrashWriter(connection, by, TRASHED_SUBSCRIPTION, name)
    mine = (query_subscription.c.user_id == user_id, query_subscription.c.query_id == query_id)
    keep.add_rows(query_subscription, *mine)
    subscriptions.unsubscribe_from_query_feed(connection, user_id, query_id)
    return keep.id


def move_query_feeds_to_trash(connection: Connection, ids: Sequence[int], by: Remover) -> int:
    """Query feeds and all that came of them, together; the caller has looked at who reads them."""
    gone = query_feeds.find_query_feeds(connection, ids)
    keep = TrashWriter(connection, by, TRASHED_QUERY_FEED, ", ".join(query.name for query in gone))
    keep.add_rows_among(query_feed.c.id, ids)
    for table in _QUERY_ROWS:
        keep.add_rows_among(table.c.query_id, ids)
    shown: set[int] = set()
    for chunk in chunks(ids, CHUNK):
        shown.update(connection.execute(select(hit.c.item_id).where(hit.c.query_id.in_(chunk)).distinct()).scalars())
    keep.add_rows_among(item_version.c.item_id, shown)
    names = {query.name.casefold() for query in gone}
    read = set().union(*(query_feeds.list_names_read(query) for query in gone)) - names
    there = connection.execute(select(query_feed.c.name).where(query_feed.c.key.in_(sorted(read)))).scalars()
    keep.add_note(READS, [{"name": name} for name in there])
    query_feeds.delete_query_feeds(connection, ids)
    return keep.id


def move_user_to_trash(connection: Connection, user_id: int, by: Remover) -> int:
    """An account and all that is only theirs; sessions end for good."""
    keep = TrashWriter(connection, by, TRASHED_USER, accounts.find_user(connection, user_id).name)
    keep.add_rows(user, user.c.id == user_id)
    for table in _USER_ROWS:
        keep.add_rows(table, table.c.user_id == user_id)
    read = connection.execute(select(subscription.c.feed_id).where(subscription.c.user_id == user_id)).scalars()
    keep.add_note(WANTED, _read_wanted_state(connection, read.all()))
    subscriptions.release_unwanted_feeds(connection, accounts.delete_user(connection, user_id))
    return keep.id


def move_api_token_to_trash(connection: Connection, user_id: int, token_id: int, by: Remover) -> int:
    """A token of the API; NotFound also where it is somebody else's."""
    mine = (api_token.c.id == token_id, api_token.c.user_id == user_id)
    label = connection.execute(select(api_token.c.label).where(*mine)).scalar()
    keep = TrashWriter(connection, by, TRASHED_API_TOKEN, label or f"number {token_id}")
    keep.add_rows(api_token, *mine)
    accounts.delete_api_token(connection, user_id, token_id)
    return keep.id


def move_tag_to_trash(connection: Connection, user_id: int, tag: str, by: Remover) -> int:
    """A tag of one person, off everything that has it."""
    tag = replace_unstorable(tag)
    keep = TrashWriter(connection, by, TRASHED_TAG, tag)
    mine = (subscription_tag.c.user_id == user_id, subscription_tag.c.tag == tag)
    keep.add_rows(subscription_tag, *mine)
    if accounts.find_owner(connection).id == user_id:
        tagged = select(subscription_tag.c.feed_id).where(*mine)
        keep.add_rows(feed_tag, feed_tag.c.tag == tag, feed_tag.c.feed_id.in_(tagged))
    rows = connection.execute(select(query_subscription).where(query_subscription.c.user_id == user_id)).all()
    had = [row for row in rows if tag in subscriptions.read_query_tags(row.tags)]
    told = [{"user_id": user_id, "query_id": row.query_id, "tags": row.tags, "tag": tag} for row in had]
    keep.add_note(QUERY_TAGS, told)
    subscriptions.rename_subscription_tag(connection, user_id, tag, None)
    return keep.id


def _read_wanted_state(connection: Connection, feed_ids: Collection[int]) -> list[Row]:
    """Read weight and pause of these feeds; feeds that only queries wanted before are left out."""
    found: list[Row] = []
    for chunk in chunks(sorted(feed_ids), CHUNK):
        query = select(feed.c.id, feed.c.weight, feed.c.paused).where(feed.c.id.in_(chunk))
        rows = connection.execute(query.where(feed.c.id.not_in(select(implicit_feed.c.feed_id))))
        found += [{"feed_id": row.id, "weight": row.weight, "paused": row.paused} for row in rows]
    return found
