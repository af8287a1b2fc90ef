"""Items as one person has them: pages of streams, chosen items, unread counts, search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, and_, bindparam, select

from headwater.store import hits
from headwater.store.habits import Habits
from headwater.store.items import ITEM_COLUMNS, item_of
from headwater.store.people import HIT, Counts, Page, Part, Reading, Stream, Unread
from headwater.store.people_tables import mark, query_subscription, subscribed
from headwater.store.positions import line_and
from headwater.store.sql import ByIds, chunks, rows
from headwater.store.stream_items import Wanted, has_columns
from headwater.store.streams import places
from headwater.store.subscribing import query_tags
from headwater.store.tables import hit

CHUNK = 1000
MOST = 10_000  # items of a page, whatever is asked for
_STATE = (mark.c.state, mark.c.starred, subscribed.c.read_up_to)


def stream(connection: Connection, user_id: int, which: Stream, part: Part, habits: Habits) -> Page:
    """A page of a stream, with the items."""
    found = places(connection, user_id, which, part, WANTED, habits)
    shown = found[: part.limit]
    more = (shown[-1][0], shown[-1][1]) if len(found) > part.limit and shown else None
    items = {place[1]: reading_of(place[2:]) for place in shown if has_columns(place)}
    if len(items) < len(shown):
        rest = [place[1] for place in shown if not has_columns(place)]
        items |= {one.id: one for one in load(connection, user_id, rest)}
    return Page(tuple([items[place[1]] for place in shown if place[1] in items]), more)


def load(connection: Connection, user_id: int, ids: Sequence[int]) -> list[Reading]:
    """These items as the person has them, in the order given, whoever's they are: callers know that they may be."""
    found, _ = _items(connection, user_id, ids)
    found |= _hits(connection, user_id, ids)
    return [found[id] for id in dict.fromkeys(ids) if id in found]


def _items(connection: Connection, user_id: int, ids: Iterable[int]) -> tuple[dict[int, Reading], list[int]]:
    """Those of these that are items, by id; and which of them are of feeds that the person does not subscribe to."""
    found: dict[int, Reading] = {}
    others: list[int] = []
    for chunk in chunks((id for id in ids if id < HIT), CHUNK):
        for row in _ITEMS.run(connection, user_id, chunk):
            found[row[0]] = reading_of(row)
            if row[-1] is None:
                others.append(row[0])
    return found, others


def reading_of(row: Sequence[Any]) -> Reading:
    """Of a row with the columns of `WANTED`."""
    state, starred, read_up_to = row[-3:]
    item = item_of(row)
    read = row[0] <= (read_up_to or 0) if state is None else state == 1
    return Reading(item, read, starred is not None, None, None, item.first_seen)


def _hits(connection: Connection, user_id: int, ids: Iterable[int]) -> dict[int, Reading]:
    """Those of these that are places in query feeds."""
    found: dict[int, Reading] = {}
    for chunk in chunks((id - HIT for id in ids if id >= HIT), CHUNK):
        states = {row.id: row for row in connection.execute(_HITS, {"user": user_id, "ids": chunk})}
        for one in hits.by_ids(connection, chunk):
            state = states.get(one.id)
            starred = state is not None and state.starred is not None
            found[HIT + one.id] = Reading(one.item, _hit_read(state), starred, one.query_id, one.id, one.arrived)
    return found


_ROW = f"{', '.join(f'i.{name}' for name in ITEM_COLUMNS)}, m.state, m.starred, s.read_up_to"
WANTED = Wanted(_ROW)
_ITEMS = ByIds(
    f"SELECT {_ROW} FROM item i LEFT JOIN subscribed s ON s.user_id = {{user}} AND s.feed_id = i.feed_id "
    "LEFT JOIN mark m ON m.user_id = {user} AND m.feed_id = i.feed_id AND m.item_id = i.id WHERE i.id IN {ids}"
)
_HITS = (
    select(hit.c.id, hit.c.item_id, *_STATE, query_subscription.c.read_up_to.label("query_read_up_to"))
    .select_from(
        hit.outerjoin(
            query_subscription,
            and_(query_subscription.c.user_id == bindparam("user"), query_subscription.c.query_id == hit.c.query_id),
        )
        .outerjoin(subscribed, and_(subscribed.c.user_id == bindparam("user"), subscribed.c.feed_id == hit.c.feed_id))
        .outerjoin(
            mark,
            and_(
                mark.c.user_id == bindparam("user"),
                mark.c.feed_id == hit.c.feed_id,
                mark.c.item_id == hit.c.item_id,
            ),
        )
    )
    .where(hit.c.id.in_(bindparam("ids", expanding=True)))
)


def _hit_read(row: Any) -> bool:
    if row is None:
        return False
    if row.state is not None:
        return bool(row.state == 1)
    return bool(row.id <= (row.query_read_up_to or 0) or row.item_id <= (row.read_up_to or 0))


def chosen(connection: Connection, user_id: int, ids: Iterable[int]) -> list[Reading]:
    """Those of these items that the person may see: of feeds and query feeds subscribed, or starred."""
    every = list(dict.fromkeys(ids))
    found, others = _items(connection, user_id, (id for id in every if id >= 0))
    for id in set(others) - _seen_otherwise(connection, user_id, others):
        del found[id]
    places = [id for id in every if id >= HIT]
    if places:
        found |= _hits(connection, user_id, visible(connection, user_id, places))
    return [found[id] for id in every if id in found]


def visible(connection: Connection, user_id: int, ids: Collection[int]) -> dict[int, tuple[int, int]]:
    """Of these ids, those that the person may see: to which feed and item each belongs."""
    found: dict[int, tuple[int, int]] = {}
    others: list[int] = []
    for chunk in chunks((id for id in ids if 0 <= id < HIT), CHUNK):
        for id, feed_id, mine in _FEED_OF.run(connection, user_id, chunk):
            found[id] = (feed_id, id)
            if mine is None:
                others.append(id)
    for id in set(others) - _seen_otherwise(connection, user_id, others):
        del found[id]
    for chunk in chunks((id - HIT for id in ids if id >= HIT), CHUNK):
        for id, feed_id, item_id in connection.execute(_MY_HITS, {"user": user_id, "ids": chunk}):
            found[HIT + id] = (feed_id, item_id)
    return found


def _seen_otherwise(connection: Connection, user_id: int, others: Iterable[int]) -> set[int]:
    """Of items of feeds that the person does not subscribe to, those shown by a query feed, or starred."""
    seen: set[int] = set()
    for chunk in chunks(others, CHUNK):
        seen.update(connection.execute(_THROUGH_QUERIES, {"user": user_id, "ids": chunk}).scalars())
        seen.update(connection.execute(_STARRED, {"user": user_id, "ids": chunk}).scalars())
    return seen


_FEED_OF = ByIds(
    "SELECT i.id, i.feed_id, s.feed_id FROM item i LEFT JOIN subscribed s ON s.user_id = {user} "
    "AND s.feed_id = i.feed_id WHERE i.id IN {ids}"
)
_MY_QUERIES = select(query_subscription.c.query_id).where(query_subscription.c.user_id == bindparam("user"))
_THROUGH_QUERIES = select(hit.c.item_id).where(
    hit.c.item_id.in_(bindparam("ids", expanding=True)), hit.c.query_id.in_(_MY_QUERIES), hit.c.current
)
_STARRED = select(mark.c.item_id).where(
    mark.c.user_id == bindparam("user"),
    mark.c.item_id.in_(bindparam("ids", expanding=True)),
    mark.c.starred.is_not(None),
)
_MY_HITS = select(hit.c.id, hit.c.feed_id, hit.c.item_id).where(
    hit.c.id.in_(bindparam("ids", expanding=True)), hit.c.query_id.in_(_MY_QUERIES), hit.c.current
)


# counts

# Per feed: items behind the position, less those marked read there, and those marked unread before it.
_BEHIND = (
    "SELECT s.feed_id, COUNT(*), MAX(i.first_seen) FROM subscribed s CROSS JOIN item i "
    "WHERE s.user_id = :user AND s.read_up_to < :line AND i.feed_id = s.feed_id AND i.id > s.read_up_to "
    "GROUP BY s.feed_id"
)
_BEYOND = {
    dialect: (
        f"SELECT s.feed_id, COUNT(*), MAX(i.first_seen) FROM item i {by_id} CROSS JOIN subscribed s "
        "WHERE i.id > :line AND s.user_id = :user AND s.feed_id = i.feed_id AND s.read_up_to >= :line "
        "AND i.id > s.read_up_to GROUP BY s.feed_id"
    )
    for dialect, by_id in (("sqlite", "NOT INDEXED"), ("postgresql", ""))
}
_READ_BEHIND = (
    "SELECT s.feed_id, -COUNT(*), CAST(NULL AS double precision) FROM subscribed s CROSS JOIN mark m "
    "WHERE s.user_id = :user AND m.user_id = :user AND m.feed_id = s.feed_id AND m.item_id > s.read_up_to "
    "AND m.state = 1 GROUP BY s.feed_id"
)
_KEPT_UNREAD = (
    "SELECT m.feed_id, COUNT(*), MAX(m.arrived) FROM mark m CROSS JOIN subscribed s "
    "WHERE m.user_id = :user AND m.state = 0 AND s.user_id = :user AND s.feed_id = m.feed_id "
    "AND m.item_id <= s.read_up_to GROUP BY m.feed_id"
)
# Those marked read first: where all behind a position has been read, the newest is one of those marked unread.
_MARKED = f"{_READ_BEHIND} UNION ALL {_KEPT_UNREAD}"
_NOTHING = Unread(0, 0.0)
_STARS = "SELECT COUNT(*) FROM mark WHERE user_id = :user AND starred IS NOT NULL"
_QUERY_COUNTS = (
    "SELECT h.query_id, COUNT(*), MAX(h.arrived) FROM query_subscription q CROSS JOIN hit h "
    "LEFT JOIN subscribed s ON s.user_id = :user AND s.feed_id = h.feed_id "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = h.feed_id AND m.item_id = h.item_id "
    "WHERE q.user_id = :user AND h.query_id = q.query_id AND h.id > q.read_up_to AND h.current "
    "AND (m.state = 0 OR (m.state IS NULL AND h.item_id > COALESCE(s.read_up_to, 0))) GROUP BY h.query_id"
)
_QUERY_KEPT = (
    "SELECT h.query_id, COUNT(*), MAX(h.arrived) FROM mark m CROSS JOIN hit h CROSS JOIN query_subscription q "
    "WHERE m.user_id = :user AND m.state = 0 AND h.item_id = m.item_id AND h.current "
    "AND q.user_id = :user AND q.query_id = h.query_id AND h.id <= q.read_up_to GROUP BY h.query_id"
)


def counts(connection: Connection, user_id: int) -> Counts:
    """Unread items of everything that a person reads."""
    user = {"user": user_id}
    feeds, stars = _by_feed(connection, user_id)
    tags = rows(connection, _TAGS[connection.dialect.name] if feeds else _TAGS_OF_QUERIES, user)
    queries: dict[int, Unread] = {}
    for statement in (_QUERY_COUNTS, _QUERY_KEPT) if any(query is not None for _, _, query in tags) else ():
        for id, number, last in rows(connection, statement, user):
            before = queries.get(id, Unread(0, 0.0))
            queries[id] = Unread(before.count + number, max(before.newest, last))
    return Counts(
        feeds,
        queries,
        _by_tag(feeds, queries, tags),
        sum(one.count for one in feeds.values()),
        stars,
    )


def _by_feed(connection: Connection, user_id: int) -> tuple[dict[int, Unread], int]:
    """And how many are starred."""
    stars, _, line = line_and(connection, user_id, f"({_STARS})", {})
    given = {"user": user_id, "line": line.at}
    behind = rows(connection, _BEHIND, given) if line.far else []
    if line.beyond:
        behind = [*behind, *rows(connection, _BEYOND[connection.dialect.name], given)]
    feeds = {id: Unread(number, newest) for id, number, newest in behind}
    for id, number, newest in rows(connection, _MARKED if behind else _KEPT_UNREAD, given):
        before = feeds.get(id, _NOTHING)
        left = before.count + number
        if left > 0:
            feeds[id] = Unread(left, before.newest if newest is None else max(newest, before.newest))
        else:  # below nought what arrived, and was read, between the two questions
            feeds.pop(id, None)
    return feeds, stars


def _by_tag(feeds: dict[int, Unread], queries: dict[int, Unread], tags: Iterable[Any]) -> dict[str, Unread]:
    """`tags` are rows: a tag and its feeds, or the tags of a query feed."""
    found: dict[str, list[Unread]] = {}
    for said, ids, query in tags:
        if query is None:
            some = [one for id in orjson.loads(ids) if (one := feeds.get(id)) is not None]
            if some:
                found.setdefault(said, []).extend(some)
        elif query in queries:
            for tag in query_tags(said):
                found.setdefault(tag, []).append(queries[query])
    return {
        tag: Unread(sum([one.count for one in each]), max([one.newest for one in each])) for tag, each in found.items()
    }


# The feeds of a tag as one value: of 100,000 rows, making them takes longest.
_TAGS_OF_QUERIES = "SELECT tags, CAST(NULL AS text), query_id FROM query_subscription WHERE user_id = :user"
_TAGS = {
    dialect: f"SELECT tag, {feeds}, CAST(NULL AS bigint) FROM subscribed_tag WHERE user_id = :user GROUP BY tag "
    f"UNION ALL {_TAGS_OF_QUERIES}"
    for dialect, feeds in (("sqlite", "json_group_array(feed_id)"), ("postgresql", "CAST(json_agg(feed_id) AS text)"))
}
