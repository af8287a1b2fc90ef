"""Copies all rows from one database to another, of either kind, and compares them.

A copy reads one moment of the source and is one transaction of the target, so it is whole or not there, and others may
go on writing to the source. One side is always a SQLite file, read or written directly inside the other side's
transaction; between two PostgreSQL databases a temporary file stands in the middle.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec
from sqlalchemy import Connection, NullPool, Table, create_engine, delete, func, insert, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from headwater.errors import InputError, StoreError
from headwater.store.content import search
from headwater.store.database.driver_errors import describe_sqlite_error
from headwater.store.database.sqlite import parse_file
from headwater.store.opening import open_store
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.cluster_tables import job, lease, lesson, member, refresh_request
from headwater.store.schema.item_tables import index_queue
from headwater.store.schema.reader_tables import user

CopyProgress = Callable[[str, int, int], None]  # the step, rows done, rows in all

PIECE = 1000
PROCESS_TABLES = (lease, member, job, lesson, refresh_request)  # about processes that run now, not about stored data
# The queue of the search index is filled anew.
TABLES = [table for table in metadata.sorted_tables if table not in (index_queue, *PROCESS_TABLES)]
_MAY_HAVE_ROWS = {"alembic_version", "saved_state", "user"}  # in a database that has just been made


class CopiedRows(msgspec.Struct):
    """Rows of each table, equal on both sides."""

    rows: dict[str, int]


async def copy_database(source: str, target: str, progress: CopyProgress) -> CopiedRows:
    """Copy everything into the target, which must be empty. Both databases are brought up to date first."""
    from_file, to_file = _parse_address(source), _parse_address(target)
    if source == target or (from_file is not None and from_file == to_file):
        raise InputError("Source and target are the same database.")
    async with await open_store(source, create=False) as old, await open_store(target) as new:
        if from_file is not None:
            return CopiedRows(await new.write(copy_from_file, from_file, progress))
        if to_file is not None:
            return CopiedRows(await old.snapshot(copy_to_file, to_file, progress))
    with tempfile.TemporaryDirectory() as folder:
        middle = f"sqlite:///{folder}/headwater.sqlite"
        await copy_database(source, middle, progress)
        return await copy_database(middle, target, progress)


def _parse_address(url: str) -> Path | None:
    """Return the file of a SQLite address, None for PostgreSQL."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise InputError(f"“{url}” is not the address of a database. Give sqlite:///FILE or postgresql://…") from error
    return parse_file(parsed) if parsed.get_backend_name() == "sqlite" else None


def copy_from_file(target: Connection, file: Path, progress: CopyProgress) -> dict[str, int]:
    """Fill an empty database from a SQLite file."""
    with _translate_file_errors(file), open_file(file, "BEGIN") as source:
        return _copy_rows(source, target, progress)


def copy_to_file(source: Connection, file: Path, progress: CopyProgress) -> dict[str, int]:
    """Fill an empty SQLite file, whose tables exist, with one moment of a PostgreSQL database."""
    source.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    with _translate_file_errors(file), open_file(file, "BEGIN IMMEDIATE") as target:
        return _copy_rows(source, target, progress)


@contextmanager
def _translate_file_errors(file: Path) -> Iterator[None]:
    """Describe the errors of the file here; those of the other side belong to its own database."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise describe_sqlite_error(error.orig, file) from error
        raise


@contextmanager
def open_file(file: Path, begin: str) -> Iterator[Connection]:
    """Open a SQLite file beside the store, in one transaction, which ends with the block."""
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool, connect_args={"isolation_level": None})
    with engine.connect() as connection:
        connection.exec_driver_sql(begin)
        yield connection
        connection.exec_driver_sql("COMMIT")


def _copy_rows(source: Connection, target: Connection, progress: CopyProgress) -> dict[str, int]:
    require_empty(target, "The target")
    counts = count_rows(source)
    done, total = 0, sum(counts.values())
    for table in reversed(TABLES):
        target.execute(delete(table))  # the owner and the notes that a new database has
    for table in TABLES:
        for rows in source.execution_options(yield_per=PIECE).execute(select(table)).partitions():
            target.execute(insert(table), [dict(row._mapping) for row in rows])
            done += len(rows)
            progress(f"copying {table.name}", done, total)
    done = 0
    for table in TABLES:
        if _checksum_table(source, table) != _checksum_table(target, table):
            raise StoreError(f"The copy of {table.name} differs from the source; nothing is kept. Try again.")
        done += counts[table.name]
        progress(f"comparing {table.name}", done, total)
    _set_sequences(target, _read_sequences(source))
    search.rebuild_index(target)
    return counts


def require_empty(connection: Connection, where: str) -> None:
    """Raise StoreError for a database that has anything in it."""
    for name in inspect(connection).get_table_names():
        if name in _MAY_HAVE_ROWS or name.startswith("item_search"):
            continue
        if connection.execute(text(f'SELECT 1 FROM "{name}" LIMIT 1')).first():
            raise StoreError(f"{where} is not empty: it has rows in {name}. An empty database is needed.")
    if connection.execute(select(user.c.id).where(user.c.password.is_not(None)).limit(1)).first():
        raise StoreError(f"{where} has an owner with a password already. An empty database is needed.")


def count_rows(connection: Connection) -> dict[str, int]:
    """Count the rows of each table that is copied."""
    there = set(inspect(connection).get_table_names())  # an older backup may not have all
    counted = {table.name: select(func.count()).select_from(table) for table in TABLES if table.name in there}
    return {name: connection.execute(query).scalar_one() for name, query in counted.items()}


def _checksum_table(connection: Connection, table: Table) -> tuple[int, int]:
    """Return the number of rows, and a hash of them all that does not depend on their order."""
    number = total = 0
    for row in connection.execution_options(yield_per=PIECE).execute(select(table)):
        number += 1
        digest = blake2b(msgspec.msgpack.encode(tuple(row)), digest_size=16).digest()
        total = (total + int.from_bytes(digest, "big")) & ((1 << 128) - 1)
    return number, total


def _read_sequences(connection: Connection) -> dict[str, int]:
    """Read the last id given out in each table that numbers its rows."""
    if connection.dialect.name == "sqlite":
        found = connection.execute(text("SELECT name, seq FROM sqlite_sequence"))
        return {name: number for name, number in found if name in metadata.tables}
    numbers = {}
    for name, sequence in _find_sequences(connection):
        last, called = connection.execute(text(f"SELECT last_value, is_called FROM {sequence}")).one()
        if called:
            numbers[name] = last
    return numbers


def _set_sequences(connection: Connection, numbers: dict[str, int]) -> None:
    """Go on numbering where another database stopped."""
    if connection.dialect.name == "sqlite":
        for name, number in numbers.items():
            connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": name})
            values = {"name": name, "number": number}
            connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"), values)
        return
    for name, sequence in _find_sequences(connection):
        if name in numbers:
            values = {"sequence": sequence, "number": numbers[name]}
            connection.execute(text("SELECT setval(CAST(:sequence AS regclass), :number)"), values)


def _find_sequences(connection: Connection) -> list[tuple[str, str]]:
    """List (table, sequence) of the tables that number their rows in PostgreSQL."""
    query = text("SELECT pg_get_serial_sequence(:table, :column)")
    found = []
    for name, table in metadata.tables.items():
        columns = list(table.primary_key.columns)
        asked = {"table": f'"{name}"', "column": columns[0].name}
        if len(columns) == 1 and (sequence := connection.execute(query, asked).scalar()):
            found.append((name, sequence))
    return found
