"""Lists items for API clients that fetch thousands: only the columns they show, as the database has them.

`reader_items` builds whole items from rows; here a row stays a tuple, and lists stay JSON until somebody parses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection

from headwater.store.database.dialect import SelectByUserAndIds, chunks, to_json
from headwater.store.readers import reader_items
from headwater.store.readers import subscriptions as subscribing
from headwater.store.readers.stream_items import WantedColumns, has_columns
from headwater.store.readers.stream_values import HIT_ID_OFFSET, ReaderItem, Stream, StreamQuery
from headwater.store.readers.streams import list_feed_positions, merge_query_positions
from headwater.store.readers.subscriptions import Subscription

CHUNK = 10_000


class ShownItem(NamedTuple):
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


_ITEM = (
    "i.id, i.feed_id, i.published, i.first_seen, i.updated, i.title, i.link, "
    "COALESCE(i.content, i.summary), i.authors, i.enclosures, "
    "COALESCE(m.state, CASE WHEN i.id > COALESCE(s.read_up_to, 0) THEN 0 ELSE 1 END), m.starred IS NOT NULL, NULL"
)
_WANTED = WantedColumns(_ITEM)
_MARK = "LEFT JOIN mark m ON m.user_id = {user} AND m.feed_id = i.feed_id AND m.item_id = i.id "
_ITEMS = SelectByUserAndIds(
    f"SELECT {_ITEM} FROM item i LEFT JOIN subscription s ON s.user_id = {{user}} AND s.feed_id = i.feed_id "
    f"{_MARK} WHERE i.id IN {{ids}}"
)
# The same, of feeds that the person reads; the others are asked for one by one.
_MINE = SelectByUserAndIds(
    f"SELECT {_ITEM} FROM item i CROSS JOIN subscription s {_MARK} "
    "WHERE i.id IN {ids} AND s.user_id = {user} AND s.feed_id = i.feed_id"
)


class ShownPage(NamedTuple):
    """Items in order, the subscriptions they belong to by number (HIT + id for query feeds), and where to go on."""

    items: list[ShownItem]
    subscriptions: dict[int, Subscription]
    next: tuple[float, int] | None = None


def list_shown_items(connection: Connection, user_id: int, which: Stream, part: StreamQuery) -> ShownPage:
    """A part of a stream."""
    found = list_feed_positions(connection, user_id, which, part, _WANTED)
    items = {place[1]: ShownItem._make(place[2:]) for place in found if has_columns(place)}
    feeds = {one.feed_id for one in items.values()}
    mine, queries = subscribing.find_subscriptions_and_queries(connection, user_id, feeds)
    asked = [which.query] if which.query is not None else []
    if part.queries and which.query is None and which.feed is None:
        asked = [id for id, tags in queries if which.tag is None or which.tag in tags]
    found = merge_query_positions(connection, user_id, part, found, asked)
    order = [place[1] for place in found[: part.limit]]
    more = (found[part.limit - 1][0], found[part.limit - 1][1]) if len(found) > part.limit else None
    others = [id for id in order if id not in items]
    if others:
        items |= _load_shown(connection, user_id, others)
        mine += _find_subscriptions(connection, user_id, map(items.get, others), feeds)
    return _build_page(items, mine, order, more)


def find_shown_items(connection: Connection, user_id: int, ids: Sequence[int]) -> ShownPage:
    """Find the items among these that the reader may see, in the order given."""
    items: dict[int, ShownItem] = {}
    for chunk in chunks((id for id in ids if 0 <= id < HIT_ID_OFFSET), CHUNK):
        items.update((row[0], ShownItem._make(row)) for row in _MINE.run(connection, user_id, chunk))
    feeds = {one.feed_id for one in items.values()}
    mine, _ = subscribing.find_subscriptions_and_queries(connection, user_id, feeds) if feeds else ([], [])
    others = [id for id in ids if id not in items]
    if others:
        found = [_to_shown(one) for one in reader_items.find_reader_items(connection, user_id, others)]
        items.update((one.id, one) for one in found)
        mine += _find_subscriptions(connection, user_id, found, feeds)
    return _build_page(items, mine, list(dict.fromkeys(ids)), None)


def _find_subscriptions(
    connection: Connection, user_id: int, items: Iterable[ShownItem | None], besides: set[int]
) -> list[Subscription]:
    """Find the subscriptions that these belong to, except feeds that are known already."""
    every = [one for one in items if one is not None]
    feeds = {one.feed_id for one in every if one.query_id is None} - besides
    queries = {one.query_id for one in every if one.query_id is not None}
    return subscribing.find_subscriptions(connection, user_id, feeds, queries) if feeds or queries else []


def _build_page(
    items: Mapping[int, ShownItem], mine: Iterable[Subscription], order: Iterable[int], more: tuple[float, int] | None
) -> ShownPage:
    shown = [items[id] for id in order if id in items]
    return ShownPage(shown, {subscribing.subscription_number(one): one for one in mine}, more)


def _load_shown(connection: Connection, user_id: int, ids: Sequence[int]) -> dict[int, ShownItem]:
    found: dict[int, ShownItem] = {}
    for chunk in chunks((id for id in ids if id < HIT_ID_OFFSET), CHUNK):
        for row in _ITEMS.run(connection, user_id, chunk):
            found[row[0]] = ShownItem._make(row)
    hits = [id for id in ids if id >= HIT_ID_OFFSET]
    if hits:
        found |= {one.id: _to_shown(one) for one in reader_items.load_reader_items(connection, user_id, hits)}
    return found


def _to_shown(one: ReaderItem) -> ShownItem:
    item = one.item
    enclosures: list[Any] = [(each.url, each.type, each.length) for each in item.enclosures]
    return ShownItem(
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
