"""Full-text search behind one function, and the index that follows behind the items.

Making words searchable costs several times what storing them costs, so `save` only notes which items are to be
indexed and `index` does it in batches; `Store.search` lets it catch up first. An item stands either in `unindexed` or
in the index as it now reads; both change in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Text, cast, delete, literal_column, select, text
from sqlalchemy import insert as insert_into

from headwater.errors import InputError
from headwater.model import Item
from headwater.store import state
from headwater.store.items import feeds_with, read_item
from headwater.store.sql import InsertMany, OfIds, from_json, insert_new, rows
from headwater.store.tables import TsQuery, item, item_search, unindexed
from headwater.store.values import Found
from headwater.store.words import Term, fingerprint, fts5_query, terms_of, tsquery, tsvector, words_of

_NOTE = InsertMany(unindexed, ["item_id"])
_WORDED = select(item.c.id, item.c.title, item.c.summary, item.c.content, item.c.authors, item.c.categories)
_FTS_ADD = "INSERT INTO item_search (rowid, words) VALUES (?, ?)"
_FTS_DELETE = "INSERT INTO item_search (item_search, rowid, words) VALUES ('delete', ?, ?)"
_TSVECTOR = "INSERT INTO item_search (item_id, words) VALUES ($1, $2::text::tsvector)"
_TO_INDEX = OfIds("SELECT id, title, summary, content, authors, categories FROM item WHERE id IN {ids}")
_INDEXED = OfIds("DELETE FROM unindexed WHERE item_id IN {ids}")
_ANYTHING = text("SELECT EXISTS (SELECT 1 FROM unindexed)")
_MADE_BY = "search: made by"  # the name in `state` of how the index was made


def note(connection: Connection, ids: Iterable[int]) -> None:
    """These items are to be indexed; in the caller's transaction."""
    _NOTE.run(connection, [(id,) for id in ids])


def forget(connection: Connection, ids: Sequence[int]) -> None:
    """Take items out of the index while their rows still read as they were indexed; in the caller's transaction."""
    if connection.dialect.name == "sqlite":
        # A contentless index wants the very words back that it was given.
        waiting = select(unindexed.c.item_id).where(unindexed.c.item_id.in_(ids))
        gone = _worded(connection.execute(_WORDED.where(item.c.id.in_(ids), item.c.id.not_in(waiting))))
        if gone:
            connection.exec_driver_sql(_FTS_DELETE, gone)
    else:
        connection.execute(delete(item_search).where(item_search.c.item_id.in_(ids)))
    connection.execute(delete(unindexed).where(unindexed.c.item_id.in_(ids)))


def renew(connection: Connection, ids: Sequence[int]) -> None:
    """Items are about to be changed: out of the index now, in again later; in the caller's transaction."""
    forget(connection, ids)
    connection.execute(insert_new(connection.dialect.name, unindexed), [{"item_id": id} for id in ids])


def index(connection: Connection, limit: int) -> int:
    """Index up to `limit` waiting items, in the caller's transaction; how many were done."""
    waiting = select(unindexed.c.item_id).order_by(unindexed.c.item_id).limit(limit)
    if connection.dialect.name == "postgresql":
        waiting = waiting.with_for_update(skip_locked=True)  # several processes may index at once
    ids = connection.execute(waiting).scalars().all()
    if not ids:
        return 0
    _add(connection, _worded(_TO_INDEX.run(connection, ids)))
    _INDEXED.run(connection, ids)
    return len(ids)


def anything_to_index(connection: Connection) -> bool:
    """Asked every other second while nothing happens: one statement that locks nothing."""
    return bool(connection.execute(_ANYTHING).scalar_one())


def _worded(found: Iterable[Sequence[Any]]) -> list[tuple[int, str]]:
    return [
        (id, words_of(title, summary, content, from_json(authors), from_json(categories)))
        for id, title, summary, content, authors, categories in found
    ]


def _add(connection: Connection, found: list[tuple[int, str]]) -> None:
    if not found:
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_FTS_ADD, found)
    else:
        connection.exec_driver_sql(_TSVECTOR, [(id, tsvector(words)) for id, words in found])


def renew_all_if_made_otherwise(connection: Connection) -> None:
    """Empty the index when words are made differently now, so that it is filled again; in the caller's transaction."""
    made_by = fingerprint().encode()
    kept = state.load(connection, _MADE_BY)
    if kept is None or kept[1] != made_by:
        renew_all(connection)


def renew_all(connection: Connection) -> None:
    """Empty the index, so that it is filled again; in the caller's transaction."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("INSERT INTO item_search (item_search) VALUES ('delete-all')")
    else:
        connection.execute(delete(item_search))
    connection.execute(delete(unindexed))
    connection.execute(insert_into(unindexed).from_select(["item_id"], select(item.c.id)))
    state.save(connection, _MADE_BY, 1, fingerprint().encode(), 0.0)


def waiting(connection: Connection) -> int:
    """How many items the index does not have yet."""
    number: int = rows(connection, WAITING, {})[0][0]
    return number


WAITING = "SELECT COUNT(*) FROM unindexed"


def search(
    connection: Connection,
    said: str,
    limit: int,
    feed_id: int | None,
    tag: str | None,
    before_id: int | None,
) -> Found:
    terms = wanted_terms(said)
    if not terms:
        return Found(())
    query = select(item).where(item.c.id.in_(_matching(connection.dialect.name, terms)))
    query = query.order_by(item.c.id.desc()).limit(limit + 1)
    if feed_id is not None:
        query = query.where(item.c.feed_id == feed_id)
    if tag is not None:
        query = query.where(item.c.feed_id.in_(feeds_with(tag)))
    if before_id is not None:
        query = query.where(item.c.id < before_id)
    found: list[Item] = [read_item(row) for row in connection.execute(query)]
    return Found(tuple(found[:limit]), len(found) > limit, waiting(connection))


def wanted_terms(said: str) -> list[Term]:
    """What was typed; InputError if all of it is what is not wanted."""
    terms = terms_of(said)
    if terms and all(term.without for term in terms):
        raise InputError("A search needs at least one word that is wanted, not only words that are not.")
    return terms


def _matching(dialect: str, terms: list[Term]) -> Any:
    if dialect == "sqlite":
        table = text("SELECT rowid AS id FROM item_search WHERE item_search MATCH :match")
        return table.bindparams(match=fts5_query(terms)).columns(literal_column("id"))
    return select(item_search.c.item_id).where(item_search.c.words.op("@@")(cast(cast(tsquery(terms), Text), TsQuery)))
