"""Fixtures of tests that use a database, a feed farm or logs; conftest.py of a room imports the ones it needs."""

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
    """A command that ran inside a test has set up logging for itself, not for the tests after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def migrated_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new SQLite file is a copy of one that was migrated, as PostgreSQL's databases are: a tenth of a second less for
    each test that opens one. Those that are about making files say `@pytest.mark.migrates`."""
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
    """A PostgreSQL server of this test process, stopped at its end."""
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database; a test that takes it runs on both kinds."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path)
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create()
    yield server.url(name)
    server.drop(name)
