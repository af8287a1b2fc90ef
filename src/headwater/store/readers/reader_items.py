"""Loads items as one reader has them (read, starred, visible), and searches them by full text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import BindParameter, Connection, and_, bindparam, select

from headwater.model import Item
from headwater.store.content import search
from headwater.store.content.feeds import hide_fetch_addresses
from headwater.store.content.items import ITEM_COLUMNS, read_item
from headwater.store.content.search import SearchPage
from headwater.store.content.search_terms import SearchTerm, to_fts5_query, to_tsquery
from headwater.store.database.dialect import bind_ids, chunks, fetch_rows, select_by_ids
from headwater.store.queries import hits
from headwater.store.readers.accounts import User
from headwater.store.readers.stream_positions import (
    HIT_ID_OFFSET,
    Stream,
    StreamQuery,
    has_columns,
    join_columns,
    list_stream_positions,
)
from headwater.store.readers.subscriptions import Subscription, find_subscriptions
from headwater.store.schema.item_tables import item
from headwater.store.schema.query_tables import hit
from headwater.store.schema.reader_tables import item_label, mark, query_subscription, subscription
from headwater.store.store import Store


class ReaderItem(msgspec.Struct, frozen=True):
    """An item as one reader has it. In a query feed, `hit_id` is the hit, and `item` is as the query feed shows it."""

    item: Item
    read: bool
    starred: bool
    query_id: int | None = None
    hit_id: int | None = None
    arrived: float = 0.0

    @property
    def id(self) -> int:
        """The id in a stream: that of the item, or that of the hit plus HIT_ID_OFFSET."""
        return HIT_ID_OFFSET + self.hit_id if self.hit_id is not None else self.item.id or 0


@dataclass(frozen=True, slots=True)
class StreamPage:
    """A page of a stream; pass `next` as `before` to get the following one, None at the end."""

    items: tuple[ReaderItem, ...] = ()
    next: tuple[float, int] | None = None


CHUNK = 1000
ALL, DEFAULT_PART = Stream(), StreamQuery()
MAX_ITEMS = 10_000  # of a page, even if more are requested
READER_ITEM_COLUMNS = f"{', '.join(f'i.{name}' for name in ITEM_COLUMNS)}, m.state, m.starred, s.read_up_to"
_MARK_COLUMNS = (mark.c.state, mark.c.starred, subscription.c.read_up_to)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)


def list_reader_items(
    connection: Connection, user_id: int, stream: Stream = ALL, part: StreamQuery = DEFAULT_PART
) -> StreamPage:
    """List a page of a stream as one reader has its items; at most 10,000 of them."""
    part = replace(part, limit=max(1, min(part.limit, MAX_ITEMS)))
    found = list_stream_positions(connection, user_id, stream, part, READER_ITEM_COLUMNS)
    shown = found[: part.limit]
    more = (shown[-1][0], shown[-1][1]) if len(found) > part.limit and shown else None
    items = {place[1]: read_reader_item(place[2:]) for place in shown if has_columns(place)}
    if len(items) < len(shown):
        rest = [place[1] for place in shown if not has_columns(place)]
        items |= {one.id: one for one in load_reader_items(connection, user_id, rest)}
    return StreamPage(tuple([items[place[1]] for place in shown if place[1] in items]), more)


def find_subscriptions_of_items(
    connection: Connection, user_id: int, items: Iterable[ReaderItem]
) -> list[Subscription]:
    """Find a reader's subscriptions that these items belong to."""
    feeds: set[int] = set()
    queries: set[int] = set()
    for one in items:
        if one.query_id is None:
            feeds.add(one.item.feed_id)
        else:
            queries.add(one.query_id)
    return find_subscriptions(connection, user_id, feeds, queries)


def load_reader_items(connection: Connection, user_id: int, ids: Sequence[int]) -> list[ReaderItem]:
    """Load items as the reader has them, in the order given, without a check of permissions."""
    found, _ = _load_items(connection, user_id, ids)
    found |= _load_hits(connection, user_id, ids)
    return [found[id] for id in dict.fromkeys(ids) if id in found]


def _load_items(connection: Connection, user_id: int, ids: Iterable[int]) -> tuple[dict[int, ReaderItem], list[int]]:
    """Load items by id; also returns those of feeds that the reader does not subscribe to."""
    found: dict[int, ReaderItem] = {}
    others: list[int] = []
    for chunk in chunks((id for id in ids if id < HIT_ID_OFFSET), CHUNK):
        given = {"user": user_id, "ids": bind_ids(connection, chunk)}
        for row in connection.execute(_ITEMS_BY_ID[connection.dialect.name], given).all():
            found[row[0]] = read_reader_item(row)
            if row[-1] is None:
                others.append(row[0])
    _hide_fetch_addresses(connection, found, others)
    return found, others


def hide_foreign_addresses(connection: Connection, reader: User, items: Sequence[Item]) -> list[Item]:
    """Return the items without the addresses of feeds to which the user does not subscribe; owners see all feeds."""
    if reader.is_owner:
        return list(items)
    feeds = list({one.feed_id for one in items})
    mine = {found.feed_id for found in find_subscriptions(connection, reader.id, feeds, ())}
    hidden = iter(hide_fetch_addresses(connection, [one for one in items if one.feed_id not in mine]))
    return [one if one.feed_id in mine else next(hidden) for one in items]


def _hide_fetch_addresses(connection: Connection, found: dict[int, ReaderItem], others: Sequence[int]) -> None:
    """Hide the addresses of feeds in their items `others`: the reader does not subscribe to these feeds."""
    hidden = hide_fetch_addresses(connection, [found[id].item for id in others])
    for id, shown in zip(others, hidden, strict=True):
        found[id] = msgspec.structs.replace(found[id], item=shown)


def read_reader_item(row: Sequence[Any]) -> ReaderItem:
    """Build an item from a row with `READER_ITEM_COLUMNS`."""
    state, starred, read_up_to = row[-3:]
    item = read_item(row)
    read = row[0] <= (read_up_to or 0) if state is None else state == 1
    return ReaderItem(item, read, starred is not None, None, None, item.first_seen)


def _load_hits(connection: Connection, user_id: int, ids: Iterable[int]) -> dict[int, ReaderItem]:
    """Load the hits among these ids."""
    found: dict[int, ReaderItem] = {}
    others: list[int] = []
    for chunk in chunks((id - HIT_ID_OFFSET for id in ids if id >= HIT_ID_OFFSET), CHUNK):
        states = {row.id: row for row in connection.execute(_HIT_STATES, {"user": user_id, "ids": chunk})}
        for one in hits.find_hits(connection, chunk):
            state = states.get(one.id)
            starred = state is not None and state.starred is not None
            found[HIT_ID_OFFSET + one.id] = ReaderItem(
                one.item, _is_hit_read(state), starred, one.query_id, one.id, one.arrived
            )
            if state is None or state.read_up_to is None:
                others.append(HIT_ID_OFFSET + one.id)
    _hide_fetch_addresses(connection, found, others)
    return found


_MY_SUBSCRIPTION = and_(subscription.c.user_id == bindparam("user"), subscription.c.feed_id == item.c.feed_id)
_MY_MARK = and_(mark.c.user_id == bindparam("user"), mark.c.feed_id == item.c.feed_id, mark.c.item_id == item.c.id)
_ITEMS_BY_ID = select_by_ids(
    select(*item.columns, *_MARK_COLUMNS).select_from(
        item.outerjoin(subscription, _MY_SUBSCRIPTION).outerjoin(mark, _MY_MARK)
    ),
    item.c.id,
)
_HIT_STATES = (
    select(hit.c.id, hit.c.item_id, *_MARK_COLUMNS, query_subscription.c.read_up_to.label("query_read_up_to"))
    .select_from(
        hit.outerjoin(
            query_subscription,
            and_(query_subscription.c.user_id == bindparam("user"), query_subscription.c.query_id == hit.c.query_id),
        )
        .outerjoin(
            subscription, and_(subscription.c.user_id == bindparam("user"), subscription.c.feed_id == hit.c.feed_id)
        )
        .outerjoin(
            mark,
            and_(
                mark.c.user_id == bindparam("user"),
                mark.c.feed_id == hit.c.feed_id,
                mark.c.item_id == hit.c.item_id,
            ),
        )
    )
    .where(hit.c.id.in_(_IDS))
)


def _is_hit_read(row: Any) -> bool:
    if row is None:
        return False
    if row.state is not None:
        return bool(row.state == 1)
    return bool(row.id <= (row.query_read_up_to or 0) or row.item_id <= (row.read_up_to or 0))


def find_reader_items(connection: Connection, user_id: int, ids: Iterable[int]) -> list[ReaderItem]:
    """Find the items among these that the reader may see: of subscribed feeds and query feeds, starred or labelled."""
    every = list(dict.fromkeys(ids))
    found, others = _load_items(connection, user_id, (id for id in every if id >= 0))
    for id in set(others) - _find_otherwise_visible(connection, user_id, others):
        del found[id]
    places = [id for id in every if id >= HIT_ID_OFFSET]
    if places:
        found |= _load_hits(connection, user_id, find_visible(connection, user_id, places))
    return [found[id] for id in every if id in found]


def find_visible(connection: Connection, user_id: int, ids: Collection[int]) -> dict[int, tuple[int, int]]:
    """Find the ids among these that the reader may see, with the feed and item of each."""
    found: dict[int, tuple[int, int]] = {}
    others: list[int] = []
    for chunk in chunks((id for id in ids if 0 <= id < HIT_ID_OFFSET), CHUNK):
        given = {"user": user_id, "ids": bind_ids(connection, chunk)}
        for id, feed_id, mine in connection.execute(_FEEDS_OF_ITEMS[connection.dialect.name], given):
            found[id] = (feed_id, id)
            if mine is None:
                others.append(id)
    for id in set(others) - _find_otherwise_visible(connection, user_id, others):
        del found[id]
    for chunk in chunks((id - HIT_ID_OFFSET for id in ids if id >= HIT_ID_OFFSET), CHUNK):
        for id, feed_id, item_id in connection.execute(_MY_HITS, {"user": user_id, "ids": chunk}):
            found[HIT_ID_OFFSET + id] = (feed_id, item_id)
    return found


def _find_otherwise_visible(connection: Connection, user_id: int, others: Iterable[int]) -> set[int]:
    """Find items of feeds not subscribed that a query feed shows, or that are starred or labelled."""
    seen: set[int] = set()
    for chunk in chunks(others, CHUNK):
        seen.update(connection.execute(_THROUGH_QUERIES, {"user": user_id, "ids": chunk}).scalars())
        seen.update(connection.execute(_STARRED, {"user": user_id, "ids": chunk}).scalars())
        seen.update(connection.execute(_LABELLED, {"user": user_id, "ids": chunk}).scalars())
    return seen


_FEEDS_OF_ITEMS = select_by_ids(
    select(item.c.id, item.c.feed_id, subscription.c.feed_id).select_from(
        item.outerjoin(subscription, _MY_SUBSCRIPTION)
    ),
    item.c.id,
)
_MY_QUERIES = select(query_subscription.c.query_id).where(query_subscription.c.user_id == bindparam("user"))
_THROUGH_QUERIES = select(hit.c.item_id).where(hit.c.item_id.in_(_IDS), hit.c.query_id.in_(_MY_QUERIES), hit.c.current)
_STARRED = select(mark.c.item_id).where(
    mark.c.user_id == bindparam("user"),
    mark.c.item_id.in_(_IDS),
    mark.c.starred.is_not(None),
)
_LABELLED = select(item_label.c.item_id).where(
    item_label.c.user_id == bindparam("user"), item_label.c.item_id.in_(_IDS)
)
_MY_HITS = select(hit.c.id, hit.c.feed_id, hit.c.item_id).where(
    hit.c.id.in_(_IDS), hit.c.query_id.in_(_MY_QUERIES), hit.c.current
)


async def search_reader_items(
    store: Store, user_id: int, words: str, stream: Stream = ALL, *, limit: int = 50, before_id: int | None = None
) -> tuple[SearchPage, list[ReaderItem]]:
    """Search the items of one reader, as `search_items` does. Indexes queued items first if there are any."""
    wanted = (user_id, words, stream, max(1, min(limit, 1000)), before_id)
    found = await store.read(find_matching_reader_items, *wanted)
    if not found[0].waiting:
        return found
    for _ in range(search.CATCH_UP):
        if not await store.write(search.index_queued):
            break
    return await store.read(find_matching_reader_items, *wanted)


def find_matching_reader_items(
    connection: Connection, user_id: int, words: str, stream: Stream, limit: int, before_id: int | None
) -> tuple[SearchPage, list[ReaderItem]]:
    """Search the items that are indexed by now."""
    terms = search.require_search_terms(words)
    if not terms:
        return SearchPage(()), []
    waiting = 0

    def read_page(before: int | None, count: int) -> list[ReaderItem]:
        nonlocal waiting
        last = HIT_ID_OFFSET if before is None else before
        rows, waiting = _search_rows(connection, terms, count, user_id, stream.feed, stream.tag, last)
        return [read_reader_item(row) for row in rows]

    found = search.collect_found(read_page, lambda one: one.item, terms, limit + 1, before_id)
    page = SearchPage(tuple(one.item for one in found[:limit]), len(found) > limit, waiting)
    return page, found[:limit]


def _search_rows(
    connection: Connection,
    terms: list[SearchTerm],
    limit: int,
    user_id: int,
    feed_id: int | None,
    tag: str | None,
    before: int,
) -> tuple[list[Any], int]:
    """Return rows of `READER_ITEM_COLUMNS`, the latest arrival first, and how many items are not indexed yet."""
    dialect = connection.dialect.name
    match = to_fts5_query(terms) if dialect == "sqlite" else to_tsquery(terms)
    values: dict[str, Any] = {"match": match, "before": before, "user": user_id, "limit": limit}
    only = " AND s.user_id = :user AND s.feed_id = i.feed_id"
    if feed_id is not None:
        only, values["feed"] = f"{only} AND s.feed_id = :feed", feed_id
    if tag is not None:
        only += " AND s.feed_id IN (SELECT feed_id FROM subscription_tag WHERE user_id = :user AND tag = :tag)"
        values["tag"] = tag
    matched = search.match_items(dialect, match, " CROSS JOIN subscription s", only)
    found = f"SELECT 0 AS k, i.id AS id {matched}"
    sql = join_columns(f"(SELECT COUNT(*) FROM index_queue), {READER_ITEM_COLUMNS}", found)
    answer = sorted(fetch_rows(connection, sql, values), key=itemgetter(1), reverse=True)
    return [row[3:] for row in answer], answer[0][2] if answer else search.count_queued(connection)
