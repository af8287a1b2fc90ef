"""Removing what can be taken back: the rows that a thing is made of are kept, in the transaction that deletes them.

Each function answers the number by which `taking_back` brings it back. What is deleted is decided where it always was
(`feeds.remove`, `queries.drop`, …); here stands only what has to be kept for it, what others refer to first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Table, select

from headwater.store import accounts, feeds, merge, outbox, queries, subscribing
from headwater.store.clean import clean
from headwater.store.kept_rows import Keeper, Row
from headwater.store.people import FEED, MERGED, QUERY, SUBSCRIPTION, TAG, TOKEN, USER, Remover
from headwater.store.people_tables import (
    api_token,
    mark,
    query_subscription,
    subscribed,
    subscribed_tag,
    undo,
    user,
)
from headwater.store.sql import chunks
from headwater.store.tables import (
    article_feed,
    article_query,
    edition,
    feed,
    feed_tag,
    feed_window,
    hit,
    implicit_feed,
    item,
    known,
    offered,
    published,
    query_address,
    query_feed,
    query_source,
    refresh,
    seen,
)
from headwater.store.tables import outbox as outbox_table

CHUNK = 500
# What is kept beside rows: feeds that somebody wanted, tags of query feeds, the query feeds that others read, and who
# and what joined the feed that another was merged into.
WANTED, QUERY_TAGS, READS, JOINED = "feeds wanted", "tags of query feeds", "query feeds read", "joined"
_OF_FEED: tuple[Table, ...] = (
    *(known, feed_window, feed_tag, implicit_feed, article_feed, offered, query_address, query_source),
    *(subscribed, subscribed_tag, item, seen, refresh, hit, mark),
)
_OF_QUERY: tuple[Table, ...] = (query_address, query_source, article_query, query_subscription, published, hit)
# Not the sessions: who comes back signs in again.
_OF_USER: tuple[Table, ...] = (api_token, subscribed, subscribed_tag, query_subscription, mark, undo)


def remove_feed(connection: Connection, feed_id: int, by: Remover) -> int:
    """A feed and everything that came of it, for everybody. Our subscription at its hub is not kept: it is ended."""
    keep = _keep_feed(connection, FEED, feed_id, by)
    feeds.remove(connection, feed_id)
    return keep.id


def merge_feeds(connection: Connection, into: int, gone: int, by: Remover) -> tuple[int, int]:
    """Two feeds become one: how many items moved, and the number by which the second becomes itself again."""
    keep = _keep_feed(connection, MERGED, gone, by)
    for table in (seen, subscribed, subscribed_tag, feed_tag):  # what comes to the first and must leave it again
        theirs, ours = (
            {tuple(getattr(row, name) for name in _JOINED[table.name]) for row in connection.execute(query)}
            for query in (select(table).where(table.c.feed_id == id) for id in (gone, into))
        )
        rows = [dict(zip(_JOINED[table.name], one, strict=True)) for one in sorted(theirs - ours)]
        keep.note(JOINED, [{"table": str(table.name), "feed_id": into} | row for row in rows])
    return merge.merge(connection, into, gone), keep.id


_JOINED = {
    seen.name: ("key",),
    subscribed.name: ("user_id",),
    subscribed_tag.name: ("user_id", "tag"),
    feed_tag.name: ("tag",),
}


def _keep_feed(connection: Connection, kind: str, feed_id: int, by: Remover) -> Keeper:
    found = feeds.find(connection, feed_id)
    keep = Keeper(connection, by, kind, found.title or found.url)
    keep.rows(feed, feed.c.id == feed_id)
    for table in _OF_FEED:
        keep.rows(table, table.c.feed_id == feed_id)
    shown = connection.execute(select(hit.c.item_id).where(hit.c.feed_id == feed_id).distinct()).scalars()
    keep.among(edition.c.item_id, shown.all())
    theirs = select(item.c.id).where(item.c.feed_id == feed_id)
    matched = outbox.read_checkpoint(connection, "queries")  # what has not met the queries yet shall still do so
    keep.rows(outbox_table, outbox_table.c.position > matched, outbox_table.c.item_id.in_(theirs))
    return keep


def unsubscribe(connection: Connection, user_id: int, feed_id: int, by: Remover) -> int:
    """One person's subscription to a feed; NotFound if there is none."""
    subscribing.require(connection, user_id, feed_id)
    (mine,) = subscribing.some(connection, user_id, [feed_id], ())
    keep = Keeper(connection, by, SUBSCRIPTION, mine.title)
    for table in (subscribed, subscribed_tag):
        keep.rows(table, table.c.user_id == user_id, table.c.feed_id == feed_id)
    keep.rows(mark, mark.c.user_id == user_id, mark.c.feed_id == feed_id, mark.c.starred.is_(None))
    keep.note(WANTED, _wanted(connection, [feed_id]))
    subscribing.unsubscribe(connection, user_id, feed_id)
    return keep.id


def unsubscribe_query(connection: Connection, user_id: int, query_id: int, by: Remover) -> int:
    name = queries.names(connection, [query_id]).get(query_id, "")
    keep = Keeper(connection, by, SUBSCRIPTION, name)
    mine = (query_subscription.c.user_id == user_id, query_subscription.c.query_id == query_id)
    keep.rows(query_subscription, *mine)
    subscribing.unsubscribe_query(connection, user_id, query_id)
    return keep.id


def drop_queries(connection: Connection, ids: Sequence[int], by: Remover) -> int:
    """Query feeds and all that came of them, together; the caller has looked at who reads them."""
    gone = queries.by_ids(connection, ids)
    keep = Keeper(connection, by, QUERY, ", ".join(query.name for query in gone))
    keep.among(query_feed.c.id, ids)
    for table in _OF_QUERY:
        keep.among(table.c.query_id, ids)
    shown: set[int] = set()
    for chunk in chunks(ids, CHUNK):
        shown.update(connection.execute(select(hit.c.item_id).where(hit.c.query_id.in_(chunk)).distinct()).scalars())
    keep.among(edition.c.item_id, shown)
    names = {query.name.casefold() for query in gone}
    read = set().union(*(queries.names_read(query) for query in gone)) - names
    there = connection.execute(select(query_feed.c.name).where(query_feed.c.key.in_(sorted(read)))).scalars()
    keep.note(READS, [{"name": name} for name in there])
    queries.drop(connection, ids)
    return keep.id


def remove_user(connection: Connection, user_id: int, by: Remover) -> int:
    """An account and all that is only theirs; sessions end for good."""
    keep = Keeper(connection, by, USER, accounts.find(connection, user_id).name)
    keep.rows(user, user.c.id == user_id)
    for table in _OF_USER:
        keep.rows(table, table.c.user_id == user_id)
    read = connection.execute(select(subscribed.c.feed_id).where(subscribed.c.user_id == user_id)).scalars()
    keep.note(WANTED, _wanted(connection, read.all()))
    subscribing.leave_alone(connection, accounts.remove(connection, user_id))
    return keep.id


def revoke_token(connection: Connection, user_id: int, token_id: int, by: Remover) -> int:
    """A token of the API; NotFound also where it is somebody else's."""
    mine = (api_token.c.id == token_id, api_token.c.user_id == user_id)
    label = connection.execute(select(api_token.c.label).where(*mine)).scalar()
    keep = Keeper(connection, by, TOKEN, label or f"number {token_id}")
    keep.rows(api_token, *mine)
    accounts.revoke_token(connection, user_id, token_id)
    return keep.id


def remove_tag(connection: Connection, user_id: int, tag: str, by: Remover) -> int:
    """A tag of one person, off everything that has it."""
    tag = clean(tag)
    keep = Keeper(connection, by, TAG, tag)
    mine = (subscribed_tag.c.user_id == user_id, subscribed_tag.c.tag == tag)
    keep.rows(subscribed_tag, *mine)
    if accounts.owner(connection).id == user_id:
        tagged = select(subscribed_tag.c.feed_id).where(*mine)
        keep.rows(feed_tag, feed_tag.c.tag == tag, feed_tag.c.feed_id.in_(tagged))
    rows = connection.execute(select(query_subscription).where(query_subscription.c.user_id == user_id)).all()
    had = [row for row in rows if tag in subscribing.query_tags(row.tags)]
    told = [{"user_id": user_id, "query_id": row.query_id, "tags": row.tags, "tag": tag} for row in had]
    keep.note(QUERY_TAGS, told)
    subscribing.rename_tag(connection, user_id, tag, None)
    return keep.id


def _wanted(connection: Connection, feed_ids: Collection[int]) -> list[Row]:
    """How these feeds are wanted now; those that nobody but queries wanted before are left out."""
    found: list[Row] = []
    for chunk in chunks(sorted(feed_ids), CHUNK):
        query = select(feed.c.id, feed.c.weight, feed.c.paused).where(feed.c.id.in_(chunk))
        rows = connection.execute(query.where(feed.c.id.not_in(select(implicit_feed.c.feed_id))))
        found += [{"feed_id": row.id, "weight": row.weight, "paused": row.paused} for row in rows]
    return found
