"""Runs functions on PostgreSQL by asyncpg, and repeats transactions whose connection was lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlencode

from sqlalchemy import URL, Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from headwater.errors import StoreError
from headwater.store.database.database import Database
from headwater.store.database.driver_errors import may_retry, translate_postgres_errors, was_disconnected

P = ParamSpec("P")
T = TypeVar("T")

OLDEST_VERSION = 14
TRIES = 5
CONNECTIONS = 8
TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
TLS_OPTIONS = ("sslmode", *TLS_FILES, "sslpassword", "sslnegotiation")
OTHER_OPTIONS = frozenset({"host", "port", "user", "password", "passfile", "target_session_attrs"})


class Postgres(Database):
    """A PostgreSQL database, which several processes may share."""

    def __init__(self, url: URL) -> None:
        self._server = f"{url.host or url.query.get('host', 'localhost')}"
        self._engine = _create_engine(url)
        # Without BEGIN and COMMIT a single statement takes a third of the round trips; between the statements of one
        # function the isolation is no weaker than PostgreSQL's default.
        self._single_writes = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._reading = _create_engine(url, read_only=True, isolation_level="AUTOCOMMIT")

    @classmethod
    async def open(cls, url: URL) -> Postgres:
        database = cls(url)
        try:
            await database.read(_require_version, database._server)
        except BaseException:
            await database.close()
            raise
        return database

    async def read(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_autocommit(self._reading, function, args, kwargs)

    async def snapshot(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_transaction(function, args, kwargs)

    async def write(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_transaction(function, args, kwargs)

    async def write_one(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._run_autocommit(self._single_writes, function, args, kwargs)

    async def _run_autocommit(
        self, engine: AsyncEngine, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        sync_engine = engine.sync_engine

        def run() -> T:
            with sync_engine.connect() as connection:
                return function(connection, *args, **kwargs)

        return await self._run_with_retries(run, lambda: True)

    async def _run_transaction(self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        engine = self._engine.sync_engine
        committing = False

        def run() -> T:
            nonlocal committing
            with engine.connect() as connection:
                connection.begin()  # driver-level statements do not begin a transaction by themselves
                result = function(connection, *args, **kwargs)
                committing = True
                connection.commit()
                return result

        return await self._run_with_retries(run, lambda: not committing)

    async def _run_with_retries(self, run: Callable[[], T], may_repeat: Callable[[], bool]) -> T:
        """Run in one greenlet, and again if an idle connection turns out to be cut.

        Testing a connection before its use would take three more round trips; a transaction that has not reached its
        commit is repeated instead. Taking and returning a connection asynchronously costs more than a small query.
        """
        with translate_postgres_errors(self._server):
            for left in reversed(range(TRIES)):
                try:
                    return await greenlet_spawn(run)
                except Exception as error:
                    if not left or not may_repeat() or not (may_retry(error) or was_disconnected(error)):
                        raise
        raise AssertionError("unreachable")

    async def close(self) -> None:
        await self._engine.dispose()
        await self._reading.dispose()


def _create_engine(url: URL, *, read_only: bool = False, **options: Any) -> AsyncEngine:
    """Without overflow: under load connections beyond the pool would be opened for every other question and closed
    after it, and opening one costs the server a process."""
    access = "on" if read_only else "off"
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg", query=_read_options(url)),
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_use_lifo=True,  # the connection that has its statements prepared
        connect_args={
            "timeout": 10,
            "server_settings": {"application_name": "headwater", "jit": "off", "default_transaction_read_only": access},
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
    """Read the options of the address except those of TLS. StoreError for unknown ones."""
    asked = {name: value for name, value in url.query.items() if not name.startswith("ssl")}
    if strange := (set(asked) - OTHER_OPTIONS) | {
        name for name in url.query if name.startswith("ssl") and name not in TLS_OPTIONS
    }:
        raise StoreError(
            f"Unknown option “{min(strange)}” in the address of PostgreSQL. "
            f"Use {', '.join((*sorted(OTHER_OPTIONS), *TLS_OPTIONS))}."
        )
    return asked


def _read_tls_options(url: URL) -> str:
    """Build a DSN of the TLS options (`sslmode` and files, as in libpq), which the driver takes from a DSN only."""
    given = {name: str(url.query[name]) for name in TLS_OPTIONS if name in url.query}
    for name in TLS_FILES:
        if name in given and not Path(given[name]).is_file():
            raise StoreError(f"There is no file {given[name]}, which {name} in the address of PostgreSQL names.")
    return "postgresql://" + (f"?{urlencode(given)}" if given else "")
