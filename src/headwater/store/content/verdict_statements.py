"""Sends the statements that save verdicts straight to the driver, many rows at a time; for verdicts alone.

SQLAlchemy looks at every value of every row, which would double the cost of a refresh. These classes compile a
statement once and hand plain tuples to sqlite3 or asyncpg, in the transaction of the connection. Values must be of
types that both drivers take as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from operator import itemgetter
from typing import Any, ClassVar

import orjson
from sqlalchemy import Connection, Executable, Table
from sqlalchemy.exc import DBAPIError

_MAX_PARAMETERS = 2048  # in one statement; SQLite and PostgreSQL take about 32,000


def _execute(connection: Connection, sql: str, values: Sequence[Any]) -> Sequence[Any]:
    """Execute a statement with the driver alone and return its rows."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        return driver.execute(sql, values).fetchall()  # type: ignore[no-any-return]
    with _driver_cursor(connection, sql) as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()  # type: ignore[no-any-return]


@contextmanager
def _driver_cursor(connection: Connection, sql: str) -> Iterator[Any]:
    """Yield a cursor of asyncpg; its errors are raised as SQLAlchemy would raise them."""
    held = connection.connection
    try:
        yield held.cursor()
    except Exception as error:
        driver: Any = held.driver_connection
        # A prepared statement fails after its tables have changed: a new connection prepares it anew.
        lost = driver.is_closed() or type(error).__name__ == "InvalidCachedStatementError"
        if lost:
            connection.invalidate(error)
        raise DBAPIError(sql, None, error, connection_invalidated=lost) from error
    except BaseException as error:  # cancelled: the next user of the connection would get the pending answer
        connection.invalidate(error)
        raise


class Savepoint:
    """A savepoint in the caller's transaction. There can be one at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Through SQLAlchemy, SQLite's two statements would cost as much as ten refreshes without news.
        self._nested = None if connection.dialect.name == "sqlite" else connection.begin_nested()
        if self._nested is None:
            _execute(connection, "SAVEPOINT here", ())

    def rollback(self) -> None:
        """Undo the changes since the savepoint."""
        if self._nested is None:
            _execute(self._connection, "ROLLBACK TO here", ())
            self.release()
        else:
            self._nested.rollback()

    def release(self) -> None:
        """Keep the changes since the savepoint."""
        if self._nested is None:
            _execute(self._connection, "RELEASE here", ())
        else:
            self._nested.commit()


class PreparedStatement:
    """A statement that SQLAlchemy compiles once for each dialect and the driver runs for many rows."""

    def __init__(self, build: Callable[[Connection], Executable], columns: Sequence[str]) -> None:
        self._build = build
        self._columns = list(columns)
        self._compiled: dict[str, tuple[str, list[str]]] = {}

    def run(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run the statement for every row, in one call of the driver."""
        statement, order = self._compile_for(connection)
        given = list(map(itemgetter(*order), rows))
        if given and connection.dialect.name == "sqlite":
            driver: Any = connection.connection.dbapi_connection
            driver.executemany(statement, given)
        elif given:
            with _driver_cursor(connection, statement) as cursor:
                cursor.executemany(statement, given)

    def _compile_for(self, connection: Connection) -> tuple[str, list[str]]:
        """Return the statement, and the names of its parameters in the order in which the driver takes them."""
        name = connection.dialect.name
        if name not in self._compiled:
            compiled: Any = self._build(connection).compile(  # type: ignore[attr-defined]
                dialect=connection.dialect, column_keys=self._columns
            )
            self._compiled[name] = (str(compiled), list(compiled.positiontup))
        return self._compiled[name]


class InsertMany:
    """INSERT with many rows per statement: a third of the cost of one statement per row.

    If a row is refused, the caller must roll back its transaction or a savepoint, because SQLite keeps the rows before
    it (OR FAIL). To undo a single statement SQLite would first copy every page that the statement changes.
    """

    _verbs: ClassVar = {"sqlite": "INSERT OR FAIL", "postgresql": "INSERT"}

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self._width = len(columns)
        self._max_rows = 1 << (_MAX_PARAMETERS // self._width).bit_length() - 1
        self._into = f"INTO {table.name} ({_quote_columns(columns)}) VALUES"
        self._statements: dict[tuple[str, int, str], str] = {}

    def run(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Insert the rows, whose values stand in the order of the columns."""
        for part in self._split(rows):
            self._send(connection, part)

    def _split(self, rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
        start = 0
        for size in _powers_of_two(
            len(rows), self._max_rows
        ):  # few sizes, so that the drivers can keep every statement prepared
            yield rows[start : start + size]
            start += size

    def _send(self, connection: Connection, rows: Sequence[Sequence[Any]], tail: str = "") -> Sequence[Any]:
        dialect, size = connection.dialect.name, len(rows)
        statement = self._statements.get((dialect, size, tail))
        if statement is None:
            statement = f"{self._verbs[dialect]} {self._into} {self._placeholders(dialect, size)}{tail}"
            self._statements[dialect, size, tail] = statement
        given: list[Any] = []
        for row in rows:
            given += row  # three times as fast as itertools.chain
        return _execute(connection, statement, given)

    def _placeholders(self, dialect: str, size: int) -> str:
        if dialect == "sqlite":
            return ", ".join([f"({', '.join('?' * self._width)})"] * size)
        numbers = (f"${k}" for k in range(1, size * self._width + 1))
        return ", ".join([f"({', '.join(islice(numbers, self._width))})" for _ in range(size)])


class InsertIgnored(InsertMany):
    """InsertMany with ON CONFLICT DO NOTHING RETURNING …, which tells which rows were new."""

    _verbs: ClassVar = {"sqlite": "INSERT", "postgresql": "INSERT"}

    def __init__(self, table: Table, columns: Sequence[str], returning: Sequence[str]) -> None:
        super().__init__(table, columns)
        self._returned = itemgetter(*(columns.index(name) for name in returning))
        self._returned_columns = itemgetter(*range(len(returning)))
        self._tail = f" ON CONFLICT DO NOTHING RETURNING {_quote_columns(returning)}"

    def run_returning(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> set[Any]:
        """Insert the rows and return the `returning` column, or a tuple of the columns, of those that were new."""
        return {one for part in self._split(rows) for one in self._run_part(connection, part)}

    def _run_part(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> Iterable[Any]:
        if connection.dialect.name == "sqlite":
            # Nearly always all rows are new, and SQLite saves a third of the time if it need not return them. If one
            # is not new, SQLite has undone this statement and nothing else.
            with suppress(sqlite3.IntegrityError):
                self._send(connection, rows)
                return map(self._returned, rows)
        return map(self._returned_columns, self._send(connection, rows, self._tail))


class SelectByIds:
    """A statement with a list of ids (`IN {ids}`) as its only parameter; the text does not depend on their number.

    `lock` is added for PostgreSQL (`FOR KEY SHARE`); SQLite has one writer and needs no row locks.
    """

    def __init__(self, statement: str, lock: str = "") -> None:
        self._sqlite = statement.replace("{ids}", "(SELECT value FROM json_each(?))")
        self._postgres = f"{statement.replace('IN {ids}', '= ANY($1::bigint[])')} {lock}"

    def run(self, connection: Connection, ids: Iterable[int]) -> Sequence[Any]:
        """Return the rows of these ids."""
        if connection.dialect.name == "sqlite":
            return _execute(connection, self._sqlite, (orjson.dumps(list(ids)).decode(),))
        return _execute(connection, self._postgres, (list(ids),))


class SelectByKeys:
    """SELECT by a primary key of two columns, a number and bytes; each row begins with the key.

    SQLite looks the keys up one by one: it would compare a list of pairs with every row of the table. PostgreSQL looks
    all of them up in one statement.
    """

    def __init__(self, table: Table, *columns: str) -> None:
        number, key = (column.name for column in table.primary_key)
        wanted = f"SELECT {_quote_columns([number, key, *columns])} FROM {table.name}"
        self._sqlite = f"{wanted} WHERE {number} = ? AND {key} = ?"
        self._postgres = f"{wanted} JOIN unnest($1::bigint[], $2::bytea[]) AS w (a, b) ON {number} = a AND {key} = b"

    def run(self, connection: Connection, pairs: Collection[tuple[int, bytes]]) -> list[tuple[Any, ...]]:
        """Return the rows of these keys."""
        if connection.dialect.name == "sqlite":
            driver: Any = connection.connection.dbapi_connection
            return [row for pair in pairs for row in driver.execute(self._sqlite, pair)]
        numbers, keys = [number for number, _ in pairs], [key for _, key in pairs]
        return [tuple(row) for row in _execute(connection, self._postgres, (numbers, keys))]


def _quote_columns(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)  # “window” is a reserved word of SQL


def _powers_of_two(count: int, largest: int) -> Iterator[int]:
    """Yield powers of two that add up to `count`; `largest`, a power of two, is the largest."""
    size = largest
    while count:
        while size > count:
            size //= 2
        yield size
        count -= size
