"""Lists the feeds and query feeds that make up a reader's stream."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, select

from headwater.store.database.dialect import fetch_rows
from headwater.store.readers.stream_values import Stream
from headwater.store.readers.subscriptions import read_query_tags
from headwater.store.schema.reader_tables import subscription, subscription_tag


def select_subscribed_feeds(user_id: int, which: Stream) -> Select[Any]:
    """Build the query for the feeds of a stream."""
    if which.tag is not None:
        tagged = (subscription_tag.c.user_id == user_id, subscription_tag.c.tag == which.tag)
        return select(subscription_tag.c.feed_id).where(*tagged)
    mine = select(subscription.c.feed_id).where(subscription.c.user_id == user_id)
    return mine if which.feed is None else mine.where(subscription.c.feed_id == which.feed)


def list_stream_feed_ids(connection: Connection, user_id: int, which: Stream) -> list[int]:
    if which.feed is not None:
        return [which.feed]
    return list(connection.execute(select_subscribed_feeds(user_id, which)).scalars())


def list_stream_query_ids(connection: Connection, user_id: int, which: Stream) -> list[int]:
    """The query feeds of a stream that is more than one feed."""
    every = fetch_rows(connection, _QUERY_FEEDS, {"user": user_id})
    return [id for id, tags in every if which.tag is None or which.tag in read_query_tags(tags)]


_QUERY_FEEDS = "SELECT query_id, tags FROM query_subscription WHERE user_id = :user"
