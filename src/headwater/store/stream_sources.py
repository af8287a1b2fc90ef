"""Which feeds and query feeds a person's stream is made of."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, select

from headwater.store.people import Stream
from headwater.store.people_tables import subscribed, subscribed_tag
from headwater.store.sql import rows
from headwater.store.subscribing import query_tags


def subscribed_feeds(user_id: int, which: Stream) -> Select[Any]:
    """What asks for the feeds."""
    if which.tag is not None:
        tagged = (subscribed_tag.c.user_id == user_id, subscribed_tag.c.tag == which.tag)
        return select(subscribed_tag.c.feed_id).where(*tagged)
    mine = select(subscribed.c.feed_id).where(subscribed.c.user_id == user_id)
    return mine if which.feed is None else mine.where(subscribed.c.feed_id == which.feed)


def feed_ids(connection: Connection, user_id: int, which: Stream) -> list[int]:
    if which.feed is not None:
        return [which.feed]
    return list(connection.execute(subscribed_feeds(user_id, which)).scalars())


def query_ids(connection: Connection, user_id: int, which: Stream) -> list[int]:
    """The query feeds of a stream that is more than one feed."""
    every = rows(connection, _QUERY_FEEDS, {"user": user_id})
    return [id for id, tags in every if which.tag is None or which.tag in query_tags(tags)]


_QUERY_FEEDS = "SELECT query_id, tags FROM query_subscription WHERE user_id = :user"
