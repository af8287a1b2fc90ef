"""Builds statements for both SQL dialects: upserts, id lists, driver-level statements and reserved ids."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

import orjson
from sqlalchemy import Connection, Executable, Insert, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")

_MOST_PARAMETERS = 2048  # of a statement of many rows; SQLite takes 32,766 and PostgreSQL as many
PLACEHOLDERS = {"sqlite": "?", "postgresql": "$1"}  # the drivers' sign for one value


_NAMED_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z_0-9]*)")


@lru_cache(512)
def _number_parameters(sql: str) -> tuple[str, tuple[str, ...]]:
    """A statement by hand, of which there are a few dozen, as PostgreSQL's driver takes it: values by number."""
    names = tuple(dict.fromkeys(_NAMED_PARAMETER.findall(sql)))
    return _NAMED_PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", sql), names


def fetch_rows(connection: Connection, sql: str, values: Mapping[str, Any]) -> Sequence[Any]:
    """A statement by hand with values by name (`:name`), for the hot path: the rows as plain tuples.

    The drivers take such statements as they are, and SQLite answers a small one ten times as fast as through
    SQLAlchemy.
    """
    if connection.dialect.name == "sqlite":
        return execute_sqlite(connection, sql, values)
    numbered, names = _number_parameters(sql)
    return execute_postgres(connection, numbered, [values[name] for name in names])


def execute_sqlite(connection: Connection, sql: str, given: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    """Execute a statement with SQLite's driver alone, in the transaction of the connection."""
    driver: Any = connection.connection.dbapi_connection
    found: list[Any] = driver.execute(sql, given).fetchall()
    return found


def execute_postgres(connection: Connection, sql: str, given: Sequence[Any]) -> Sequence[Any]:
    """Execute a statement with PostgreSQL's driver, in the transaction of the connection: half the cost of
    SQLAlchemy for a small one."""
    with _driver_cursor(connection, sql) as cursor:
        cursor.execute(sql, given)
        return cursor.fetchall()  # type: ignore[no-any-return]


@contextmanager
def _driver_cursor(connection: Connection, sql: str) -> Iterator[Any]:
    """A cursor of PostgreSQL's driver, whose errors are told as SQLAlchemy tells them."""
    held = connection.connection
    try:
        yield held.cursor()
    except Exception as error:
        driver: Any = held.driver_connection
        # Tables that changed under a prepared statement: a new connection prepares it anew.
        lost = driver.is_closed() or type(error).__name__ == "InvalidCachedStatementError"
        if lost:
            connection.invalidate(error)
        raise DBAPIError(sql, None, error, connection_invalidated=lost) from error
    except BaseException as error:  # cancelled: what the server will yet say is not for whoever has it next
        connection.invalidate(error)
        raise


class Savepoint:
    """A point of the caller's transaction to which one can go back. One at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # By SQLite's driver alone: through SQLAlchemy the two statements cost as much as ten refreshes without news.
        self._nested = None if connection.dialect.name == "sqlite" else connection.begin_nested()
        if self._nested is None:
            execute_sqlite(connection, "SAVEPOINT here", ())

    def rollback(self) -> None:
        if self._nested is None:
            execute_sqlite(self._connection, "ROLLBACK TO here", ())
            self.release()
        else:
            self._nested.rollback()

    def release(self) -> None:
        """Keep the changes since the savepoint."""
        if self._nested is None:
            execute_sqlite(self._connection, "RELEASE here", ())
        else:
            self._nested.commit()


def upsert(dialect: str, table: Table) -> Any:
    """INSERT that takes ON CONFLICT; SQLAlchemy has one class per database for it, alike in all we use."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # a third of our start-up, for those who need it

    return postgresql.insert(table)


def insert_or_ignore(dialect: str, table: Table) -> Insert:
    """INSERT that leaves rows alone which are already there."""
    statement: Insert = upsert(dialect, table).on_conflict_do_nothing()
    return statement


class PreparedStatement:
    """A statement compiled once per database and run for many rows, without SQLAlchemy looking at each value.

    For the hot path only: values must be what the drivers take as they are.
    """

    def __init__(self, build: Callable[[str], Executable], columns: Sequence[str]) -> None:
        self._build = build
        self._columns = list(columns)
        self._compiled: dict[str, tuple[str, list[str]]] = {}

    def run(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """For every row, in one call of the driver."""
        statement, order = self._compile_for(connection)
        given = list(map(itemgetter(*order), rows))
        if given and connection.dialect.name == "sqlite":
            driver: Any = connection.connection.dbapi_connection
            driver.executemany(statement, given)
        elif given:
            with _driver_cursor(connection, statement) as cursor:
                cursor.executemany(statement, given)

    def _compile_for(self, connection: Connection) -> tuple[str, list[str]]:
        """The statement, and the names of its parameters in the order in which the driver takes them."""
        name = connection.dialect.name
        if name not in self._compiled:
            compiled: Any = self._build(name).compile(  # type: ignore[attr-defined]
                dialect=connection.dialect, column_keys=self._columns
            )
            self._compiled[name] = (str(compiled), list(compiled.positiontup))
        return self._compiled[name]


class InsertMany:
    """INSERT of many rows a statement, sent as the driver takes it: a third of the cost of as many statements.

    When a row is refused, the caller must take back what it has done, with its transaction or to a savepoint: in SQLite
    the rows before that one stay. To take them back by itself, it would first copy every page that a statement changes,
    which are as many as rows where an index is in another order.
    """

    _verbs: ClassVar = {"sqlite": "INSERT OR FAIL", "postgresql": "INSERT"}

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self._width = len(columns)
        self._most = 1 << (_MOST_PARAMETERS // self._width).bit_length() - 1
        self._into = f"INTO {table.name} ({_quote_columns(columns)}) VALUES"
        self._statements: dict[tuple[str, int, str], str] = {}

    def run(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Rows in the order of the columns."""
        for part in self._split(rows):
            self._send(connection, part)

    def _split(self, rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
        start = 0
        for size in _powers_of_two(len(rows), self._most):  # few sizes: the drivers remember as many statements
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
            given += row  # a third of what a chain takes
        if dialect == "sqlite":
            return execute_sqlite(connection, statement, given)
        return execute_postgres(connection, statement, given)

    def _placeholders(self, dialect: str, size: int) -> str:
        if dialect == "sqlite":
            return ", ".join([f"({', '.join('?' * self._width)})"] * size)
        numbers = (f"${k}" for k in range(1, size * self._width + 1))
        return ", ".join([f"({', '.join(islice(numbers, self._width))})" for _ in range(size)])


class InsertIgnored(InsertMany):
    """InsertMany with ON CONFLICT DO NOTHING RETURNING …: tells which rows were new."""

    _verbs: ClassVar = {"sqlite": "INSERT", "postgresql": "INSERT"}

    def __init__(self, table: Table, columns: Sequence[str], returning: Sequence[str]) -> None:
        super().__init__(table, columns)
        self._returned = itemgetter(*(columns.index(name) for name in returning))
        self._returned_columns = itemgetter(*range(len(returning)))
        self._tail = f" ON CONFLICT DO NOTHING RETURNING {_quote_columns(returning)}"

    def run_returning(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> set[Any]:
        """Rows in the order of the columns → the returned column, or columns, of those that were inserted."""
        return {one for part in self._split(rows) for one in self._run_part(connection, part)}

    def _run_part(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> Iterable[Any]:
        if connection.dialect.name == "sqlite":
            # Nearly always all are new, and not to be told so row by row saves a third. Where one is not, SQLite has
            # taken back the whole statement, and no more than that.
            with suppress(sqlite3.IntegrityError):
                self._send(connection, rows)
                return map(self._returned, rows)
        return map(self._returned_columns, self._send(connection, rows, self._tail))


class SelectByUser:
    """A statement of one person (`{user}`), sent as the driver takes it."""

    def __init__(self, statement: str) -> None:
        self._statement = {name: statement.replace("{user}", mark) for name, mark in PLACEHOLDERS.items()}

    def run(self, connection: Connection, user_id: int) -> Sequence[Any]:
        dialect = connection.dialect.name
        if dialect == "sqlite":
            return execute_sqlite(connection, self._statement[dialect], (user_id,))
        return execute_postgres(connection, self._statement[dialect], (user_id,))


class SelectByIds:
    """A statement of many ids (`IN {ids}`), the same text however many there are, sent as the driver takes it.

    `lock` is how PostgreSQL locks what it finds (`FOR KEY SHARE`); SQLite has one writer, who holds everything.
    """

    def __init__(self, statement: str, lock: str = "") -> None:
        self._sqlite = statement.replace("{ids}", "(SELECT value FROM json_each(?))")
        self._postgres = f"{statement.replace('IN {ids}', '= ANY($1::bigint[])')} {lock}"

    def run(self, connection: Connection, ids: Iterable[int]) -> Sequence[Any]:
        if connection.dialect.name == "sqlite":
            return execute_sqlite(connection, self._sqlite, (orjson.dumps(list(ids)).decode(),))
        return execute_postgres(connection, self._postgres, (list(ids),))


class SelectByKeys:
    """Rows by keys of two columns, a number and bytes; each row begins with them. Sent as the driver takes it.

    SQLite is asked for one after the other: a list of pairs, written as one condition, it compares with every row of
    the table. PostgreSQL is asked for all at once.
    """

    def __init__(self, table: Table, *columns: str) -> None:
        number, key = (column.name for column in table.primary_key)
        wanted = f"SELECT {_quote_columns([number, key, *columns])} FROM {table.name}"
        self._sqlite = f"{wanted} WHERE {number} = ? AND {key} = ?"
        self._postgres = f"{wanted} JOIN unnest($1::bigint[], $2::bytea[]) AS w (a, b) ON {number} = a AND {key} = b"

    def run(self, connection: Connection, pairs: Collection[tuple[int, bytes]]) -> list[tuple[Any, ...]]:
        if connection.dialect.name == "sqlite":
            driver: Any = connection.connection.dbapi_connection
            return [row for pair in pairs for row in driver.execute(self._sqlite, pair)]
        numbers, keys = [number for number, _ in pairs], [key for _, key in pairs]
        return [tuple(row) for row in execute_postgres(connection, self._postgres, (numbers, keys))]


class SelectByUserAndIds:
    """A statement of one person and many ids, the same text however many there are, sent as the driver takes it.

    `{user}` and `{ids}` stand where they go; for the hot path only.
    """

    def __init__(self, statement: str) -> None:
        self._statement = {
            "sqlite": statement.replace("{user}", "?1").replace("{ids}", "(SELECT value FROM json_each(?2))"),
            "postgresql": statement.replace("{user}", "$1").replace("IN {ids}", "= ANY($2::bigint[])"),
        }

    def run(self, connection: Connection, user_id: int, ids: Sequence[int]) -> Sequence[Any]:
        dialect = connection.dialect.name
        if dialect == "sqlite":
            return execute_sqlite(connection, self._statement[dialect], (user_id, orjson.dumps(list(ids)).decode()))
        return execute_postgres(connection, self._statement[dialect], (user_id, list(ids)))


def _quote_columns(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)  # “window” is a word of SQL too


def _powers_of_two(count: int, most: int) -> Iterator[int]:
    """Sizes that add up to `count`, at most `most` each, which is one of them."""
    size = most
    while count:
        while size > count:
            size //= 2
        yield size
        count -= size


def reserve_ids(connection: Connection, table: Table, count: int, *, announced: bool = False) -> Sequence[int]:
    """`count` ids for new rows of a table that nobody else gets, ascending. In the caller's writing transaction.

    `announced`, for items: until the transaction ends `horizon` knows beyond which id rows are still to come.
    """
    if connection.dialect.name == "sqlite":
        # We hold the only write lock, and AUTOINCREMENT moves the sequence to the highest id used.
        ((last,),) = execute_sqlite(connection, _SQLITE_LAST, (table.name,)) or ((0,),)
        return range(last + 1, last + 1 + count)
    given = {"table": table.name, "column": next(iter(table.primary_key)).name, "count": count}
    found = fetch_rows(connection, _RESERVE_ANNOUNCED if announced else _POSTGRES_NEXT, given)
    return [id for (id,) in found]


def find_last_settled_item(connection: Connection) -> int:
    """Return an id up to which every item is visible that ever will be: what is stored later is beyond it."""
    return last_visible_item_id(connection)[1]


def last_visible_item_id(connection: Connection) -> tuple[int, int]:
    """The newest item, and an id up to which every item is there that ever will be.

    SQLite has one writer. In PostgreSQL ids are taken in transactions that end in any order; each holds a lock that
    tells from where (`reserve`). Locks are looked at after the items: who had an id before the newest one and holds
    none has ended.
    """
    if connection.dialect.name == "sqlite":
        newest = fetch_rows(connection, "SELECT COALESCE(MAX(id), 0) FROM item", {})[0][0]
        return newest, newest
    newest, below = fetch_rows(connection, _LAST_VISIBLE, {})[0]
    return newest, newest if below is None else min(newest, below)


_SQLITE_LAST = "SELECT seq FROM sqlite_sequence WHERE name = ?"
_POSTGRES_NEXT = "SELECT nextval(pg_get_serial_sequence(:table, :column)) FROM generate_series(1, :count) ORDER BY 1"
# The first 16 bits of the lock's number say whose it is, the others are the id last taken.
_LOCK_SPACE = 0x4857
_RESERVE_ANNOUNCED = (
    f"WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({_LOCK_SPACE << 48} | "
    "COALESCE(pg_sequence_last_value(CAST(pg_get_serial_sequence(:table, :column) AS regclass)), 0)) AS it) "
    "SELECT nextval(pg_get_serial_sequence(:table, :column)) FROM held CROSS JOIN generate_series(1, :count) ORDER BY 1"
)
_LAST_VISIBLE = (
    "SELECT (SELECT COALESCE(MAX(id), 0) FROM item), (SELECT MIN((CAST(classid AS bigint) & 65535) << 32 | "
    "CAST(objid AS bigint)) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 "
    f"AND CAST(classid AS bigint) >> 16 = {_LOCK_SPACE} AND pid <> pg_backend_pid() "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


def to_json(values: Sequence[Any]) -> str | None:
    """Lists are stored as JSON; most are empty, and those are NULL."""
    return orjson.dumps(values).decode() if values else None


def from_json(stored: str | None) -> Any:
    return orjson.loads(stored) if stored else ()


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` values; both databases limit the number of parameters of a statement."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk
