"""Runs functions on a SQLite file: one writing thread, four reading threads, write-ahead log, one server.

SQLite has one writer at a time anyway; with one thread and one connection every write is a single hop. A file is locked
for one server: two would poll every feed twice, each with the whole budget.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from operator import index
from pathlib import Path
from types import NoneType
from typing import IO, Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from headwater.errors import StoreError
from headwater.private_files import make_private_folder, touch_private_file
from headwater.store.database.database import Database
from headwater.store.database.driver_errors import translate_sqlite_errors

P = ParamSpec("P")
T = TypeVar("T")

READERS = 4
BUSY_SECONDS = 10.0
_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8192",  # KiB per connection; the system caches the file too, and 64 MiB cost no less CPU
    # 64 MB of pages: with 100,000 feeds each refresh changes other pages, and a large cache writes them less often.
    "PRAGMA wal_autocheckpoint = 16000",
    "PRAGMA journal_size_limit = 67108864",
)

# Without an adapter the driver looks for `__conform__` on every value of these types and raises and drops an error,
# which takes three times as long as storing the value.
sqlite3.register_adapter(NoneType, {None: None}.__getitem__)
sqlite3.register_adapter(bool, index)
sqlite3.register_adapter(bytes, bytes.__bytes__)


class Sqlite(Database):
    """One file. `durable` makes commits survive a power cut, not only the end of the process."""

    def __init__(self, file: Path, *, durable: bool = False, busy_seconds: float = BUSY_SECONDS) -> None:
        self._file = file
        self._synchronous = "FULL" if durable else "NORMAL"
        self._busy_seconds = busy_seconds
        self._writing = ThreadPoolExecutor(1, "store-write")
        self._reading = ThreadPoolExecutor(READERS, "store-read")
        self._writer = self._create_engine(1, "BEGIN IMMEDIATE")
        self._reader = self._create_engine(READERS, "BEGIN")
        self._watcher: sqlite3.Connection | None = None
        self._idle_readers: list[Connection] = []  # of readers; the one used last, whose cache is warm, is the next

    def read_change_mark(self) -> object | None:
        """Ask SQLite for the version of the data: every commit of another connection changes it.

        The time and size of the log would miss a commit within one tick of the file system's clock.
        """
        try:
            if self._watcher is None:
                self._watcher = sqlite3.connect(self._file, timeout=0, isolation_level=None, check_same_thread=False)
            version: tuple[int] = self._watcher.execute("PRAGMA data_version").fetchone()
            return version
        except sqlite3.Error:  # locked: there may be a change
            return None

    @classmethod
    async def open(cls, url: URL, *, create: bool) -> Sqlite:
        """Open the file of an address; with `create` false a missing file is an error."""
        file = parse_file(url)
        if not create and not file.exists():
            raise StoreError(f"There is no database at {file}. Check --data and --database, or add a feed first.")
        database = cls(file, **_parse_options(url))
        try:
            await asyncio.get_running_loop().run_in_executor(database._writing, database._prepare_file)
        except BaseException:
            await database.close()
            raise
        return database

    def _create_engine(self, size: int, begin: str) -> Engine:
        writes = size == 1
        engine = create_engine(
            URL.create("sqlite", database=str(self._file)),
            poolclass=QueuePool,
            pool_size=size,
            max_overflow=0,
            pool_use_lifo=True,  # the connection whose cache is warm
            pool_reset_on_return="rollback" if writes else None,  # a reader's block has ended its transaction
            connect_args={"isolation_level": None, "timeout": self._busy_seconds, "cached_statements": 256},
        )

        @event.listens_for(engine, "connect")
        def connected(connection: Any, _: Any) -> None:
            for pragma in (*_PRAGMAS, f"PRAGMA synchronous = {self._synchronous}"):
                connection.execute(pragma)
            if not writes:
                connection.execute("PRAGMA query_only = ON")

        @event.listens_for(engine, "begin")
        def begun(connection: Connection) -> None:
            # Taking the lock at once: a transaction that reads first and writes later could fail half-way.
            driver: Any = connection.connection.dbapi_connection
            driver.execute(begin)

        return engine

    def _prepare_file(self) -> None:
        with translate_sqlite_errors(self._file):
            make_private_folder(self._file.parent)
            if self._file.is_dir():
                raise StoreError(f"{self._file} is a folder, not a database file. Give the address of a file.")
            if not os.access(self._file.parent, os.W_OK):
                # SQLite writes its log beside the file, so even reading needs this.
                raise StoreError(f"The folder {self._file.parent} cannot be written. Give write permission on it.")
            touch_private_file(self._file)  # SQLite gives its log the mode of the file
            raw = self._writer.raw_connection()
            try:
                raw.execute("PRAGMA journal_mode = WAL")
            finally:
                raw.close()

    async def read(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reading, self._run_read, function, args, kwargs)

    def _run_read(self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Run in a reading thread. A connection from SQLAlchemy's pool would cost as much as a small query."""
        with translate_sqlite_errors(self._file):
            try:
                connection = self._idle_readers.pop()
            except IndexError:
                connection = self._reader.connect()
            try:
                with connection.begin():
                    return function(connection, *args, **kwargs)
            finally:
                self._idle_readers.append(connection)

    async def snapshot(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.read(function, *args, **kwargs)

    async def write(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writing, self._run_write, function, args, kwargs)

    def _run_write(self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        with translate_sqlite_errors(self._file), self._writer.begin() as connection:
            return function(connection, *args, **kwargs)

    async def write_one(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self.write(function, *args, **kwargs)

    async def close(self) -> None:
        def end() -> None:
            self._writing.shutdown(wait=True)
            self._reading.shutdown(wait=True)
            for connection in self._idle_readers:
                connection.close()
            self._reader.dispose()
            if self._watcher is not None:
                self._watcher.close()
            self._writer.dispose()

        await asyncio.get_running_loop().run_in_executor(None, end)


def parse_file(url: URL) -> Path:
    """Return the file of a SQLite address; StoreError if it names none."""
    if not url.database or url.database == ":memory:":
        raise StoreError("Headwater keeps SQLite in a file: give sqlite:///FILE, with four slashes for a full path.")
    if url.host:
        raise StoreError(f"sqlite://{url.host}/… is not a file: write sqlite:/// with three slashes, or four.")
    return Path(url.database).absolute()


def _parse_options(url: URL) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in url.query.items():
        if name == "synchronous" and value in ("normal", "full"):
            options["durable"] = value == "full"
        elif name == "timeout" and isinstance(value, str) and value.replace(".", "", 1).isdigit():
            options["busy_seconds"] = float(value)
        else:
            raise StoreError(f"A SQLite address knows synchronous=normal|full and timeout=SECONDS, not {name}={value}.")
    return options


@contextmanager
def lock_database_file(database_url: str) -> Iterator[None]:
    """Hold the lock of a SQLite file while the block runs. Raises StoreError if another server holds it.

    The operating system locks a file beside the database, so the lock ends with the process, also by kill −9. The
    database file itself stays unlocked: closing a second handle would release SQLite's own locks. PostgreSQL needs no
    lock. If the address, folder or file system cannot be locked, opening the store reports the problem.
    """
    lock = _open_lock_file(database_url)
    if lock is None:
        yield
        return
    with lock:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                lock.seek(0)
                raise StoreError(
                    f"A server runs on this database already (process {lock.read(20).strip() or 'unknown'}). "
                    "Stop it first, or give this one another --data. Several servers can share a PostgreSQL database."
                ) from error
            except OSError:
                pass  # a file system without locks
        with suppress(OSError):  # a full disk: the lock holds without the number
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
        yield


def _open_lock_file(database_url: str) -> IO[str] | None:
    try:
        url = make_url(database_url)
        if url.get_backend_name() != "sqlite":
            return None
        file = Path(f"{parse_file(url)}-server")
        touch_private_file(file)  # who may read it could lock it, and so keep the server from starting
        return file.open("a+")
    except (ArgumentError, ValueError, StoreError, OSError):
        return None
