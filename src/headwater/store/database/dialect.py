"""Builds statements that differ between SQLite and PostgreSQL, reads rows, and splits lists for both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import orjson
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Insert,
    Row,
    Select,
    Table,
    any_,
    bindparam,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects import sqlite

T = TypeVar("T")

_parse_sql = lru_cache(256)(text)  # parsing the text again each time would cost more than a small answer


def fetch_rows(connection: Connection, sql: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """Run a query with `:names` of values and return its rows.

    SQLite's driver knows such names itself: a small answer takes a sixth of the time that it takes by SQLAlchemy.
    """
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        rows: Sequence[Sequence[Any]] = driver.execute(sql, values).fetchall()
        return rows
    return connection.execute(_parse_sql(sql), values).all()


def build_from_row(kind: Callable[..., T], row: object, **others: Any) -> T:
    """Build a value whose fields are the columns of the same names, except for `others`."""
    names: tuple[str, ...] = kind.__match_args__  # type: ignore[attr-defined]  # of dataclasses and structs
    return kind(**{name: getattr(row, name) for name in names if name not in others}, **others)


def upsert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that takes ON CONFLICT, of the connection's dialect."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # takes a third of our start-up time, and SQLite does not need it

    return postgresql.insert(table)


def insert_or_ignore(connection: Connection, table: Table) -> Insert:
    """Return an INSERT that leaves existing rows as they are."""
    statement: Insert = upsert(connection, table).on_conflict_do_nothing()
    return statement


def claim_due(
    connection: Connection,
    table: Table,
    now: float,
    limit: int,
    changes: Mapping[str, Any],
    *where: ColumnElement[bool],
) -> list[Row[Any]]:
    """Change up to `limit` rows whose time `due` has come, and return them as they are then, by key.

    The longest due are chosen first. Rows that another process is claiming at this moment are left to it.
    """
    (key,) = table.primary_key
    due = select(key).where(table.c.due <= now, *where).order_by(table.c.due, key).limit(limit)
    chosen = due.with_for_update(skip_locked=True).cte("chosen")  # SQLite has one writer: no lock is compiled for it
    claim = update(table).where(key.in_(select(chosen.c[key.name]))).values(changes).returning(*table.columns)
    return sorted(connection.execute(claim), key=lambda row: row._mapping[key])


def select_by_ids(query: Select[Any], column: Column[int]) -> dict[str, Select[Any]]:
    """Return a query, by dialect, for the rows whose column is one of the parameter `ids`, as `bind_ids` makes it.

    It is one parameter for any number of ids: SQLAlchemy would render the statement anew for each list of them.
    """
    each = func.json_each(bindparam("ids")).table_valued("value")
    return {
        "sqlite": query.where(column.in_(select(each.c.value))),
        "postgresql": query.where(column == any_(bindparam("ids", type_=ARRAY(BigInteger)))),
    }


def bind_ids(connection: Connection, ids: Iterable[int]) -> str | list[int]:
    """Return ids as the parameter of `select_by_ids`: JSON for SQLite, an array for PostgreSQL."""
    return orjson.dumps(list(ids)).decode() if connection.dialect.name == "sqlite" else list(ids)


def has_id(connection: Connection, column: str) -> str:
    """Return the SQL that a column is one of the parameter `ids`, as `bind_ids` makes it."""
    if connection.dialect.name == "sqlite":
        return f"{column} IN (SELECT value FROM json_each(:ids))"
    return f"{column} = ANY(CAST(:ids AS bigint[]))"


def to_json(values: Sequence[Any]) -> str | None:
    """Return a list as JSON; an empty one, as most are, is NULL."""
    return orjson.dumps(values).decode() if values else None


def from_json(stored: str | None) -> Any:
    """Return the list stored by `to_json`."""
    return orjson.loads(stored) if stored else ()


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` values; both databases limit the number of parameters of a statement."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk
