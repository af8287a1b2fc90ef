"""Defines a reader's streams, and which feeds and query feeds make them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select

from headwater.store.readers.subscriptions import read_query_tags
from headwater.store.schema.reader_tables import query_subscription, subscription, subscription_tag

HIT_ID_OFFSET = 1 << 62  # added to the id of a hit, so that items and hits of a stream have different ids


@dataclass(frozen=True, slots=True)
class Stream:
    """A feed, a query feed, everything under a tag, or (nothing given) everything that a reader reads."""

    feed: int | None = None
    query: int | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """A part of a stream. `before` is `StreamPage.next` of the previous page.

    `unread` True lists only unread items, False only read ones. `since` and `until` bound the time of arrival
    (since ≤ arrived < until). `by_arrival` orders by arrival instead of publication. With `queries`, a stream of
    several feeds also lists the hits of its query feeds, each as an entry of its own.
    """

    unread: bool | None = None
    starred: bool = False
    since: float | None = None
    until: float | None = None
    before: tuple[float, int] | None = None
    limit: int = 100
    oldest_first: bool = False
    by_arrival: bool = False
    queries: bool = False


def select_subscribed_feeds(user_id: int, stream: Stream) -> Select[Any]:
    """Build the query for the feeds of a stream."""
    if stream.tag is not None:
        tagged = (subscription_tag.c.user_id == user_id, subscription_tag.c.tag == stream.tag)
        return select(subscription_tag.c.feed_id).where(*tagged)
    mine = select(subscription.c.feed_id).where(subscription.c.user_id == user_id)
    return mine if stream.feed is None else mine.where(subscription.c.feed_id == stream.feed)


def list_stream_feed_ids(connection: Connection, user_id: int, stream: Stream) -> list[int]:
    """List the feeds of a stream; a query feed has none."""
    if stream.query is not None:
        return []
    if stream.feed is not None:
        return [stream.feed]
    return list(connection.execute(select_subscribed_feeds(user_id, stream)).scalars())


def list_stream_query_ids(connection: Connection, user_id: int, stream: Stream) -> list[int]:
    """List the query feeds of a stream; a feed has none."""
    if stream.query is not None:
        return [stream.query]
    if stream.feed is not None:
        return []
    query = select(query_subscription.c.query_id, query_subscription.c.tags)
    rows = connection.execute(query.where(query_subscription.c.user_id == user_id))
    return [id for id, tags in rows if stream.tag is None or stream.tag in read_query_tags(tags)]
