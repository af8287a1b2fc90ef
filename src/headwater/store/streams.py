"""Which items stand in a person's stream, and in which order; with what is wanted of them, where they are looked at.

The way depends on where the wanted ones are. Mostly they are among the newest: `_walk` looks at those few, and farther
where enough of the first were wanted. Where it finds too few, unread items are gathered behind each feed's position,
and others taken from the top of each feed. Somebody who has read nearly everything has positions near the newest item
(`positions`): what is unread there is gathered at once. SQL by hand, because a planner that has no statistics must not
be left a choice: in SQLite CROSS JOIN means that the left side comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from headwater.store import positions
from headwater.store.people import HIT, Part, Stream
from headwater.store.people_tables import subscribed, subscribed_tag
from headwater.store.positions import A_FAR_ONE, BY_FEED, Line, line_and, line_of
from headwater.store.sql import chunks, rows
from headwater.store.subscribing import query_tags, require, require_query

Place = Any  # a row: the time that orders, the id, and, where they were asked along, the columns wanted

FEW = 20  # feeds that are looked at one by one
# About how many items are looked at, at least, and for each that is wanted; `WIDE` first for who needed it before.
DENSE, NEAR, WIDE, FAR = (0, 1.25), (250, 2), (600, 6), (2_000, 20)
TOGETHER = 100  # feeds in one statement; SQLite joins 500 at most
# Else SQLite would walk all marks of the person.
_KEPT = {"sqlite": "INDEXED BY mark_{}", "postgresql": ""}
_BY_ID = {"sqlite": "NOT INDEXED", "postgresql": ""}
# 0 unread, 1 read: the mark, else the position
_STATE = "COALESCE(m.state, CASE WHEN i.id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END)"
_MARK = "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = i.feed_id AND m.item_id = i.id"
_TAGGED = " AND s.feed_id IN (SELECT feed_id FROM subscribed_tag WHERE user_id = :user AND tag = :tag)"
_HIT_STATE = (
    "COALESCE(m.state, CASE WHEN h.id > q.read_up_to AND h.item_id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END)"
)
_HIT_MARKS = (
    "LEFT JOIN subscribed s ON s.user_id = :user AND s.feed_id = h.feed_id "
    "LEFT JOIN mark m ON m.user_id = :user AND m.feed_id = h.feed_id AND m.item_id = h.item_id"
)


class Habits:
    """What was learned of people by looking for their items, to begin the next time where they are found. Only costs
    depend on it."""

    def __init__(self) -> None:
        self.near: set[int] = set()  # who had no position far back
        self.sparse: set[int] = set()  # whose items are few among everybody's
        self.mixed: set[int] = set()  # whose are not nearly all

    def steps(self, user_id: int, dialect: str) -> Sequence[tuple[int, float]]:
        """How far to look, and how much farther if that was not far enough. SQLite stops as soon as it has enough."""
        if user_id in self.sparse:
            return WIDE, FAR
        if user_id in self.mixed or dialect == "sqlite":
            return NEAR, WIDE, FAR
        return DENSE, NEAR, WIDE, FAR

    def learn(self, user_id: int, step: tuple[int, float]) -> None:
        """That enough was found by looking so far."""
        if step == NEAR:
            self.mixed.add(user_id)
        elif step == WIDE:
            self.sparse.add(user_id)


class Wanted(NamedTuple):
    """What is asked along with the places: columns of the item (i), its subscription (s) and mark (m), and of what is
    joined to them."""

    columns: str
    joins: str = ""


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


def has_columns(place: Place) -> bool:
    return len(place) > 2


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
    return _items(connection, user_id, which, part, wanted, habits or Habits())


def with_queries(
    connection: Connection, user_id: int, part: Part, found: list[Place], query_ids: Collection[int]
) -> list[Place]:
    """`places`, of those of feeds and of these query feeds."""
    if not query_ids:
        return found[: part.limit + 1]
    every = (found, *(_hits(connection, user_id, id, part) for id in query_ids))
    return list(islice(heapq.merge(*every, reverse=not part.oldest_first), part.limit + 1))


def query_ids(connection: Connection, user_id: int, which: Stream) -> list[int]:
    """The query feeds of a stream that is more than one feed."""
    return [id for id, tags in query_feeds(connection, user_id) if which.tag is None or which.tag in tags]


def query_feeds(connection: Connection, user_id: int) -> list[tuple[int, tuple[str, ...]]]:
    """A person's query feeds, with their tags."""
    return [(id, query_tags(tags)) for id, tags in rows(connection, _QUERY_FEEDS, {"user": user_id})]


_QUERY_FEEDS = "SELECT query_id, tags FROM query_subscription WHERE user_id = :user"


def subscribed_feeds(user_id: int, which: Stream) -> Select[tuple[int]]:
    """What asks for the feeds of a stream."""
    if which.tag is not None:
        tagged = (subscribed_tag.c.user_id == user_id, subscribed_tag.c.tag == which.tag)
        return select(subscribed_tag.c.feed_id).where(*tagged)
    mine = select(subscribed.c.feed_id).where(subscribed.c.user_id == user_id)
    return mine if which.feed is None else mine.where(subscribed.c.feed_id == which.feed)


def feed_ids(connection: Connection, user_id: int, which: Stream) -> list[int]:
    """The feeds of a stream."""
    if which.feed is not None:
        return [which.feed]
    return list(connection.execute(subscribed_feeds(user_id, which)).scalars())


class _Order:
    """The words of SQL for an order, and the conditions of a part, with their values."""

    def __init__(self, part: Part, key: str, id: str, arrived: str, shift: int = 0) -> None:
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


def _wanted(part: Part, state: str) -> str:
    return "" if part.unread is None else f" AND {state} = {0 if part.unread else 1}"


def _items(
    connection: Connection, user_id: int, which: Stream, part: Part, columns: Wanted | None, habits: Habits
) -> list[Place]:
    key = "i.first_seen" if part.by_arrival else "i.published"
    order = _Order(part, key, "i.id", "i.first_seen")
    values = order.values | {"user": user_id}
    only = ""
    if which.feed is not None:
        only, values["feed"] = " AND s.feed_id = :feed", which.feed
    elif which.tag is not None:
        only, values["tag"] = _TAGGED, which.tag

    def run(sql: str, **more: Any) -> list[Place]:
        return list(rows(connection, sql, values | more))

    def run_with_columns(sql: str, **more: Any) -> list[Place]:
        if columns is None:
            return run(sql, **more)
        found = run(with_columns(columns, sql), **more)
        return sorted(found, key=itemgetter(0, 1), reverse=not part.oldest_first)

    if part.starred:
        return run_with_columns(_starred(part, which, only, key, order))
    feeds = feed_ids(connection, user_id, which) if which != Stream() else None
    line: Line | None = BY_FEED
    if feeds is None or len(feeds) > FEW:
        found, line = _among_newest(connection, run, user_id, part, only, key, order, columns, habits)
        if found is not None:
            return found
    if part.unread:
        line = line or line_of(connection, user_id)
        return run_with_columns(_gather(connection.dialect.name, part, only, key, order, line), line=line.at)
    if feeds is None:
        feeds = feed_ids(connection, user_id, which)
    return _tops(run, feeds, part, key, order)


def with_columns(wanted: Wanted, sql: str) -> str:
    """Places (k, id) that were found without looking at the items, with the columns wanted: in no order, since sorting
    rows with whole texts in them costs as much as finding them."""
    return (
        f"SELECT u.k, u.id, {wanted.columns} FROM ({sql}) u CROSS JOIN item i "
        f"LEFT JOIN subscribed s ON s.user_id = :user AND s.feed_id = i.feed_id {_MARK} {wanted.joins} "
        "WHERE i.id = u.id"
    )


def _among_newest(
    connection: Connection,
    run: Callable[..., list[Place]],
    user_id: int,
    part: Part,
    only: str,
    key: str,
    order: _Order,
    columns: Wanted | None,
    habits: Habits,
) -> tuple[list[Place] | None, Line | None]:
    """None where wanted ones are too rare among them, or are elsewhere; then also where unread ones are."""
    line: Line | None = None
    if part.unread and user_id in habits.near:
        _, far, line = line_and(connection, user_id, "NULL", {})
        if not far:
            return None, line
        habits.near.discard(user_id)
    for least, each in habits.steps(user_id, connection.dialect.name):
        looked_at = max(least, int(each * part.limit) + 1)
        bound, given = _bound(connection.dialect.name, part, key, order, looked_at)
        found = _walk(connection.dialect.name, run, part, only, key, order, columns, bound, given)
        if len(found) > part.limit:
            habits.learn(user_id, (least, each))
            return found, None
        if part.unread:
            # Nothing at all: mostly because no position is far back, which is quickly asked by itself.
            _, far, line = line_and(connection, user_id, "NULL", {}) if not found else (None, True, None)
            if not far:
                habits.near.add(user_id)
                return None, line
            edge, far, line = line_and(connection, user_id, f"({bound})", given)
            if not far:
                return None, line
        else:
            edge = rows(connection, f"SELECT ({bound})", given)[0][0]
        if edge is None:
            return found, None
        if len(found) * max(FAR[0], FAR[1] * part.limit) < part.limit * looked_at:
            break  # farther would not be far enough
    return None, line


def _starred(part: Part, which: Stream, only: str, key: str, order: _Order) -> str:
    """Also of feeds that are no longer subscribed, where all that is starred is asked for."""
    join = "LEFT JOIN" if which == Stream() else "JOIN"
    state = _wanted(part, _STATE)
    return (
        f"SELECT {key} AS k, i.id AS id FROM mark m JOIN item i ON i.id = m.item_id "
        f"{join} subscribed s ON s.user_id = :user AND s.feed_id = m.feed_id "
        f"WHERE m.user_id = :user AND m.starred IS NOT NULL{only}{state}{order.conditions} {order.by} LIMIT :wanted"
    )


def _walk(
    dialect: str,
    run: Callable[..., list[Place]],
    part: Part,
    only: str,
    key: str,
    order: _Order,
    wanted: Wanted | None,
    bound: str,
    given: Mapping[str, Any],
) -> list[Place]:
    """Among the next items of everybody, in order, as far as needed.

    Nothing of what is unread where no position is far back: that is found otherwise. SQLite goes along the index up to
    a time and stops when there are enough; PostgreSQL, which would rather read the whole table than go up to a time
    that it does not know, is told how many to take: in the text of the statement, because of limits that are values it
    makes a plan anew for every question, which takes longer than the answer.
    """
    join = _MARK if part.unread is not None or wanted is not None else ""
    columns, joins = (f", {wanted.columns}", wanted.joins) if wanted is not None else ("", "")
    far = f" AND {A_FAR_ONE}" if part.unread else ""
    items, bounded, most = "item i", "", ":wanted"
    if dialect == "sqlite":
        bounded = f" AND {key} " + (
            f"<= COALESCE(({bound}), 1e300)" if part.oldest_first else f">= COALESCE(({bound}), -1e300)"
        )
    else:
        items = f"(SELECT * FROM item i{order.where_after} {order.by} LIMIT {given['near']}) i"
        most = str(part.limit + 1)
    return run(
        f"SELECT {key} AS k, i.id AS id{columns} FROM {items} CROSS JOIN subscribed s {join} {joins} "
        f"WHERE s.user_id = :user AND s.feed_id = i.feed_id{bounded}{far}{only}{_wanted(part, _STATE)}"
        f"{order.conditions} {order.by} LIMIT {most}",
        **given,
        reach=positions.NEAR,
    )


def _bound(dialect: str, part: Part, key: str, order: _Order, near: int) -> tuple[str, dict[str, Any]]:
    """What asks for the time of the item that is `near` items from where the part begins; nothing if there are not so
    many. SQLite counts in ids where they are nearly in that order: it would go along the index otherwise."""
    if dialect == "sqlite" and part.by_arrival:
        edge = part.before[1] if part.before is not None and part.before[1] < HIT else 0
        if part.oldest_first:
            return _UP, {"edge": edge + near}
        return (_DOWN, {"edge": edge - near}) if edge else (_DOWN_FROM_TOP, {"edge": near})
    given = {name: order.values[name] for name in ("at", "last") if order.after} | {"near": near}
    return f"SELECT {key} FROM item i{order.where_after} {order.by} LIMIT 1 OFFSET :near", given


_UP = "SELECT first_seen FROM item WHERE id >= :edge ORDER BY id LIMIT 1"
_DOWN = "SELECT first_seen FROM item WHERE id <= :edge ORDER BY id DESC LIMIT 1"
_DOWN_FROM_TOP = "SELECT first_seen FROM item WHERE id <= (SELECT MAX(id) FROM item) - :edge ORDER BY id DESC LIMIT 1"


def _gather(dialect: str, part: Part, only: str, key: str, order: _Order, line: Line) -> str:
    """Everything unread: behind the positions without what is marked read, and what is marked unread before them."""
    parts = []
    unread = f"s.user_id = :user AND (m.state IS NULL OR m.state = 0){only}{order.conditions}"
    if line.far:
        parts.append(
            f"SELECT {key} AS k, i.id AS id FROM subscribed s CROSS JOIN item i {_MARK} "
            f"WHERE {unread} AND i.feed_id = s.feed_id AND i.id > s.read_up_to AND s.read_up_to < :line"
        )
    if line.beyond:
        parts.append(
            f"SELECT {key} AS k, i.id AS id FROM item i {_BY_ID[dialect]} CROSS JOIN subscribed s {_MARK} "
            f"WHERE i.id > :line AND {unread} AND s.feed_id = i.feed_id AND i.id > s.read_up_to "
            "AND s.read_up_to >= :line"
        )
    # Marks know both times themselves, in an index each.
    name = "arrived" if part.by_arrival else "published"
    kept = _Order(part, f"m.{name}", "m.item_id", "m.arrived")
    parts.append(
        f"SELECT * FROM (SELECT m.{name} AS k, m.item_id AS id FROM mark m {_KEPT[dialect].format(name)} "
        "CROSS JOIN subscribed s WHERE m.user_id = :user AND m.state = 0 AND s.user_id = :user "
        f"AND s.feed_id = m.feed_id{only} AND m.item_id <= s.read_up_to{kept.conditions} {kept.by} LIMIT :wanted) t"
    )
    return f"SELECT k, id FROM ({' UNION ALL '.join(parts)}) u {order.outer} LIMIT :wanted"


def _tops(run: Callable[..., list[Place]], feeds: Iterable[int], part: Part, key: str, order: _Order) -> list[Place]:
    """The first of each feed, then of all."""
    join = "" if part.unread is None else _MARK
    found: list[Place] = []
    for some in chunks(sorted(feeds), TOGETHER):
        each = (
            f"SELECT * FROM (SELECT {key} AS k, i.id AS id FROM item i CROSS JOIN subscribed s {join} "
            f"WHERE i.feed_id = :f{n} AND s.user_id = :user AND s.feed_id = :f{n}{_wanted(part, _STATE)}"
            f"{order.conditions} {order.by} LIMIT :wanted) t{n}"
            for n in range(len(some))
        )
        feeds_given = {f"f{n}": id for n, id in enumerate(some)}
        found += run(f"{' UNION ALL '.join(each)} {order.outer} LIMIT :wanted", **feeds_given)
    return sorted(found, reverse=not part.oldest_first)[: part.limit + 1]


def _hits(connection: Connection, user_id: int, query_id: int, part: Part) -> list[Place]:
    """What a query feed shows; its places have ids of their own."""
    key = "h.arrived" if part.by_arrival else "h.published"
    order = _Order(part, key, "h.id", "h.arrived", shift=HIT)
    state = _wanted(part, _HIT_STATE)
    if part.starred:
        state += " AND m.starred IS NOT NULL"
    sql = (
        f"SELECT {key} AS k, h.id AS id FROM query_subscription q CROSS JOIN hit h {_HIT_MARKS} "
        f"WHERE q.user_id = :user AND q.query_id = :query AND h.query_id = :query AND h.current"
        f"{state}{order.conditions} {order.by} LIMIT :wanted"
    )
    found = rows(connection, sql, order.values | {"user": user_id, "query": query_id})
    return [(row[0], HIT + row[1]) for row in found]
