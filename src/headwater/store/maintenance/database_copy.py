"""Copies all rows from one database to another, of either kind, and compares them.

Rows go in the order of their keys. Each piece is one transaction of the target, which also notes the progress, so an
interrupted copy resumes where it stopped. At the end both sides are read again and compared row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, delete, insert, make_url, select, tuple_
from sqlalchemy.exc import ArgumentError

from headwater.errors import InputError, StoreError
from headwater.store import saved_state
from headwater.store.content import search
from headwater.store.maintenance import backup
from headwater.store.opening import open_store
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.cluster_tables import job, lease, lesson, member
from headwater.store.schema.item_tables import index_queue
from headwater.store.schema.item_tables import saved_state as state_table
from headwater.store.store import Store

Progress = Callable[[str, int, int], None]  # what is being done, rows done, rows in all

MARK, VERSION = "move", 1
PIECE = 1000
# Made anew (the index of words), or about processes that run now and not about what is stored.
_SKIPPED_TABLES = {index_queue.name, lease.name, member.name, job.name, lesson.name}
TABLES = [table for table in metadata.sorted_tables if table.name not in _SKIPPED_TABLES]


class CopyProgress(msgspec.Struct):
    """The progress of a copy: for each table that was begun, the last key, or None when it is complete."""

    source: str
    last: dict[str, list[Any] | None] = {}


class CopiedRows(msgspec.Struct):
    """Rows of each table, equal on both sides; `resumed` says that the move had been begun before."""

    rows: dict[str, int]
    resumed: bool


async def copy_database(source: str, target: str, now: float, progress: Progress) -> CopiedRows:
    """Move everything. The target must be empty, unless this very move was broken off there."""
    if _database_identity(source) == _database_identity(target):
        raise InputError("Source and target are the same database.")
    async with await open_store(source, create=False) as old, await open_store(target) as new:
        mark = await new.write(_begin_copy, _database_identity(source), now)
        resumed = bool(mark.last)
        counts = {table.name: await old.read(backup.count_all_rows, table) for table in TABLES}
        done, total = 0, sum(counts.values())
        for table in TABLES:
            name = table.name
            if name in mark.last and mark.last[name] is None:
                done += counts[name]
                continue
            while True:
                rows = await old.read(_read_piece, table, mark.last.get(name))
                await new.write(_write_piece, table, rows, mark, now)
                done += len(rows)
                progress(f"copying {name}", min(done, total), total)
                if len(rows) < PIECE:
                    break
        rows_equal = await _compare_databases(old, new, counts, progress)
        await new.write(backup.set_sequences, await old.read(backup.read_sequences))
        await new.write(_finish_copy)
    return CopiedRows(rows_equal, resumed)


def _database_identity(url: str) -> str:
    """An address by which a database is known again, without its password."""
    try:
        return make_url(url).set(password=None).render_as_string()
    except (ArgumentError, ValueError) as error:
        raise InputError(f"“{url}” is no address of a database. Give sqlite:///FILE or postgresql://…") from error


def _begin_copy(connection: Connection, source: str, now: float) -> CopyProgress:
    saved = saved_state.load_state(connection, MARK)
    if saved is not None:
        mark = msgspec.msgpack.decode(saved[1], type=CopyProgress)
        if mark.source == source:
            return mark
        raise StoreError(
            f"The target holds a part of another move, from {mark.source}. Finish that one, or give an empty database."
        )
    backup.require_empty(connection, "The target")
    _clear_tables(connection)  # what making the tables has put there
    mark = CopyProgress(source)
    saved_state.save_state(connection, MARK, VERSION, msgspec.msgpack.encode(mark), now)
    return mark


def _read_piece(connection: Connection, table: Table, after: list[Any] | None) -> list[tuple[Any, ...]]:
    keys = list(table.primary_key.columns)
    query = select(table).order_by(*keys).limit(PIECE)
    if after is not None:
        query = query.where(tuple_(*keys) > tuple_(*after) if len(keys) > 1 else keys[0] > after[0])
    return [tuple(row) for row in connection.execute(query)]


def _write_piece(
    connection: Connection, table: Table, rows: list[tuple[Any, ...]], mark: CopyProgress, now: float
) -> None:
    names = [column.name for column in table.columns]
    given = [dict(zip(names, row, strict=True)) for row in rows]
    if table.name not in mark.last:  # opening the target may have put something there since we began
        connection.execute(delete(table).where(state_table.c.name != MARK) if table is state_table else delete(table))
    if given:
        connection.execute(insert(table), given)
    keys = [column.name for column in table.primary_key.columns]
    mark.last[table.name] = [given[-1][key] for key in keys] if len(rows) == PIECE else None
    saved_state.save_state(connection, MARK, VERSION, msgspec.msgpack.encode(mark), now)


async def _compare_databases(old: Store, new: Store, counts: dict[str, int], progress: Progress) -> dict[str, int]:
    """Rows of each table; StoreError, and an empty target, where anything differs."""
    done, total, rows = 0, sum(counts.values()), {}
    for table in TABLES:
        here, there = await old.snapshot(_checksum_table, table), await new.snapshot(_checksum_table, table)
        if here != there:
            await new.write(_clear_tables)
            raise StoreError(
                f"After moving, {table.name} differs ({here[0]} rows here, {there[0]} there): something writes to "
                "the source. Stop it and move again; the target was emptied."
            )
        rows[table.name] = here[0]
        done += counts[table.name]
        progress(f"comparing {table.name}", min(done, total), total)
    return rows


def _checksum_table(connection: Connection, table: Table) -> tuple[int, int]:
    """Return the number of rows, and a hash of them all that does not depend on their order."""
    number = total = 0
    for row in _checksum_tables(connection, table):
        number += 1
        digest = blake2b(msgspec.msgpack.encode(row), digest_size=16).digest()
        total = (total + int.from_bytes(digest, "big")) & ((1 << 128) - 1)
    return number, total


def _checksum_tables(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    query = select(table)
    if table is state_table:
        query = query.where(state_table.c.name != MARK)
    for row in connection.execution_options(yield_per=PIECE).execute(query):
        yield tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)


def _clear_tables(connection: Connection) -> None:
    for table in reversed(TABLES):
        connection.execute(delete(table))


def _finish_copy(connection: Connection) -> None:
    connection.execute(delete(state_table).where(state_table.c.name == MARK))
    search.rebuild_index(connection)
