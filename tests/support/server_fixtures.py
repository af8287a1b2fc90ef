"""Fixtures of tests that use a database, a feed farm or logs; each folder's conftest.py imports the ones it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import URL

from headwater.farm.farm import Farm
from headwater.store.database.sqlite import Sqlite
from support.databases import PostgresServer, copy_blank, postgres_server, sqlite_url


@pytest.fixture(autouse=True)
def fresh_logs() -> Iterator[None]:
    """Reset logging, because a command that ran inside an earlier test has configured it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def migrated_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create new SQLite files as copies of a migrated one, which saves a tenth of a second per test.

    Tests about creating files carry `@pytest.mark.migrates` and get no copy.
    """
    if request.node.get_closest_marker("migrates"):
        return
    really = Sqlite.open.__func__  # type: ignore[attr-defined]

    async def open(cls: type[Sqlite], url: URL, *, create: bool) -> Sqlite:
        if create:
            copy_blank(Path(url.database or ""))
        opened: Sqlite = await really(cls, url, create=create)
        return opened

    monkeypatch.setattr(Sqlite, "open", classmethod(open))


@pytest.fixture
async def farm() -> AsyncIterator[Callable[..., Awaitable[Farm]]]:
    """Start feed farms, `await farm(feeds=5, speed=1000, …)`; they stop when the test ends."""
    async with AsyncExitStack() as stack:

        async def start(*args: Any, **options: Any) -> Farm:
            return await stack.enter_async_context(Farm(*args, **options))

        yield start


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server for this test process."""
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the address of a fresh database; a test that takes it runs on both kinds."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path)
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create()
    yield server.url(name)
    server.drop(name)
