"""Defines a reader's streams, and finds which items and hits stand in them, in which order.

The wanted items are mostly among the newest, so those are looked at first. If the wanted ones are rare there, unread
items are gathered behind the read position of each feed, and others are taken from the top of each feed. The SQL is
text, because a planner without statistics must not choose the join order: in SQLite, CROSS JOIN means that the left
side comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, select

from headwater.store.database.dialect import chunks, fetch_rows
from headwater.store.readers.subscriptions import read_query_tags, require_query_subscription, require_subscription
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
    rows = connection.execute(_QUERY_TAGS, {"user": user_id})
    return [id for id, tags in rows if stream.tag is None or stream.tag in read_query_tags(tags)]


_QUERY_TAGS = select(query_subscription.c.query_id, query_subscription.c.tags).where(
    query_subscription.c.user_id == bindparam("user")
)


StreamPosition = Any  # a row: the time that orders, the id, and, if `has_columns`, the wanted columns

LOOK_AT_LEAST, LOOK_PER_ITEM = 600, 6  # newest items to look at before looking feed by feed
FEW_FEEDS = 20  # streams of so few feeds are always looked at feed by feed
FEEDS_PER_STATEMENT = 100  # SQLite joins 500 tables at most
NEAR_ITEMS = 1000  # a position is near if at most so many items are newer
ITEMS_PER_FEED = 2  # so many items are looked at in the time that one feed takes
# Without these hints SQLite would walk all marks of the reader, or an index of items that is not in the order of ids.
_MARK_INDEX = {"sqlite": "INDEXED BY mark_{}", "postgresql": ""}
_BY_ID = {"sqlite": "NOT INDEXED", "postgresql": ""}
# 0 unread, 1 read: by the mark, else by the position in the feed, and in a query feed by both positions
_STATE = "COALESCE(m.state, CASE WHEN i.id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END)"
_HIT_STATE = (
    "COALESCE(m.state, CASE WHEN h.id > q.read_up_to AND h.item_id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END)"
)
_MARK = "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = i.feed_id AND m.item_id = i.id"
_HIT_MARKS = (
    "LEFT JOIN subscription s ON s.user_id = :user AND s.feed_id = h.feed_id "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = h.feed_id AND m.item_id = h.item_id"
)
_TAGGED = " AND s.feed_id IN (SELECT feed_id FROM subscription_tag WHERE user_id = :user AND tag = :tag)"


def list_stream_positions(
    connection: Connection, user_id: int, stream: Stream, part: StreamQuery, columns: str | None = None
) -> list[StreamPosition]:
    """List the positions (time, id) of a part of a stream, in order; one more than the limit if there are more.

    Raises NotFound if the reader does not subscribe to the feed or query feed. `columns` are selected along, of the
    item (i), its subscription (s) and its mark (m); a few positions may lack them, as `has_columns` tells.
    """
    part = replace(part, limit=max(1, part.limit))
    if stream.feed is not None:
        require_subscription(connection, user_id, stream.feed)
    if stream.query is not None:
        require_query_subscription(connection, user_id, stream.query)
        found = []
    else:
        items = _StreamItems(connection, user_id, stream, part, columns)
        found = items.list_positions()
        if stream.tag is not None and (labelled := items.list_labelled_positions()):
            found = _merge_positions(found, labelled, part)
    queries = list_stream_query_ids(connection, user_id, stream) if part.queries or stream.query is not None else ()
    if not queries:
        return found[: part.limit + 1]
    every = (found, *(_list_hit_positions(connection, user_id, id, part) for id in queries))
    return list(islice(heapq.merge(*every, key=itemgetter(0, 1), reverse=not part.oldest_first), part.limit + 1))


def _merge_positions(
    some: list[StreamPosition], others: list[StreamPosition], part: StreamQuery
) -> list[StreamPosition]:
    """Merge two lists of positions; an item that is in both comes once."""
    both = {row[1]: row for row in (*others, *some)}
    return sorted(both.values(), key=itemgetter(0, 1), reverse=not part.oldest_first)[: part.limit + 1]


def has_columns(position: StreamPosition) -> bool:
    """Tell whether a position came with the wanted columns."""
    return len(position) > 2


def join_columns(columns: str, sql: str) -> str:
    """Return SQL that adds columns to positions (k, id) selected by `sql`.

    The rows are in no order: sorting rows with whole texts costs as much as finding them.
    """
    return (
        f"SELECT u.k, u.id, {columns} FROM ({sql}) u CROSS JOIN item i "
        f"LEFT JOIN subscription s ON s.user_id = :user AND s.feed_id = i.feed_id {_MARK} WHERE i.id = u.id"
    )


def _list_hit_positions(connection: Connection, user_id: int, query_id: int, part: StreamQuery) -> list[StreamPosition]:
    """List the positions of a query feed's hits, whose ids are shifted by HIT_ID_OFFSET."""
    key = "h.arrived" if part.by_arrival else "h.published"
    order = _StreamOrder(part, key, "h.id", "h.arrived", shift=HIT_ID_OFFSET)
    state = _state_condition(part, _HIT_STATE)
    if part.starred:
        state += " AND m.starred IS NOT NULL"
    sql = (
        f"SELECT {key} AS k, h.id AS id FROM query_subscription q CROSS JOIN hit h {_HIT_MARKS} "
        f"WHERE q.user_id = :user AND q.query_id = :query AND h.query_id = :query AND h.current"
        f"{state}{order.conditions} {order.by} LIMIT :wanted"
    )
    found = fetch_rows(connection, sql, order.values | {"user": user_id, "query": query_id})
    return [(row[0], HIT_ID_OFFSET + row[1]) for row in found]


class _StreamOrder:
    """The SQL that orders and bounds a part of a stream by `key`, then `id`, with its values.

    A part's ids are higher than the stored ones by `shift`.
    """

    def __init__(self, part: StreamQuery, key: str, id: str, arrived: str, shift: int = 0) -> None:
        way, sign = ("ASC", ">") if part.oldest_first else ("DESC", "<")
        self.by = f"ORDER BY {key} {way}, {id} {way}"
        self.outer = f"ORDER BY k {way}, id {way}"
        self.values: dict[str, Any] = {"wanted": part.limit + 1}
        self.after = self.where_after = ""
        conditions = []
        if part.before is not None:
            at, last = part.before
            self.values |= {"at": float(at), "last": min(max(last - shift, -1), 2**63 - 1)}
            self.after = f"({key}, {id}) {sign} (:at, :last)"
            self.where_after = f" WHERE {self.after}"
            conditions.append(self.after)
        if part.since is not None:
            self.values["since"] = part.since
            conditions.append(f"{arrived} >= :since")
        if part.until is not None:
            self.values["until"] = part.until
            conditions.append(f"{arrived} < :until")
        self.conditions = "".join(f" AND {each}" for each in conditions)


def _state_condition(part: StreamQuery, state: str) -> str:
    """Return the condition that an item is read or unread, where `state` is the SQL for its state."""
    return "" if part.unread is None else f" AND {state} = {0 if part.unread else 1}"


class ReadLine(NamedTuple):
    """A line between a reader's far and near positions.

    Items behind positions before `at` are looked up feed by feed. Those behind later positions lie among the items
    beyond `at`, which are looked at once for all feeds.
    """

    at: int
    far: int  # subscriptions with a position before the line
    beyond: int  # ids beyond the line


_ALL_FAR = ReadLine(1 << 62, 1, 0)
_START = "(SELECT COALESCE(MAX(id), 0) FROM item) - CAST(:near_items AS bigint)"
# If no position is far back, every unread item is marked so, or is among the newest items.
_HAS_FAR_POSITION = f"EXISTS (SELECT 1 FROM subscription WHERE user_id = :user AND read_up_to < {_START})"
_COUNT_POSITIONS = (
    f"{_START}, COUNT(*) FILTER (WHERE read_up_to < {_START}), COUNT(*) FILTER (WHERE read_up_to >= {_START}), "
    f"MIN(read_up_to) FILTER (WHERE read_up_to >= {_START}) FROM subscription WHERE user_id = :user"
)


def find_read_line(
    connection: Connection, user_id: int, other: str = "NULL", values: Mapping[str, Any] | None = None
) -> tuple[ReadLine, bool, Any]:
    """Return the read line, whether any position is far back, and the value of the SQL expression `other`.

    The expression saves a statement, which would cost more than its answer.
    """
    given = {"user": user_id, "near_items": NEAR_ITEMS, **(values or {})}
    ((value, start, far, near, least),) = fetch_rows(connection, f"SELECT {other}, {_COUNT_POSITIONS}", given)
    last = start + NEAR_ITEMS
    if least is None or last - least > ITEMS_PER_FEED * near:
        return _ALL_FAR, far > 0, value
    return ReadLine(least, far, max(0, last - least)), far > 0, value


class _TimeBound(NamedTuple):
    """SQL that selects the time of the last item to look at, with its values."""

    sql: str
    values: dict[str, Any]


class _StreamItems:
    """One request for a part of the items of a reader's feeds."""

    def __init__(
        self, connection: Connection, user_id: int, stream: Stream, part: StreamQuery, columns: str | None
    ) -> None:
        self._connection = connection
        self._dialect = connection.dialect.name
        self._user = user_id
        self._stream = stream
        self._part = part
        self._columns = columns
        self._key = "i.first_seen" if part.by_arrival else "i.published"
        self._order = _StreamOrder(part, self._key, "i.id", "i.first_seen")
        self._values = self._order.values | {"user": user_id}
        self._only = ""
        if stream.feed is not None:
            self._only, self._values["feed"] = " AND s.feed_id = :feed", stream.feed
        elif stream.tag is not None:
            self._only, self._values["tag"] = _TAGGED, stream.tag

    def list_positions(self) -> list[StreamPosition]:
        """List the positions in order; one more than the limit if there are more."""
        if self._part.starred:
            return self._run_with_columns(self._select_starred())
        feeds = self._list_feed_ids() if self._stream != Stream() else None
        line: ReadLine | None = _ALL_FAR
        if feeds is None or len(feeds) > FEW_FEEDS:
            found, line = self._look_among_newest()
            if found is not None:
                return found
        if self._part.unread:
            line = line or find_read_line(self._connection, self._user)[0]
            return self._run_with_columns(self._select_unread(line), line=line.at)
        return self._list_newest_by_feed(self._list_feed_ids() if feeds is None else feeds)

    def list_labelled_positions(self) -> list[StreamPosition]:
        """List the positions of items that have the stream's tag as their own label; also of feeds unsubscribed."""
        state = _state_condition(self._part, _STATE)
        if self._part.starred:
            state += " AND m.starred IS NOT NULL"
        sql = (
            f"SELECT {self._key} AS k, i.id AS id FROM item_label l JOIN item i ON i.id = l.item_id "
            f"LEFT JOIN subscription s ON s.user_id = :user AND s.feed_id = i.feed_id {_MARK} "
            f"WHERE l.user_id = :user AND l.label = :tag{state}{self._order.conditions} {self._order.by} LIMIT :wanted"
        )
        return self._run_with_columns(sql)

    def _list_feed_ids(self) -> list[int]:
        return list_stream_feed_ids(self._connection, self._user, self._stream)

    def _run(self, sql: str, **more: Any) -> list[StreamPosition]:
        return list(fetch_rows(self._connection, sql, self._values | more))

    def _run_with_columns(self, sql: str, **more: Any) -> list[StreamPosition]:
        if self._columns is None:
            return self._run(sql, **more)
        found = self._run(join_columns(self._columns, sql), **more)
        return sorted(found, key=itemgetter(0, 1), reverse=not self._part.oldest_first)

    def _look_among_newest(self) -> tuple[list[StreamPosition] | None, ReadLine | None]:
        """Look at the newest items of all feeds.

        Returns no positions if the wanted ones are rare among them; then perhaps the read line.
        """
        limit = self._part.limit
        bound = self._find_time_bound(max(LOOK_AT_LEAST, LOOK_PER_ITEM * limit))
        found = self._walk_items(bound)
        if len(found) > limit:
            return found, None
        line: ReadLine | None = None
        if self._part.unread:
            line, any_far, edge = find_read_line(self._connection, self._user, f"({bound.sql})", bound.values)
            if not any_far:
                return None, line
        else:
            ((edge,),) = fetch_rows(self._connection, f"SELECT ({bound.sql})", bound.values)
        return (found, None) if edge is None else (None, line)

    def _find_time_bound(self, near: int) -> _TimeBound:
        """Bound the search by the item `near` items from the beginning of the part; no time if there are fewer.

        SQLite counts ids if they are nearly in that order, because it would walk the index otherwise.
        """
        if self._dialect == "sqlite" and self._part.by_arrival:
            before = self._part.before
            edge = before[1] if before is not None and before[1] < HIT_ID_OFFSET else 0
            if self._part.oldest_first:
                return _TimeBound(_UP, {"edge": edge + near})
            return _TimeBound(_DOWN, {"edge": edge - near}) if edge else _TimeBound(_DOWN_FROM_TOP, {"edge": near})
        order = self._order
        given = {name: order.values[name] for name in ("at", "last") if order.after} | {"near": near}
        return _TimeBound(f"SELECT {self._key} FROM item i{order.where_after} {order.by} LIMIT 1 OFFSET :near", given)

    def _walk_items(self, bound: _TimeBound) -> list[StreamPosition]:
        """Look at the next items of all feeds, in order, up to the bound.

        Finds no unread items if no position is far back, because those are gathered faster. SQLite goes along the
        index up to a time and stops when it has enough. PostgreSQL would read the whole table rather than go up to an
        unknown time, so it is told how many items to take. The number stands in the text of the statement: for a
        limit that is a parameter PostgreSQL would make a new plan each time, which takes longer than the answer.
        """
        key, order, part = self._key, self._order, self._part
        join = _MARK if part.unread is not None or self._columns is not None else ""
        columns = "" if self._columns is None else f", {self._columns}"
        far = f" AND {_HAS_FAR_POSITION}" if part.unread else ""
        items, bounded, most = "item i", "", ":wanted"
        if self._dialect == "sqlite":
            sign, endless = ("<=", "1e300") if part.oldest_first else (">=", "-1e300")
            bounded = f" AND {key} {sign} COALESCE(({bound.sql}), {endless})"
        else:
            items = f"(SELECT * FROM item i{order.where_after} {order.by} LIMIT {bound.values['near']}) i"
            most = str(part.limit + 1)
        return self._run(
            f"SELECT {key} AS k, i.id AS id{columns} FROM {items} CROSS JOIN subscription s {join} "
            "WHERE s.user_id = :user AND s.feed_id = "
            f"i.feed_id{bounded}{far}{self._only}{_state_condition(part, _STATE)}"
            f"{order.conditions} {order.by} LIMIT {most}",
            **bound.values,
            near_items=NEAR_ITEMS,
        )

    def _select_starred(self) -> str:
        """Select starred items; also of feeds no longer subscribed, if the stream is everything."""
        join = "LEFT JOIN" if self._stream == Stream() else "JOIN"
        state = _state_condition(self._part, _STATE)
        return (
            f"SELECT {self._key} AS k, i.id AS id FROM mark m JOIN item i ON i.id = m.item_id "
            f"{join} subscription s ON s.user_id = :user AND s.feed_id = m.feed_id "
            f"WHERE m.user_id = :user AND m.starred IS NOT NULL{self._only}{state}{self._order.conditions} "
            f"{self._order.by} LIMIT :wanted"
        )

    def _select_unread(self, line: ReadLine) -> str:
        """Select all unread items: those behind the positions that are not marked read, and those marked unread."""
        parts = []
        unread = f"s.user_id = :user AND (m.state IS NULL OR m.state = 0){self._only}{self._order.conditions}"
        if line.far:
            parts.append(
                f"SELECT {self._key} AS k, i.id AS id FROM subscription s CROSS JOIN item i {_MARK} "
                f"WHERE {unread} AND i.feed_id = s.feed_id AND i.id > s.read_up_to AND s.read_up_to < :line"
            )
        if line.beyond:
            parts.append(
                f"SELECT {self._key} AS k, i.id AS id FROM item i {_BY_ID[self._dialect]} "
                f"CROSS JOIN subscription s {_MARK} WHERE i.id > :line AND {unread} AND s.feed_id = i.feed_id "
                "AND i.id > s.read_up_to AND s.read_up_to >= :line"
            )
        # Marks repeat both times of their items, each in an index.
        name = "arrived" if self._part.by_arrival else "published"
        kept = _StreamOrder(self._part, f"m.{name}", "m.item_id", "m.arrived")
        parts.append(
            f"SELECT * FROM (SELECT m.{name} AS k, m.item_id AS id FROM mark m "
            f"{_MARK_INDEX[self._dialect].format(name)} "
            "CROSS JOIN subscription s WHERE m.user_id = :user AND m.state = 0 AND s.user_id = :user "
            f"AND s.feed_id = m.feed_id{self._only} AND m.item_id <= s.read_up_to{kept.conditions} {kept.by} "
            "LIMIT :wanted) t"
        )
        return f"SELECT k, id FROM ({' UNION ALL '.join(parts)}) u {self._order.outer} LIMIT :wanted"

    def _list_newest_by_feed(self, feeds: Iterable[int]) -> list[StreamPosition]:
        """List the first positions of each feed, and the first of all among those."""
        key, order, part = self._key, self._order, self._part
        join = "" if part.unread is None else _MARK
        found: list[StreamPosition] = []
        for some in chunks(sorted(feeds), FEEDS_PER_STATEMENT):
            each = (
                f"SELECT * FROM (SELECT {key} AS k, i.id AS id FROM item i CROSS JOIN subscription s {join} "
                f"WHERE i.feed_id = :f{n} AND s.user_id = :user AND s.feed_id = :f{n}{_state_condition(part, _STATE)}"
                f"{order.conditions} {order.by} LIMIT :wanted) t{n}"
                for n in range(len(some))
            )
            feeds_given = {f"f{n}": id for n, id in enumerate(some)}
            found += self._run(f"{' UNION ALL '.join(each)} {order.outer} LIMIT :wanted", **feeds_given)
        return sorted(found, key=itemgetter(0, 1), reverse=not part.oldest_first)[: part.limit + 1]


_UP = "SELECT first_seen FROM item WHERE id >= :edge ORDER BY id LIMIT 1"
_DOWN = "SELECT first_seen FROM item WHERE id <= :edge ORDER BY id DESC LIMIT 1"
_DOWN_FROM_TOP = "SELECT first_seen FROM item WHERE id <= (SELECT MAX(id) FROM item) - :edge ORDER BY id DESC LIMIT 1"
