"""Items as clients of an API get them by the thousand: only what they are shown, as the database has it.

`reading` makes whole items of rows; here a row stays a tuple. Lists stay JSON until somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection

from headwater.store import reading, subscribing
from headwater.store.people import HIT, Part, Reading, Stream, Subscription
from headwater.store.sql import ByIds, chunks, to_json
from headwater.store.streams import places

CHUNK = 10_000


class Shown(NamedTuple):
    """An item, or (`query_id`) what a query feed shows of one; `id` is its number among both."""

    id: int
    feed_id: int
    published: float
    arrived: float
    updated: float | None
    title: str | None
    link: str | None
    text: str | None
    authors: str | None  # JSON
    enclosures: str | None  # JSON: [[url, type, length], …]
    read: bool
    starred: bool
    query_id: int | None = None


_COLUMNS = (
    "SELECT i.id, i.feed_id, i.published, i.first_seen, i.updated, i.title, i.link, "
    "COALESCE(i.content, i.summary), i.authors, i.enclosures, "
    "COALESCE(m.state, CASE WHEN i.id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END), m.starred IS NOT NULL, NULL "
)
_MARK = "LEFT JOIN mark m ON m.user_id = {user} AND m.feed_id = i.feed_id AND m.item_id = i.id "
_ITEMS = ByIds(
    f"{_COLUMNS} FROM item i LEFT JOIN subscribed s ON s.user_id = {{user}} AND s.feed_id = i.feed_id "
    f"{_MARK} WHERE i.id IN {{ids}}"
)
# The same, of feeds that the person reads; the others are asked for one by one.
_MINE = ByIds(
    f"{_COLUMNS} FROM item i CROSS JOIN subscribed s {_MARK} "
    "WHERE i.id IN {ids} AND s.user_id = {user} AND s.feed_id = i.feed_id"
)


class Answer(NamedTuple):
    """Items in order, the subscriptions they belong to by number (HIT + id for query feeds), and where to go on."""

    items: list[Shown]
    subscriptions: dict[int, Subscription]
    next: tuple[float, int] | None = None


def page(connection: Connection, user_id: int, which: Stream, part: Part) -> Answer:
    """A part of a stream."""
    found = places(connection, user_id, which, part)
    shown = [id for _, id in found[: part.limit]]
    more = found[part.limit - 1] if len(found) > part.limit else None
    return _answer(connection, user_id, _load(connection, _ITEMS, user_id, shown), shown, more)


def chosen(connection: Connection, user_id: int, ids: Sequence[int]) -> Answer:
    """Those of these that the person may see, in the order given."""
    found = _load(connection, _MINE, user_id, [id for id in ids if 0 <= id < HIT])
    rest = [id for id in ids if id not in found]
    if rest:
        found |= {one.id: _shown(one) for one in reading.chosen(connection, user_id, rest)}
    return _answer(connection, user_id, found, list(dict.fromkeys(ids)), None)


def _answer(
    connection: Connection, user_id: int, found: dict[int, Shown], order: list[int], more: tuple[float, int] | None
) -> Answer:
    items = [found[id] for id in order if id in found]
    feeds = {one.feed_id for one in items if one.query_id is None}
    queries = {one.query_id for one in items if one.query_id is not None}
    mine = subscribing.some(connection, user_id, feeds, queries)
    return Answer(items, {subscribing.number(one): one for one in mine}, more)


def _load(connection: Connection, statement: ByIds, user_id: int, ids: Sequence[int]) -> dict[int, Shown]:
    found: dict[int, Shown] = {}
    for chunk in chunks((id for id in ids if id < HIT), CHUNK):
        for row in statement.run(connection, user_id, chunk):
            found[row[0]] = Shown._make(row)
    hits = [id for id in ids if id >= HIT]
    if hits:
        found |= {one.id: _shown(one) for one in reading.load(connection, user_id, hits)}
    return found


def _shown(one: Reading) -> Shown:
    item = one.item
    enclosures: list[Any] = [(each.url, each.type, each.length) for each in item.enclosures]
    return Shown(
        one.id,
        item.feed_id,
        item.published,
        one.arrived,
        item.updated,
        item.title,
        item.link,
        item.content or item.summary,
        to_json(item.authors),
        orjson.dumps(enclosures).decode() if enclosures else None,
        one.read,
        one.starred,
        one.query_id,
    )
