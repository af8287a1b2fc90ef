"""Indexes items and searches them by full text.

Indexing costs several times as much as storing, so saving a verdict only queues its items, and `index_queued` indexes
them in batches; `search_items` catches up first. An item is either in `index_queue` or in the index as it now reads;
both change in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Text, bindparam, cast, delete, func, literal_column, select, text
from sqlalchemy import insert as insert_into

from headwater.errors import InputError
from headwater.model import Item
from headwater.query.items.required_words import Narrowing
from headwater.store import saved_state
from headwater.store.content.items import read_item, select_feeds_with_tag
from headwater.store.content.search_terms import (
    SearchTerm,
    index_fingerprint,
    keeps_symbols,
    list_index_words,
    needs_symbols,
    parse_search,
    to_fts5_query,
    to_narrow_query,
    to_tsquery,
    to_tsvector,
)
from headwater.store.content.verdict_statements import InsertMany
from headwater.store.database.dialect import (
    bind_ids,
    fetch_rows,
    from_json,
    has_id,
    insert_or_ignore,
    select_by_ids,
)
from headwater.store.schema.feed_tables import TRASHED_FEEDS
from headwater.store.schema.item_tables import index_queue, item, item_search
from headwater.store.schema.metadata import TsQuery
from headwater.store.store import Store


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page of a search: the items, latest arrival first, whether there are more, how many were not searched yet."""

    items: tuple[Item, ...]
    more: bool = False
    waiting: int = 0


CATCH_UP = 10  # batches that a search indexes before it answers
MAX_ID = 2**63 - 1  # above the id of every item
SYMBOL_PAGE = 500  # rows read at once when each is searched again for symbols
_QUEUE = InsertMany(index_queue, ["item_id"])
_INDEXED_COLUMNS = select(item.c.id, item.c.title, item.c.summary, item.c.content, item.c.authors, item.c.categories)
_INDEXED_COLUMNS_BY_ID = select_by_ids(_INDEXED_COLUMNS, item.c.id)
_ADD_WORDS = {
    "sqlite": text("INSERT INTO item_search (rowid, words) VALUES (:id, :words)"),
    "postgresql": text("INSERT INTO item_search (item_id, words) VALUES (:id, CAST(CAST(:words AS text) AS tsvector))"),
}
# A contentless FTS5 index must be given the indexed words again to delete them.
_FTS5_DELETE = text("INSERT INTO item_search (item_search, rowid, words) VALUES ('delete', :id, :words)")
_FTS5_DELETE_ALL = text("INSERT INTO item_search (item_search) VALUES ('delete-all')")
_DELETE_QUEUED = delete(index_queue).where(index_queue.c.item_id.in_(bindparam("ids", expanding=True)))
_HAS_QUEUED = select(select(index_queue.c.item_id).exists())
_FINGERPRINT_NAME = "search: made by"  # the saved state with the fingerprint of the index


def queue_for_indexing(connection: Connection, ids: Iterable[int]) -> None:
    """Queue items for indexing, in the caller's transaction."""
    _QUEUE.run(connection, [(id,) for id in ids])


def remove_from_index(connection: Connection, ids: Sequence[int]) -> None:
    """Take items out of the index while their rows still read as they were indexed; in the caller's transaction."""
    if connection.dialect.name == "sqlite":
        waiting = select(index_queue.c.item_id).where(index_queue.c.item_id.in_(ids))
        gone = _list_words(connection.execute(_INDEXED_COLUMNS.where(item.c.id.in_(ids), item.c.id.not_in(waiting))))
        if gone:
            connection.execute(_FTS5_DELETE, gone)
    else:
        connection.execute(delete(item_search).where(item_search.c.item_id.in_(ids)))
    connection.execute(delete(index_queue).where(index_queue.c.item_id.in_(ids)))


def reindex(connection: Connection, ids: Sequence[int]) -> None:
    """Take items that are about to change out of the index and queue them again, in the caller's transaction."""
    remove_from_index(connection, ids)
    connection.execute(insert_or_ignore(connection, index_queue), [{"item_id": id} for id in ids])


def index_queued(connection: Connection, limit: int = 500) -> int:
    """Index up to `limit` queued items, in the caller's transaction; returns how many."""
    waiting = select(index_queue.c.item_id).order_by(index_queue.c.item_id).limit(limit)
    if connection.dialect.name == "postgresql":
        waiting = waiting.with_for_update(skip_locked=True)  # several processes may index at once
    ids = connection.execute(waiting).scalars().all()
    if not ids:
        return 0
    dialect = connection.dialect.name
    rows = connection.execute(_INDEXED_COLUMNS_BY_ID[dialect], {"ids": bind_ids(connection, ids)}).all()
    words = _list_words(rows, to_tsvector if dialect == "postgresql" else str)
    if words:
        connection.execute(_ADD_WORDS[dialect], words)
    connection.execute(_DELETE_QUEUED, {"ids": ids})
    return len(ids)


def has_queued_items(connection: Connection) -> bool:
    """Tell whether items wait to be indexed, by one statement that locks nothing."""
    return bool(connection.execute(_HAS_QUEUED).scalar_one())


def _list_words(rows: Iterable[Sequence[Any]], encode: Callable[[str], str] = str) -> list[dict[str, Any]]:
    """Return the ids and index words of items, as parameters of a statement."""
    return [
        {
            "id": id,
            "words": encode(list_index_words(title, summary, content, from_json(authors), from_json(categories))),
        }
        for id, title, summary, content, authors, categories in rows
    ]


def rebuild_if_stale(connection: Connection) -> None:
    """Rebuild the index if this version makes words by other rules; in the caller's transaction."""
    made_by = index_fingerprint().encode()
    kept = saved_state.load_state(connection, _FINGERPRINT_NAME)
    if kept is None or kept[1] != made_by:
        rebuild_index(connection)


def rebuild_index(connection: Connection) -> None:
    """Empty the index and queue all items, in the caller's transaction."""
    if connection.dialect.name == "sqlite":
        connection.execute(_FTS5_DELETE_ALL)
    else:
        connection.execute(delete(item_search))
    connection.execute(delete(index_queue))
    connection.execute(insert_into(index_queue).from_select(["item_id"], select(item.c.id)))
    saved_state.save_state(connection, _FINGERPRINT_NAME, 1, index_fingerprint().encode(), 0.0)


def count_queued(connection: Connection) -> int:
    """Count the items that are not indexed yet."""
    return connection.execute(select(func.count()).select_from(index_queue)).scalar_one()


async def search_items(
    store: Store,
    text: str,
    *,
    limit: int = 50,
    feed_id: int | None = None,
    tag: str | None = None,
    before_id: int | None = None,
) -> SearchPage:
    """Find items that have all words; "a phrase", -without, begin*. The latest arrival comes first.

    The answers are the same on both databases, and no text is an error of syntax. Indexes up to 5,000 queued items
    first; `SearchPage.waiting` says how many are still not searched.
    """
    for _ in range(CATCH_UP):
        if not await store.write(index_queued):
            break
    return await store.read(find_matching_items, text, limit, feed_id, tag, before_id)


def find_matching_items(
    connection: Connection,
    words: str,
    limit: int,
    feed_id: int | None,
    tag: str | None,
    before_id: int | None,
) -> SearchPage:
    """Search the items that are indexed by now."""
    terms = require_search_terms(words)
    if not terms:
        return SearchPage(())
    query = select(item).where(item.c.id.in_(_select_indexed(connection.dialect.name, terms)))
    query = query.where(item.c.feed_id.not_in(TRASHED_FEEDS))
    query = query.order_by(item.c.id.desc())
    if feed_id is not None:
        query = query.where(item.c.feed_id == feed_id)
    if tag is not None:
        query = query.where(item.c.feed_id.in_(select_feeds_with_tag(tag)))

    def read_page(before: int | None, count: int) -> list[Item]:
        page = query if before is None else query.where(item.c.id < before)
        return [read_item(row) for row in connection.execute(page.limit(count))]

    found = collect_found(read_page, lambda one: one, terms, limit + 1, before_id)
    return SearchPage(tuple(found[:limit]), len(found) > limit, count_queued(connection))


_Row = TypeVar("_Row")


def collect_found(
    read_page: Callable[[int | None, int], list[_Row]],
    item_of: Callable[[_Row], Item],
    terms: list[SearchTerm],
    count: int,
    before: int | None,
) -> list[_Row]:
    """Read up to `count` rows, the latest first; each is searched again if a term has symbols."""
    if not needs_symbols(terms):
        return read_page(before, count)
    found: list[_Row] = []
    while len(found) < count:
        page = read_page(before, SYMBOL_PAGE)
        found += [row for row in page if keeps_symbols(item_of(row), terms)]
        if len(page) < SYMBOL_PAGE:
            break
        before = item_of(page[-1]).id
    return found[:count]


def require_search_terms(words: str) -> list[SearchTerm]:
    """Parse a typed search; InputError if all of its words are excluded ones."""
    terms = parse_search(words)
    if terms and all(term.without for term in terms):
        raise InputError("A search needs at least one word that is wanted, not only words that are not.")
    return terms


def _select_indexed(dialect: str, terms: list[SearchTerm]) -> Any:
    if dialect == "sqlite":
        table = text("SELECT rowid AS id FROM item_search WHERE item_search MATCH :match")
        return table.bindparams(match=to_fts5_query(terms)).columns(literal_column("id"))
    match = cast(cast(to_tsquery(terms), Text), TsQuery)
    return select(item_search.c.item_id).where(item_search.c.words.op("@@")(match))


# The index returns its rows in the order of ids, so only as many items are looked at as are shown.
_MATCHED_ITEMS = {
    "sqlite": "FROM item_search f CROSS JOIN item i{joined} "
    "WHERE f.item_search MATCH :match AND i.id = f.rowid AND f.rowid < :before{only} "
    "ORDER BY f.rowid DESC LIMIT :limit",
    "postgresql": "FROM item_search f JOIN item i ON i.id = f.item_id{joined} "
    "WHERE f.words @@ CAST({match} AS tsquery) AND f.item_id < :before{only} ORDER BY f.item_id DESC LIMIT :limit",
}
_WAITING_ITEMS = (
    "FROM index_queue f JOIN item i ON i.id = f.item_id WHERE f.item_id < :before{only} "
    "ORDER BY f.item_id DESC LIMIT :limit"
)


def match_items(dialect: str, match: str, joined: str = "", only: str = "") -> str:
    """Return the SQL that selects from the items `i` that match, with `:before` and `:limit`, on SQLite also `:match`.

    PostgreSQL plans by the words themselves only if they are part of the statement: with a parameter it soon reads the
    index from its end, which takes as long for a rare word as for all items.
    """
    words = match.replace("'", "''").replace(":", "\\:")
    return _MATCHED_ITEMS[dialect].format(match=f"'{words}'", joined=joined, only=only)


def list_narrowed_items(
    connection: Connection,
    narrowing: Narrowing,
    *,
    since: float,
    limit: int,
    feed_ids: Collection[int] | None = None,
    before_id: int | None = None,
) -> list[int]:
    """List the ids of the last `limit` stored items that have the words of a query, or are not indexed yet, in the
    order of arrival; with `feed_ids` only items of these feeds, with `before_id` those that arrived before an item."""
    dialect = connection.dialect.name
    only = " AND i.first_seen >= :since AND i.feed_id NOT IN (SELECT id FROM feed WHERE deleted_at IS NOT NULL)"
    match = to_narrow_query(narrowing, dialect)
    values: dict[str, Any] = {"match": match, "since": since, "limit": limit}
    values["before"] = MAX_ID if before_id is None else before_id
    if feed_ids is not None:
        only += f" AND {has_id(connection, 'i.feed_id')}"
        values["ids"] = bind_ids(connection, feed_ids)
    # Asked for by one condition, the databases would look at every item.
    places = (match_items(dialect, match, only=only), _WAITING_ITEMS.format(only=only))
    sql = " UNION ALL ".join([f"SELECT id FROM (SELECT i.id {place}) AS found" for place in places])
    return sorted({id for (id,) in fetch_rows(connection, sql, values)})[-limit:]
