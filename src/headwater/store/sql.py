"""What the SQL of both databases differs in, in one place: upserts, and numbers reserved ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Insert, Table, text
from sqlalchemy.dialects import postgresql, sqlite

T = TypeVar("T")


def upsert(dialect: str, table: Table) -> Any:
    """INSERT that takes ON CONFLICT; SQLAlchemy has one class per database for it, alike in all we use."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def insert_new(dialect: str, table: Table) -> Insert:
    """INSERT that leaves rows alone which are already there."""
    statement: Insert = upsert(dialect, table).on_conflict_do_nothing()
    return statement


def reserve(connection: Connection, table: Table, count: int) -> Sequence[int]:
    """`count` ids for new rows of a table that nobody else gets, ascending. In the caller's writing transaction."""
    if connection.dialect.name == "sqlite":
        # We hold the only write lock, and AUTOINCREMENT moves the sequence to the highest id used.
        last = connection.execute(_SQLITE_LAST, {"table": table.name}).scalar() or 0
        return range(last + 1, last + 1 + count)
    column = next(iter(table.primary_key)).name
    return connection.execute(_POSTGRES_NEXT, {"table": table.name, "column": column, "count": count}).scalars().all()


_SQLITE_LAST = text("SELECT seq FROM sqlite_sequence WHERE name = :table")
_POSTGRES_NEXT = text(
    "SELECT nextval(pg_get_serial_sequence(:table, :column)) FROM generate_series(1, :count) ORDER BY 1"
)


def to_json(values: Sequence[Any]) -> str | None:
    """Lists are stored as JSON; most are empty, and those are NULL."""
    return orjson.dumps(values).decode() if values else None


def from_json(stored: str | None) -> Any:
    return orjson.loads(stored) if stored else ()


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """In lists of at most `size`; both databases limit the number of parameters of a statement."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk
