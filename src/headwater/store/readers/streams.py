"""Lists the positions of a reader's stream: items of feeds, and hits of query feeds."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import replace
from itertools import islice

from sqlalchemy import Connection

from headwater.store.database.dialect import fetch_rows
from headwater.store.readers.stream_items import StreamPosition, StreamSelection, WantedColumns
from headwater.store.readers.stream_order import StreamOrder, state_condition
from headwater.store.readers.stream_sources import list_stream_query_ids
from headwater.store.readers.stream_values import HIT_ID_OFFSET, Stream, StreamQuery
from headwater.store.readers.subscriptions import require_query_subscription, require_subscription

# 0 unread, 1 read: the mark, else the positions in the query feed and in the feed
_HIT_STATE = (
    "COALESCE(m.state, CASE WHEN h.id > q.read_up_to AND h.item_id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END)"
)
_HIT_MARKS = (
    "LEFT JOIN subscription s ON s.user_id = :user AND s.feed_id = h.feed_id "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = h.feed_id AND m.item_id = h.item_id"
)


def list_stream_positions(
    connection: Connection,
    user_id: int,
    which: Stream,
    part: StreamQuery,
    wanted: WantedColumns | None = None,
) -> list[StreamPosition]:
    """List the positions (time, id) of a part of a stream, in order; one more than the limit if there are more.

    NotFound if the reader does not subscribe to the feed or query feed. Some positions may lack the wanted columns:
    `has_columns` tells.
    """
    part = replace(part, limit=max(1, part.limit))
    found = list_feed_positions(connection, user_id, which, part, wanted)
    asked = [which.query] if which.query is not None else []
    if part.queries and which.query is None and which.feed is None:
        asked = list_stream_query_ids(connection, user_id, which)
    return merge_query_positions(connection, user_id, part, found, asked)


def list_feed_positions(
    connection: Connection,
    user_id: int,
    which: Stream,
    part: StreamQuery,
    wanted: WantedColumns | None = None,
) -> list[StreamPosition]:
    """`places` without those in query feeds."""
    if which.query is not None:
        require_query_subscription(connection, user_id, which.query)
        return []
    if which.feed is not None:
        require_subscription(connection, user_id, which.feed)
    return StreamSelection(connection, user_id, which, part, wanted).list_positions()


def merge_query_positions(
    connection: Connection, user_id: int, part: StreamQuery, found: list[StreamPosition], query_ids: Collection[int]
) -> list[StreamPosition]:
    """`places`, of those of feeds and of these query feeds."""
    if not query_ids:
        return found[: part.limit + 1]
    every = (found, *(_list_hit_positions(connection, user_id, id, part) for id in query_ids))
    return list(islice(heapq.merge(*every, reverse=not part.oldest_first), part.limit + 1))


def _list_hit_positions(connection: Connection, user_id: int, query_id: int, part: StreamQuery) -> list[StreamPosition]:
    """List the positions of a query feed's hits; they have ids of their own."""
    key = "h.arrived" if part.by_arrival else "h.published"
    order = StreamOrder(part, key, "h.id", "h.arrived", shift=HIT_ID_OFFSET)
    state = state_condition(part, _HIT_STATE)
    if part.starred:
        state += " AND m.starred IS NOT NULL"
    sql = (
        f"SELECT {key} AS k, h.id AS id FROM query_subscription q CROSS JOIN hit h {_HIT_MARKS} "
        f"WHERE q.user_id = :user AND q.query_id = :query AND h.query_id = :query AND h.current"
        f"{state}{order.conditions} {order.by} LIMIT :wanted"
    )
    found = fetch_rows(connection, sql, order.values | {"user": user_id, "query": query_id})
    return [(row[0], HIT_ID_OFFSET + row[1]) for row in found]
