"""Counts unread items by feed, query feed and tag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from sqlalchemy import Connection

from headwater.store.database.dialect import fetch_rows
from headwater.store.readers.stream_positions import find_read_line
from headwater.store.readers.subscriptions import read_query_tags


class UnreadCount(msgspec.Struct, frozen=True):
    """The number of unread items, and when the newest of them arrived."""

    count: int
    newest: float


@dataclass(frozen=True, slots=True)
class UnreadCounts:
    """Unread items by feed, query feed and tag; those without any are left out. `total` counts each item once."""

    feeds: Mapping[int, UnreadCount]
    queries: Mapping[int, UnreadCount]
    tags: Mapping[str, UnreadCount]
    total: int = 0
    starred: int = 0


# Unread items of a feed are those behind the position, less those marked read there, and those marked unread before it.
_AFTER_POSITION = (
    "SELECT s.feed_id, COUNT(*), MAX(i.first_seen) FROM subscription s CROSS JOIN item i "
    "WHERE s.user_id = :user AND s.read_up_to < :line AND i.feed_id = s.feed_id AND i.id > s.read_up_to "
    "GROUP BY s.feed_id"
)
_AFTER_LINE = {
    dialect: (
        f"SELECT s.feed_id, COUNT(*), MAX(i.first_seen) FROM item i {by_id} CROSS JOIN subscription s "
        "WHERE i.id > :line AND s.user_id = :user AND s.feed_id = i.feed_id AND s.read_up_to >= :line "
        "AND i.id > s.read_up_to GROUP BY s.feed_id"
    )
    for dialect, by_id in (("sqlite", "NOT INDEXED"), ("postgresql", ""))
}
_READ_AFTER_POSITION = (
    "SELECT s.feed_id, -COUNT(*), CAST(NULL AS double precision) FROM subscription s CROSS JOIN mark m "
    "WHERE s.user_id = :user AND m.user_id = :user AND m.feed_id = s.feed_id AND m.item_id > s.read_up_to "
    "AND m.state = 1 GROUP BY s.feed_id"
)
_KEPT_UNREAD = (
    "SELECT m.feed_id, COUNT(*), MAX(m.arrived) FROM mark m CROSS JOIN subscription s "
    "WHERE m.user_id = :user AND m.state = 0 AND s.user_id = :user AND s.feed_id = m.feed_id "
    "AND m.item_id <= s.read_up_to GROUP BY m.feed_id"
)
# Items marked read come first: if everything behind a position is read, the newest unread item is one marked unread.
_MARKED_AND_KEPT = f"{_READ_AFTER_POSITION} UNION ALL {_KEPT_UNREAD}"
_STARRED_COUNT = "(SELECT COUNT(*) FROM mark WHERE user_id = :user AND starred IS NOT NULL)"
_UNREAD_HITS = (
    "SELECT h.query_id, COUNT(*), MAX(h.arrived) FROM query_subscription q CROSS JOIN hit h "
    "LEFT JOIN subscription s ON s.user_id = :user AND s.feed_id = h.feed_id "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = h.feed_id AND m.item_id = h.item_id "
    "WHERE q.user_id = :user AND h.query_id = q.query_id AND h.id > q.read_up_to AND h.current "
    "AND (m.state = 0 OR (m.state IS NULL AND h.item_id > COALESCE(s.read_up_to, 0))) GROUP BY h.query_id"
)
_HITS_KEPT_UNREAD = (
    "SELECT h.query_id, COUNT(*), MAX(h.arrived) FROM mark m CROSS JOIN hit h CROSS JOIN query_subscription q "
    "WHERE m.user_id = :user AND m.state = 0 AND h.item_id = m.item_id AND h.current "
    "AND q.user_id = :user AND q.query_id = h.query_id AND h.id <= q.read_up_to GROUP BY h.query_id"
)
_QUERY_TAGS = "SELECT tags, CAST(NULL AS text), query_id FROM query_subscription WHERE user_id = :user"
# The feeds of a tag come as one JSON value, because building 100,000 rows would take longest.
_TAGS = {
    dialect: (
        f"SELECT tag, {feeds}, CAST(NULL AS bigint) FROM subscription_tag WHERE user_id = :user GROUP BY tag "
        f"UNION ALL {_QUERY_TAGS}"
    )
    for dialect, feeds in (("sqlite", "json_group_array(feed_id)"), ("postgresql", "CAST(json_agg(feed_id) AS text)"))
}
_NO_UNREAD = UnreadCount(0, 0.0)


def count_unread(connection: Connection, user_id: int) -> UnreadCounts:
    """Count the unread items of everything that a reader reads."""
    user = {"user": user_id}
    feeds, stars = _count_by_feed(connection, user_id)
    tags = fetch_rows(connection, _TAGS[connection.dialect.name] if feeds else _QUERY_TAGS, user)
    queries: dict[int, UnreadCount] = {}
    for statement in (_UNREAD_HITS, _HITS_KEPT_UNREAD) if any(query is not None for _, _, query in tags) else ():
        for id, number, last in fetch_rows(connection, statement, user):
            before = queries.get(id, _NO_UNREAD)
            queries[id] = UnreadCount(before.count + number, max(before.newest, last))
    return UnreadCounts(
        feeds,
        queries,
        _count_by_tag(feeds, queries, tags),
        sum(one.count for one in feeds.values()),
        stars,
    )


def _count_by_feed(connection: Connection, user_id: int) -> tuple[dict[int, UnreadCount], int]:
    """Count unread items by feed, and starred items."""
    line, _, stars = find_read_line(connection, user_id, _STARRED_COUNT)
    given = {"user": user_id, "line": line.at}
    behind = list(fetch_rows(connection, _AFTER_POSITION, given)) if line.far else []
    if line.beyond:
        behind += fetch_rows(connection, _AFTER_LINE[connection.dialect.name], given)
    feeds = {id: UnreadCount(number, newest) for id, number, newest in behind}
    for id, number, newest in fetch_rows(connection, _MARKED_AND_KEPT if behind else _KEPT_UNREAD, given):
        before = feeds.get(id, _NO_UNREAD)
        left = before.count + number
        if left > 0:
            feeds[id] = UnreadCount(left, before.newest if newest is None else max(newest, before.newest))
        else:  # below 0 if items arrived and were read between the two statements
            feeds.pop(id, None)
    return feeds, stars


def _count_by_tag(
    feeds: dict[int, UnreadCount], queries: dict[int, UnreadCount], tags: Iterable[Any]
) -> dict[str, UnreadCount]:
    """Add up the counts by tag. A row of `tags` is a tag and its feeds, or the tags of a query feed."""
    found: dict[str, list[UnreadCount]] = {}
    for stored_tags, ids, query in tags:
        if query is None:
            some = [one for id in orjson.loads(ids) if (one := feeds.get(id)) is not None]
            if some:
                found.setdefault(stored_tags, []).extend(some)
        elif query in queries:
            for tag in read_query_tags(stored_tags):
                found.setdefault(tag, []).append(queries[query])
    return {
        tag: UnreadCount(sum([one.count for one in each]), max([one.newest for one in each]))
        for tag, each in found.items()
    }
