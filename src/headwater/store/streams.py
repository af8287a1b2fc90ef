"""What stands in a person's stream, and in which order: items of feeds (`stream_items`) and what query feeds show."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from itertools import islice

from sqlalchemy import Connection

from headwater.store.habits import Habits
from headwater.store.people import HIT, Part, Stream
from headwater.store.sql import rows
from headwater.store.stream_items import Place, Question, Wanted
from headwater.store.stream_order import Order, state_wanted
from headwater.store.stream_sources import query_ids
from headwater.store.subscribing import require, require_query

# 0 unread, 1 read: the mark, else the positions in the query feed and in the feed
_STATE = "COALESCE(m.state, CASE WHEN h.id > q.read_up_to AND h.item_id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END)"
_MARKS = (
    "LEFT JOIN subscribed s ON s.user_id = :user AND s.feed_id = h.feed_id "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = h.feed_id AND m.item_id = h.item_id"
)


def places(
    connection: Connection,
    user_id: int,
    which: Stream,
    part: Part,
    wanted: Wanted | None = None,
    habits: Habits | None = None,
) -> list[Place]:
    """Where to look, in order; one more than the limit, where there are more. NotFound for what is not subscribed.

    Not all of them have the columns wanted: `has_columns` tells. `habits` is for the caller to keep.
    """
    found = of_feeds(connection, user_id, which, part, wanted, habits)
    asked = [which.query] if which.query is not None else []
    if part.queries and which.query is None and which.feed is None:
        asked = query_ids(connection, user_id, which)
    return with_queries(connection, user_id, part, found, asked)


def of_feeds(
    connection: Connection,
    user_id: int,
    which: Stream,
    part: Part,
    wanted: Wanted | None = None,
    habits: Habits | None = None,
) -> list[Place]:
    """`places` without those in query feeds."""
    if which.query is not None:
        require_query(connection, user_id, which.query)
        return []
    if which.feed is not None:
        require(connection, user_id, which.feed)
    return Question(connection, user_id, which, part, wanted).answer(Habits() if habits is None else habits)


def with_queries(
    connection: Connection, user_id: int, part: Part, found: list[Place], query_ids: Collection[int]
) -> list[Place]:
    """`places`, of those of feeds and of these query feeds."""
    if not query_ids:
        return found[: part.limit + 1]
    every = (found, *(_hits(connection, user_id, id, part) for id in query_ids))
    return list(islice(heapq.merge(*every, reverse=not part.oldest_first), part.limit + 1))


def _hits(connection: Connection, user_id: int, query_id: int, part: Part) -> list[Place]:
    """What a query feed shows; its places have ids of their own."""
    key = "h.arrived" if part.by_arrival else "h.published"
    order = Order(part, key, "h.id", "h.arrived", shift=HIT)
    state = state_wanted(part, _STATE)
    if part.starred:
        state += " AND m.starred IS NOT NULL"
    sql = (
        f"SELECT {key} AS k, h.id AS id FROM query_subscription q CROSS JOIN hit h {_MARKS} "
        f"WHERE q.user_id = :user AND q.query_id = :query AND h.query_id = :query AND h.current"
        f"{state}{order.conditions} {order.by} LIMIT :wanted"
    )
    found = rows(connection, sql, order.values | {"user": user_id, "query": query_id})
    return [(row[0], HIT + row[1]) for row in found]
