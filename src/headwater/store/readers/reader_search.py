"""Searches the items of one reader by full text, in one query."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from sqlalchemy import Connection

from headwater.store.content import search
from headwater.store.content.search import SearchPage
from headwater.store.content.search_terms import SearchTerm, to_fts5_query, to_tsquery
from headwater.store.database.dialect import prepare_sql
from headwater.store.readers.reader_items import READER_ITEM_COLUMNS, ReaderItem, read_reader_item
from headwater.store.readers.stream_positions import join_columns
from headwater.store.readers.streams import HIT_ID_OFFSET, Stream
from headwater.store.store import Store

ALL = Stream()


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


# The index returns its rows in the order of ids, so only as many items are looked at as are shown.
_SEARCH_SOURCES = {
    "sqlite": "FROM item_search f CROSS JOIN item i CROSS JOIN subscription s "
    "WHERE f.item_search MATCH :match AND i.id = f.rowid AND f.rowid < :before",
    "postgresql": "FROM item_search f JOIN item i ON i.id = f.item_id CROSS JOIN subscription s "
    "WHERE f.words @@ CAST(CAST(:match AS text) AS tsquery) AND f.item_id < :before",
}


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
    only = ""
    if feed_id is not None:
        only, values["feed"] = " AND s.feed_id = :feed", feed_id
    if tag is not None:
        only += " AND s.feed_id IN (SELECT feed_id FROM subscription_tag WHERE user_id = :user AND tag = :tag)"
        values["tag"] = tag
    order = "f.rowid" if dialect == "sqlite" else "f.item_id"
    found = (
        f"SELECT 0 AS k, i.id AS id {_SEARCH_SOURCES[dialect]} AND s.user_id = :user AND s.feed_id = i.feed_id{only}"
    )
    found = f"{found} ORDER BY {order} DESC LIMIT :limit"
    sql = join_columns(f"(SELECT COUNT(*) FROM index_queue), {READER_ITEM_COLUMNS}", found)
    answer = sorted(connection.execute(prepare_sql(sql), values), key=itemgetter(1), reverse=True)
    return [row[3:] for row in answer], answer[0][2] if answer else search.count_queued(connection)
