"""PostgreSQL 14 or newer, by asyncpg."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from sqlalchemy import URL, Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from headwater.errors import StoreError
from headwater.store.content.search import rebuild_if_stale
from headwater.store.database.database import Database, Transaction
from headwater.store.database.driver_errors import may_retry, translate_postgres_errors, was_disconnected
from headwater.store.database.migrate import HEAD, migrate

T = TypeVar("T")

OLDEST_VERSION = 14
TRIES = 5
CONNECTIONS = 8
TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
TLS_OPTIONS = ("sslmode", *TLS_FILES, "sslpassword", "sslnegotiation")
OTHER_OPTIONS = frozenset({"host", "port", "user", "password", "passfile", "target_session_attrs"})


class Postgres(Database):
    """A database on a server."""

    def __init__(self, url: URL) -> None:
        self._server = f"{url.host or url.query.get('host', 'localhost')}"
        self._engine = _create_engine(url)
        # Connections without BEGIN and COMMIT: a third of the round trips where one statement is all there is, and
        # between statements the isolation is no weaker than by default.
        self._autocommit_engine = _create_engine(url, isolation_level="AUTOCOMMIT")

    @classmethod
    async def open(cls, url: URL, *, tables: str = HEAD) -> Postgres:
        database = cls(url)
        try:
            await database.read(_require_version, database._server)
            await database.write(migrate, tables)
            await database.write(rebuild_if_stale)
        except BaseException:
            await database.close()
            raise
        return database

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        return await self._run_autocommit(function, args)

    async def snapshot(self, function: Callable[..., T], *args: Any) -> T:
        return await self._run_transaction(function, args)

    async def write_one(self, function: Callable[..., T], *args: Any) -> T:
        return await self._run_autocommit(function, args)

    async def write(self, function: Callable[..., T], *args: Any) -> T:
        return await self._run_transaction(function, args)

    async def _run_autocommit(self, function: Callable[..., T], args: Sequence[Any]) -> T:
        engine = self._autocommit_engine.sync_engine

        def run() -> T:
            with engine.connect() as connection:
                return function(connection, *args)

        return await self._run_with_retries(run, lambda: True)

    async def _run_transaction(self, function: Callable[..., T], args: Sequence[Any]) -> T:
        engine = self._engine.sync_engine
        committing = False

        def run() -> T:
            nonlocal committing
            with engine.connect() as connection:
                connection.begin()  # else it would not know of what was sent past it
                result = function(connection, *args)
                committing = True
                connection.commit()
                return result

        return await self._run_with_retries(run, lambda: not committing)

    async def _run_with_retries(self, run: Callable[[], T], may_repeat: Callable[[], bool]) -> T:
        """A connection that was cut while nobody used it shows at the first statement. Asking each before it is used
        would be three round trips more; instead a transaction that has not come to its commit is begun anew.

        All in one greenlet: asynchronously, taking a connection and giving it back cost more than a small question.
        """
        with translate_postgres_errors(self._server):
            for left in reversed(range(TRIES)):
                try:
                    return await greenlet_spawn(run)
                except Exception as error:
                    if not left or not may_repeat() or not (may_retry(error) or was_disconnected(error)):
                        raise
        raise AssertionError("unreachable")

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Transaction]:
        # The caller's own errors pass untranslated: only what the database says is the database's problem.
        with translate_postgres_errors(self._server):
            connection = await self._connect()
        try:
            yield _OneConnection(connection, self._server)
            with translate_postgres_errors(self._server):
                await connection.commit()
        finally:
            await connection.close()

    async def _connect(self) -> AsyncConnection:
        """A connection that answers: what its owner does in it cannot be begun anew by us."""
        for left in reversed(range(TRIES)):
            connection = await self._engine.connect()
            try:
                await connection.execute(text("SELECT 1"))  # which also begins
            except BaseException as error:
                await connection.close()
                if not left or not was_disconnected(error):
                    raise
            else:
                return connection
        raise AssertionError("unreachable")

    async def close(self) -> None:
        await self._engine.dispose()
        await self._autocommit_engine.dispose()


class _OneConnection(Transaction):
    def __init__(self, connection: AsyncConnection, server: str) -> None:
        self._connection = connection
        self._server = server

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        with translate_postgres_errors(self._server):
            return await self._connection.run_sync(function, *args)


def _create_engine(url: URL, **options: Any) -> AsyncEngine:
    """Without overflow: under load connections beyond the pool would be opened for every other question and closed
    after it, and opening one costs the server a process."""
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg", query=_read_options(url)),
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_use_lifo=True,  # the connection that has its statements prepared
        connect_args={
            "timeout": 10,
            "server_settings": {"application_name": "headwater", "jit": "off"},
            "dsn": _read_tls_options(url),
        },
        **options,
    )


def _require_version(connection: Connection, server: str) -> None:
    number = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if number < OLDEST_VERSION * 10_000:
        raise StoreError(
            f"PostgreSQL at {server} is version {number // 10_000}; Headwater needs {OLDEST_VERSION} or newer."
        )


def _read_options(url: URL) -> dict[str, tuple[str, ...] | str]:
    """What the address says after “?”, but for TLS. StoreError for words that mean nothing."""
    asked = {name: value for name, value in url.query.items() if not name.startswith("ssl")}
    if strange := (set(asked) - OTHER_OPTIONS) | {
        name for name in url.query if name.startswith("ssl") and name not in TLS_OPTIONS
    }:
        raise StoreError(
            f"“{min(strange)}” in the address of PostgreSQL means nothing to Headwater. "
            f"After “?” may come: {', '.join((*sorted(OTHER_OPTIONS), *TLS_OPTIONS))}."
        )
    return asked


def _read_tls_options(url: URL) -> str:
    """What the address says of TLS, which the driver takes from an address only: `sslmode` and files, as in libpq."""
    said = {name: str(url.query[name]) for name in TLS_OPTIONS if name in url.query}
    for name in TLS_FILES:
        if name in said and not Path(said[name]).is_file():
            raise StoreError(f"There is no file {said[name]}, which {name} in the address of PostgreSQL names.")
    return "postgresql://" + (f"?{urlencode(said)}" if said else "")
