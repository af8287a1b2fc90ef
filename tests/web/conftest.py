"""A real server over a real store, for tests of pages."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from lived import live
from playwright.async_api import Browser, async_playwright

from headwater.node.crawler import Status
from headwater.settings import Settings
from headwater.store.store import Store
from headwater.web.app import create_app

NOW = 1_800_000_000.0
STATUS = Status(
    feeds=2, under_way=3, strategy="uniform", budget_per_minute=60.0, budget_left=50, next_due=NOW + 90, held_hosts=1
)


@asynccontextmanager
async def serving(store: Store, **options: Any) -> AsyncIterator[str]:
    """The address of a running server."""
    listener = socket.create_server(("127.0.0.1", options.pop("port", 0)))
    app = create_app(store, lambda: STATUS, clock=lambda: NOW, **options)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", server_header=False))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


@pytest.fixture
async def web_store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(f"sqlite:///{tmp_path / 'web.sqlite'}") as opened:
        yield opened


@pytest.fixture
async def site(web_store: Store) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """Start servers over `web_store`: `await site(names=…, add=…)` gives the address."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> str:
            return await stack.enter_async_context(serving(web_store, **options))

        yield start


@pytest.fixture(scope="session")
def lived_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as if a server had watched eight feeds for three days, until a minute before NOW."""
    folder = tmp_path_factory.mktemp("lived")

    async def build() -> None:
        given = Settings(data=folder, budget=2.0, allow_private=True)  # type: ignore[call-arg]
        async with await Store.open(given.database_url) as store:
            await live(store, given, NOW - 60, feeds=10, days=3, step=1200.0)

    asyncio.run(build())
    return folder / "headwater.sqlite"


@pytest.fixture
async def lived_store(lived_file: Path, tmp_path: Path) -> AsyncIterator[Store]:
    """A copy of it, to read and to change."""
    shutil.copy(lived_file, tmp_path / "lived.sqlite")
    async with await Store.open(f"sqlite:///{tmp_path / 'lived.sqlite'}") as opened:
        yield opened


@pytest.fixture
async def lived_site(lived_store: Store) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """Start servers over `lived_store`."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> str:
            return await stack.enter_async_context(serving(lived_store, **options))

        yield start


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        await opened.close()
