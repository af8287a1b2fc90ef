"""What all tests share: where the real data lies, and the visible reason when it is absent."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import URL

import isolation
from databases import PostgresServer, copy_blank, postgres_server, sqlite_url
from headwater.farm.farm import Farm
from headwater.store.database.migrate import HEAD
from headwater.store.database.sqlite import Sqlite

collect_ignore_glob = ["*conftest.py"]  # doctests are collected from modules; these have none and share one name

ROOT = Path(__file__).resolve().parent.parent

isolation.isolate_environment()
isolation.fix_examples()


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

    async def open(cls: type[Sqlite], url: URL, *, create: bool, tables: str = HEAD) -> Sqlite:
        if create and tables == HEAD:
            copy_blank(Path(url.database or ""))
        opened: Sqlite = await really(cls, url, create=create, tables=tables)
        return opened

    monkeypatch.setattr(Sqlite, "open", classmethod(open))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real traces, documents and subscription lists, which are not ours to copy into the project."""
    folder = Path(os.environ.get("HEADWATER_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data absent: {folder.name} is not beside the project (set HEADWATER_SHARED_DATA)")
    return folder


@pytest.fixture
async def farm() -> AsyncIterator[Callable[..., Awaitable[Farm]]]:
    """Start feed farms, `await farm(feeds=5, speed=1000, …)`; they stop when the test ends."""
    async with AsyncExitStack() as stack:

        async def start(*args: Any, **options: Any) -> Farm:
            return await stack.enter_async_context(Farm(*args, **options))

        yield start


@pytest.fixture
def eventually() -> Callable[..., Awaitable[None]]:
    """Wait until something holds; fails with what it was waiting for. Patient, because a busy machine is no failure."""

    async def wait(holds: Callable[[], Any], what: str, seconds: float = 150.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            result = holds()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"not within {seconds} s: {what}")

    return wait


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
