"""Which items stand in a person's stream, and in which order: ids only, found without looking at the items.

The way depends on where the wanted ones are. Mostly they are among the newest: `_walk` looks at those few, and farther
where enough of the first were wanted. Where it finds too few, unread items are gathered behind each feed's position,
and others taken from the top of each feed. Somebody who has read nearly everything has positions near the newest item
(`positions`): what is unread there is gathered at once. SQL by hand, because a planner that has no statistics must not
be left a choice: in SQLite CROSS JOIN means that the left side comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, select

from headwater.store import positions
from headwater.store.people import HIT, Part, Stream
from headwater.store.people_tables import query_subscription, subscribed, subscribed_tag
from headwater.store.positions import A_FAR_ONE, BY_FEED, Line, line_of
from headwater.store.sql import chunks, rows
from headwater.store.subscribing import query_tags, require, require_query

Place = tuple[float, int]  # the time that orders, and the id

FEW = 20  # feeds that are looked at one by one
NEAR, FAR = (250, 2), (1_500, 4)  # about how many items are looked at, at least, and for each that is wanted
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


def places(connection: Connection, user_id: int, which: Stream, part: Part) -> list[Place]:
    """Where to look, in order; one more than the limit, where there are more. NotFound for what is not subscribed."""
    if which.query is not None:
        require_query(connection, user_id, which.query)
        found = [_hits(connection, user_id, which.query, part)]
    else:
        if which.feed is not None:
            require(connection, user_id, which.feed)
        found = [_items(connection, user_id, which, part)]
        if part.queries and which.feed is None:
            found += [_hits(connection, user_id, id, part) for id in query_ids(connection, user_id, which)]
    merged = heapq.merge(*found, reverse=not part.oldest_first)
    return [place for place, _ in zip(merged, range(part.limit + 1), strict=False)]


def query_ids(connection: Connection, user_id: int, which: Stream) -> list[int]:
    """The query feeds of a stream that is more than one feed."""
    mine = select(query_subscription.c.query_id, query_subscription.c.tags)
    rows = connection.execute(mine.where(query_subscription.c.user_id == user_id)).all()
    return [row.query_id for row in rows if which.tag is None or which.tag in query_tags(row.tags)]


def feed_ids(connection: Connection, user_id: int, which: Stream) -> list[int]:
    """The feeds of a stream."""
    if which.feed is not None:
        return [which.feed]
    query = select(subscribed.c.feed_id).where(subscribed.c.user_id == user_id)
    if which.tag is not None:
        query = select(subscribed_tag.c.feed_id)
        query = query.where(subscribed_tag.c.user_id == user_id, subscribed_tag.c.tag == which.tag)
    return list(connection.execute(query).scalars())


class _Order:
    """The words of SQL for an order, and the conditions of a part, with their values."""

    def __init__(self, part: Part, key: str, id: str, arrived: str, shift: int = 0) -> None:
        way, sign = ("ASC", ">") if part.oldest_first else ("DESC", "<")
        self.by = f"ORDER BY {key} {way}, {id} {way}"
        self.outer = f"ORDER BY k {way}, id {way}"
        self.values: dict[str, Any] = {"wanted": part.limit + 1}
        self.after = ""
        conditions = []
        if part.before is not None:
            at, last = part.before
            self.values |= {"at": float(at), "last": min(max(last - shift, -1), 2**63 - 1)}
            self.after = f"({key}, {id}) {sign} (:at, :last)"
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


def _items(connection: Connection, user_id: int, which: Stream, part: Part) -> list[Place]:
    key = "i.first_seen" if part.by_arrival else "i.published"
    order = _Order(part, key, "i.id", "i.first_seen")
    values = order.values | {"user": user_id}
    only = ""
    if which.feed is not None:
        only, values["feed"] = " AND s.feed_id = :feed", which.feed
    elif which.tag is not None:
        only, values["tag"] = _TAGGED, which.tag

    def run(sql: str, **more: Any) -> list[Place]:
        return [(row[0], row[1]) for row in rows(connection, sql, values | more)]

    if part.starred:
        return run(_starred(part, which, only, key, order))
    feeds = feed_ids(connection, user_id, which) if which != Stream() else None
    if feeds is None or len(feeds) > FEW:
        found = _among_newest(connection, run, user_id, part, only, key, order)
        if found is not None:
            return found
    if part.unread:
        line = BY_FEED if feeds is not None and len(feeds) <= FEW else line_of(connection, user_id)
        return run(_gather(connection.dialect.name, part, only, key, order, line), line=line.at)
    if feeds is None:
        feeds = feed_ids(connection, user_id, which)
    return _tops(run, feeds, part, key, order)


def _among_newest(
    connection: Connection,
    run: Callable[..., list[Place]],
    user_id: int,
    part: Part,
    only: str,
    key: str,
    order: _Order,
) -> list[Place] | None:
    """None where wanted ones are too rare among them, or are elsewhere."""
    for least, each in (NEAR, FAR):
        looked_at = max(least, each * part.limit)
        bound, far = _bound(connection, user_id, part, order, looked_at)
        if part.unread and not far:
            return None
        found = _walk(run, part, only, key, order, bound)
        if len(found) > part.limit or bound is None:
            return found
        if len(found) * max(FAR[0], FAR[1] * part.limit) < part.limit * looked_at:
            return None  # farther would not be far enough
    return None


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
    run: Callable[..., list[Place]], part: Part, only: str, key: str, order: _Order, bound: float | None
) -> list[Place]:
    """Among the items of everybody up to a time, in order, as far as needed."""
    bounded = "" if bound is None else f" AND {key} {'<=' if part.oldest_first else '>='} :bound"
    join = "" if part.unread is None else _MARK
    return run(
        f"SELECT {key} AS k, i.id AS id FROM item i CROSS JOIN subscribed s {join} "
        f"WHERE s.user_id = :user AND s.feed_id = i.feed_id{bounded}{only}{_wanted(part, _STATE)}{order.conditions} "
        f"{order.by} LIMIT :wanted",
        **({} if bound is None else {"bound": bound}),
    )


def _bound(connection: Connection, user_id: int, part: Part, order: _Order, near: int) -> tuple[float | None, bool]:
    """The time of the item that is `near` items from where the part begins, None if there are not so many; and whether
    any position is far back. One question: with PostgreSQL each costs more than its answer."""
    values: dict[str, Any] = {"user": user_id, "reach": positions.NEAR}
    if not part.by_arrival:
        after = f" WHERE {order.after}" if order.after else ""
        bound = f"SELECT i.published FROM item i{after} {order.by} LIMIT 1 OFFSET :near"
        values |= {name: order.values[name] for name in ("at", "last") if after} | {"near": near}
    else:
        edge = part.before[1] if part.before is not None and part.before[1] < HIT else 0
        bound = _UP if part.oldest_first else _DOWN if edge else _DOWN_FROM_TOP
        values["edge"] = edge + near if part.oldest_first else edge - near if edge else near
    time, far = rows(connection, f"SELECT ({bound}), {A_FAR_ONE}", values)[0]
    return time, bool(far)


_UP = "SELECT first_seen FROM item WHERE id >= :edge ORDER BY id LIMIT 1"
_DOWN = "SELECT first_seen FROM item WHERE id <= :edge ORDER BY id DESC LIMIT 1"
_DOWN_FROM_TOP = (
    "SELECT first_seen FROM item WHERE id <= (SELECT MAX(id) FROM item) - CAST(:edge AS bigint) "
    "ORDER BY id DESC LIMIT 1"
)


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
