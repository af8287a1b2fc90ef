"""Finds which items of feeds stand in a reader's stream, and in which order, with the columns that the caller wants.

The wanted items are mostly among the newest: `_walk_items` looks at those. If they are rare there, unread items are
gathered behind the position of each feed, and others are taken from the top of each feed. A reader who has read nearly
everything has positions near the newest item (`read_positions`): there unread items are gathered at once. The SQL is
written by hand, because a planner without statistics must not be left a choice: in SQLite, CROSS JOIN means that the
left side comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from headwater.store.database.dialect import chunks, fetch_rows
from headwater.store.readers import read_positions
from headwater.store.readers.read_positions import (
    ALL_BY_FEED,
    HAS_FAR_POSITION,
    ReadLine,
    find_read_line,
    find_read_line_and,
)
from headwater.store.readers.stream_order import StreamOrder, state_condition
from headwater.store.readers.stream_sources import list_stream_feed_ids
from headwater.store.readers.stream_values import HIT_ID_OFFSET, Stream, StreamQuery

StreamPosition = Any  # a row: the time that orders, the id, and, where they were asked along, the columns wanted

LOOK_AT_LEAST, LOOK_PER_ITEM = 600, 6  # newest items that are looked at before feeds are asked one by one
FEW_FEEDS = 20  # feeds that are looked at one by one
FEEDS_PER_STATEMENT = 100  # feeds in one statement; SQLite joins 500 at most
# Else SQLite would walk all marks of the person.
_MARK_INDEX = {"sqlite": "INDEXED BY mark_{}", "postgresql": ""}
_BY_ID = {"sqlite": "NOT INDEXED", "postgresql": ""}
# 0 unread, 1 read: the mark, else the position
_STATE = "COALESCE(m.state, CASE WHEN i.id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END)"
_MARK = "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = i.feed_id AND m.item_id = i.id"
_TAGGED = " AND s.feed_id IN (SELECT feed_id FROM subscription_tag WHERE user_id = :user AND tag = :tag)"


class WantedColumns(NamedTuple):
    """Columns to select with the positions: of the item (i), its subscription (s), its mark (m), and of joined
    tables."""

    columns: str
    joins: str = ""


def join_columns(wanted: WantedColumns, sql: str) -> str:
    """Places (k, id) that were found without looking at the items, with the columns wanted: in no order, since sorting
    rows with whole texts in them costs as much as finding them."""
    return (
        f"SELECT u.k, u.id, {wanted.columns} FROM ({sql}) u CROSS JOIN item i "
        f"LEFT JOIN subscription s ON s.user_id = :user AND s.feed_id = i.feed_id {_MARK} {wanted.joins} "
        "WHERE i.id = u.id"
    )


def has_columns(place: StreamPosition) -> bool:
    return len(place) > 2


class _TimeBound(NamedTuple):
    """SQL that selects the time of the last item to look at, with its values."""

    sql: str
    values: dict[str, Any]


class StreamSelection:
    """One question for a part of the items of a person's feeds."""

    def __init__(
        self,
        connection: Connection,
        user_id: int,
        which: Stream,
        part: StreamQuery,
        wanted: WantedColumns | None = None,
    ) -> None:
        self._connection = connection
        self._dialect = connection.dialect.name
        self._user = user_id
        self._which = which
        self._part = part
        self._wanted = wanted
        self._key = "i.first_seen" if part.by_arrival else "i.published"
        self._order = StreamOrder(part, self._key, "i.id", "i.first_seen")
        self._values = self._order.values | {"user": user_id}
        self._only = ""
        if which.feed is not None:
            self._only, self._values["feed"] = " AND s.feed_id = :feed", which.feed
        elif which.tag is not None:
            self._only, self._values["tag"] = _TAGGED, which.tag

    def list_positions(self) -> list[StreamPosition]:
        """List the positions in order; one more than the limit if there are more."""
        if self._part.starred:
            return self._run_with_columns(self._select_starred())
        feeds = self._list_feed_ids() if self._which != Stream() else None
        line: ReadLine | None = ALL_BY_FEED
        if feeds is None or len(feeds) > FEW_FEEDS:
            found, line = self._look_among_newest()
            if found is not None:
                return found
        if self._part.unread:
            line = line or find_read_line(self._connection, self._user)
            return self._run_with_columns(self._select_unread(line), line=line.at)
        return self._list_newest_by_feed(self._list_feed_ids() if feeds is None else feeds)

    def _list_feed_ids(self) -> list[int]:
        return list_stream_feed_ids(self._connection, self._user, self._which)

    def _run(self, sql: str, **more: Any) -> list[StreamPosition]:
        return list(fetch_rows(self._connection, sql, self._values | more))

    def _run_with_columns(self, sql: str, **more: Any) -> list[StreamPosition]:
        if self._wanted is None:
            return self._run(sql, **more)
        found = self._run(join_columns(self._wanted, sql), **more)
        return sorted(found, key=itemgetter(0, 1), reverse=not self._part.oldest_first)

    def _look_among_newest(self) -> tuple[list[StreamPosition] | None, ReadLine | None]:
        """Look at the newest items of all feeds. None if the wanted ones are rare among them; then perhaps the line."""
        limit = self._part.limit
        bound = self._find_time_bound(max(LOOK_AT_LEAST, LOOK_PER_ITEM * limit))
        found = self._walk_items(bound)
        if len(found) > limit:
            return found, None
        line: ReadLine | None = None
        if self._part.unread:
            edge, far, line = find_read_line_and(self._connection, self._user, f"({bound.sql})", bound.values)
            if not far:
                return None, line
        else:
            edge = fetch_rows(self._connection, f"SELECT ({bound.sql})", bound.values)[0][0]
        return (found, None) if edge is None else (None, line)

    def _find_time_bound(self, near: int) -> _TimeBound:
        """Bound the search by the item `near` items from the beginning of the part; no time if there are fewer.
        SQLite counts in ids if they are nearly in that order, because it would walk the index otherwise."""
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
        """Among the next items of everybody, in order, as far as needed.

        Nothing of what is unread where no position is far back: that is found otherwise. SQLite goes along the index up
        to a time and stops when there are enough; PostgreSQL, which would rather read the whole table than go up to a
        time that it does not know, is told how many to take: in the text of the statement, because of limits that are
        values it makes a plan anew for every question, which takes longer than the answer.
        """
        key, order, part, wanted = self._key, self._order, self._part, self._wanted
        join = _MARK if part.unread is not None or wanted is not None else ""
        columns, joins = (f", {wanted.columns}", wanted.joins) if wanted is not None else ("", "")
        far = f" AND {HAS_FAR_POSITION}" if part.unread else ""
        items, bounded, most = "item i", "", ":wanted"
        if self._dialect == "sqlite":
            sign, endless = ("<=", "1e300") if part.oldest_first else (">=", "-1e300")
            bounded = f" AND {key} {sign} COALESCE(({bound.sql}), {endless})"
        else:
            items = f"(SELECT * FROM item i{order.where_after} {order.by} LIMIT {bound.values['near']}) i"
            most = str(part.limit + 1)
        return self._run(
            f"SELECT {key} AS k, i.id AS id{columns} FROM {items} CROSS JOIN subscription s {join} {joins} "
            "WHERE s.user_id = :user AND s.feed_id = "
            f"i.feed_id{bounded}{far}{self._only}{state_condition(part, _STATE)}"
            f"{order.conditions} {order.by} LIMIT {most}",
            **bound.values,
            reach=read_positions.NEAR_ITEMS,
        )

    def _select_starred(self) -> str:
        """Select starred items; also of feeds no longer subscribed, if the stream is everything."""
        join = "LEFT JOIN" if self._which == Stream() else "JOIN"
        state = state_condition(self._part, _STATE)
        return (
            f"SELECT {self._key} AS k, i.id AS id FROM mark m JOIN item i ON i.id = m.item_id "
            f"{join} subscription s ON s.user_id = :user AND s.feed_id = m.feed_id "
            f"WHERE m.user_id = :user AND m.starred IS NOT NULL{self._only}{state}{self._order.conditions} "
            f"{self._order.by} LIMIT :wanted"
        )

    def _select_unread(self, line: ReadLine) -> str:
        """Everything unread: behind the positions without what is marked read, and what is marked unread before
        them."""
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
        # Marks know both times themselves, in an index each.
        name = "arrived" if self._part.by_arrival else "published"
        kept = StreamOrder(self._part, f"m.{name}", "m.item_id", "m.arrived")
        parts.append(
            f"SELECT * FROM (SELECT m.{name} AS k, m.item_id AS id FROM mark m "
            f"{_MARK_INDEX[self._dialect].format(name)} "
            "CROSS JOIN subscription s WHERE m.user_id = :user AND m.state = 0 AND s.user_id = :user "
            f"AND s.feed_id = m.feed_id{self._only} AND m.item_id <= s.read_up_to{kept.conditions} {kept.by} "
            "LIMIT :wanted) t"
        )
        return f"SELECT k, id FROM ({' UNION ALL '.join(parts)}) u {self._order.outer} LIMIT :wanted"

    def _list_newest_by_feed(self, feeds: Iterable[int]) -> list[StreamPosition]:
        """The first of each feed, then of all."""
        key, order, part = self._key, self._order, self._part
        join = "" if part.unread is None else _MARK
        found: list[StreamPosition] = []
        for some in chunks(sorted(feeds), FEEDS_PER_STATEMENT):
            each = (
                f"SELECT * FROM (SELECT {key} AS k, i.id AS id FROM item i CROSS JOIN subscription s {join} "
                f"WHERE i.feed_id = :f{n} AND s.user_id = :user AND s.feed_id = :f{n}{state_condition(part, _STATE)}"
                f"{order.conditions} {order.by} LIMIT :wanted) t{n}"
                for n in range(len(some))
            )
            feeds_given = {f"f{n}": id for n, id in enumerate(some)}
            found += self._run(f"{' UNION ALL '.join(each)} {order.outer} LIMIT :wanted", **feeds_given)
        return sorted(found, reverse=not part.oldest_first)[: part.limit + 1]


_UP = "SELECT first_seen FROM item WHERE id >= :edge ORDER BY id LIMIT 1"
_DOWN = "SELECT first_seen FROM item WHERE id <= :edge ORDER BY id DESC LIMIT 1"
_DOWN_FROM_TOP = "SELECT first_seen FROM item WHERE id <= (SELECT MAX(id) FROM item) - :edge ORDER BY id DESC LIMIT 1"
