"""Writes a database to a backup, which is a compressed SQLite database, and restores it into either kind of database.

    zstd -d < headwater.backup > headwater.sqlite

A backup is one moment while others go on writing: from SQLite by VACUUM INTO, from PostgreSQL as a copy of all rows. A
row in `saved_state` says when and by which version it was made. Files appear under their names only when complete.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import msgspec
import zstandard
from sqlalchemy import delete, inspect, make_url, text
from sqlalchemy.exc import DBAPIError

from headwater import __version__
from headwater.errors import InputError, StoreError
from headwater.private_files import make_private_folder, open_private_file
from headwater.store import saved_state
from headwater.store.database.driver_errors import describe_sqlite_error, translate_sqlite_errors
from headwater.store.database.migrate import HEAD, read_schema_version
from headwater.store.database.sqlite import parse_file
from headwater.store.maintenance.database_copy import (
    PROCESS_TABLES,
    copy_from_file,
    copy_to_file,
    count_rows,
    open_file,
)
from headwater.store.opening import open_store
from headwater.store.schema.item_tables import saved_state as state_table

BackupProgress = Callable[[int, int], None]  # steps done, steps in all: rows or megabytes

LEVEL = 6
NOTE = "backup"  # in saved_state
_IS_NOTE = state_table.c.name == NOTE
_PIECE = 1 << 16
_MEGABYTE = 1_000_000
_ZSTD, _SQLITE = b"\x28\xb5\x2f\xfd", b"SQLite format 3\x00"


class BackupNote(msgspec.Struct, frozen=True):
    """The row that makes a SQLite database a backup."""

    taken: float
    version: str  # of the program that wrote it
    database: str  # sqlite or postgresql


class Backup(msgspec.Struct, frozen=True):
    """A backup: its note, the version of its tables, and how many rows each has."""

    note: BackupNote
    tables: str
    counts: dict[str, int]


async def write_backup(url: str, file: Path, now: float, progress: BackupProgress, *, replace: bool = False) -> Backup:
    """Write the database to a file, also while a server uses it."""
    source = make_url(url)
    async with await open_store(url, create=False) as store:
        with _make_files(file, replace) as (plain, part):
            if source.get_backend_name() == "sqlite":
                await asyncio.to_thread(_vacuum_into, parse_file(source), plain, progress)
            else:
                async with await open_store(f"sqlite:///{plain}"):
                    await store.snapshot(copy_to_file, plain, lambda _, done, total: progress(done, total))
            made = _mark_as_backup(plain, BackupNote(now, __version__, source.get_backend_name()))
            await asyncio.to_thread(_compress, plain, part, progress)
    return made


@contextmanager
def _make_files(file: Path, replace: bool) -> Iterator[tuple[Path, Path]]:
    """Make temporary files for the database and its compressed form; after success the latter gets its final name."""
    with _translate_disk_errors(f"The backup {file}"):
        if file.is_dir():
            raise InputError(f"{file} is a folder. Give the name of a file for the backup.")
        plain, part = (file.with_name(f"{file.name}.{ending}") for ending in ("sqlite", "part"))
        if file.exists() and not replace:
            raise InputError(f"{file} is there already. Choose another name, or replace it by --force.")
        try:
            for new in (plain, part):
                _remove_database(new)
                new.touch(0o600)  # password hashes and private feeds are inside
            yield plain, part
            part.replace(file)
        finally:
            _remove_database(plain)
            _remove_database(part)


def _vacuum_into(source: Path, target: Path, progress: BackupProgress) -> None:
    total = max(source.stat().st_size // _MEGABYTE, 1)

    def report() -> None:
        progress(min(target.stat().st_size // _MEGABYTE, total), total)

    with translate_sqlite_errors(target), closing(sqlite3.connect(source, isolation_level=None)) as connection:
        connection.set_progress_handler(report, 1_000_000)
        connection.execute("VACUUM INTO ?", (str(target),))


def _mark_as_backup(file: Path, note: BackupNote) -> Backup:
    with translate_sqlite_errors(file):
        with open_file(file, "BEGIN IMMEDIATE") as connection:
            for table in PROCESS_TABLES:
                connection.execute(delete(table))
            made = Backup(note, HEAD, count_rows(connection))
            saved_state.save_state(connection, NOTE, 1, msgspec.json.encode(note), note.taken)
        with closing(sqlite3.connect(file)) as raw:
            raw.execute(
                "PRAGMA journal_mode = DELETE"
            )  # a copy of rows leaves WAL mode, which readers cannot open alone
    return made


def _compress(source: Path, target: Path, progress: BackupProgress) -> None:
    size = source.stat().st_size
    with source.open("rb") as plain, open_private_file(target) as raw:
        compressor = zstandard.ZstdCompressor(LEVEL, write_checksum=True)
        with compressor.stream_writer(raw, size=size, closefd=False) as packed:
            while piece := plain.read(_PIECE):
                packed.write(piece)
                progress(plain.tell() // _MEGABYTE, size // _MEGABYTE)
        raw.flush()
        os.fsync(raw.fileno())


async def check_backup(file: Path, progress: BackupProgress) -> Backup:
    """Unpack a backup into a temporary file and read all of it; InputError if it is damaged or not a backup."""
    with tempfile.TemporaryDirectory() as folder:
        return await asyncio.to_thread(_unpack, file, Path(folder, "headwater.sqlite"), progress)


async def restore_backup(file: Path, url: str, progress: BackupProgress) -> Backup:
    """Restore into a SQLite file, which must not exist, or a PostgreSQL database, which must be empty."""
    target = make_url(url)
    if target.get_backend_name() == "sqlite":
        with _make_database(parse_file(target)) as part:
            found = await asyncio.to_thread(_unpack, file, part, progress)
            async with await open_store(f"sqlite:///{part}"):  # brings the tables up to date
                return found
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "headwater.sqlite")
        found = await asyncio.to_thread(_unpack, file, plain, progress)
        async with await open_store(f"sqlite:///{plain}"), await open_store(url) as store:
            await store.write(copy_from_file, plain, lambda _, done, total: progress(done, total))
    return found


@contextmanager
def _make_database(database: Path) -> Iterator[Path]:
    """Make a file that gets the name of the database when the block ends, or is removed."""
    if database.exists():
        raise StoreError(
            f"There is a database at {database} already. Restore into another folder by --data, or move that one away."
        )
    part = database.with_name(f"{database.name}.restoring")
    with _translate_disk_errors(f"The database {database}"):
        try:
            make_private_folder(part.parent)
            _remove_database(part)
            yield part
            part.rename(database)
        finally:
            _remove_database(part)


def _unpack(file: Path, target: Path, progress: BackupProgress) -> Backup:
    """Unpack a backup into a new SQLite file and check it."""
    try:
        raw = file.open("rb")
    except OSError as error:
        raise InputError(f"The backup {file} cannot be read: {error.strerror or error}.") from error
    with raw, _translate_disk_errors(f"The database {target}"):
        if raw.read(len(_ZSTD)) != _ZSTD:
            raise _no_backup(file)
        raw.seek(0)
        target.touch(0o600)
        with target.open("wb") as plain:
            _decompress(raw, plain, file, progress)
    with target.open("rb") as plain:
        if plain.read(len(_SQLITE)) != _SQLITE:
            raise _no_backup(file)
    try:
        return _take_note_out(file, target)
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise describe_sqlite_error(error.orig or error, target) from error
        raise _damage(file, "the database in it cannot be read") from error


def _take_note_out(file: Path, plain: Path) -> Backup:
    """Check the database of a backup and make it an ordinary one."""
    with open_file(plain, "BEGIN IMMEDIATE") as connection:
        tables, note = read_schema_version(connection), None
        if inspect(connection).has_table(state_table.name):
            note = connection.execute(delete(state_table).where(_IS_NOTE).returning(state_table.c.blob)).scalar()
        if tables is None or note is None:
            raise _no_backup(file)
        found = Backup(msgspec.json.decode(note, type=BackupNote), tables, count_rows(connection))
        if tables > HEAD:
            raise StoreError(
                f"{file} was written by a newer Headwater ({found.note.version}, tables {tables}; this one knows "
                f"{HEAD}). Install that version to restore it."
            )
        result = connection.execute(text("PRAGMA integrity_check")).scalar()
        if result != "ok" or connection.execute(text("PRAGMA foreign_key_check")).first():
            raise _damage(file, f"the database in it is not whole ({result})")
    return found


def _decompress(raw: IO[bytes], plain: IO[bytes], file: Path, progress: BackupProgress) -> None:
    total = file.stat().st_size // _MEGABYTE
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    try:
        while piece := raw.read(_PIECE):
            plain.write(unpacker.decompress(piece))
            progress(raw.tell() // _MEGABYTE, total)
    except zstandard.ZstdError as error:
        raise _damage(file, "a part of it cannot be unpacked") from error
    if not unpacker.eof or unpacker.unused_data:
        raise _damage(file, "something follows its end" if unpacker.eof else "it ends too early")


def _no_backup(file: Path) -> InputError:
    return InputError(
        f"{file} is not a backup of Headwater 0.2.0 or later. Give a file that headwater backup has written."
    )


def _damage(file: Path, how: str) -> InputError:
    return InputError(f"The backup {file} is damaged: {how}. Nothing was restored from it; use another one.")


@contextmanager
def _translate_disk_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = "the disk is full" if full else error.strerror or str(error)
        raise StoreError(f"{what} cannot be written: {reason}. The unfinished file was removed.") from error


def _remove_database(file: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + ending).unlink(missing_ok=True)
