"""Fixtures for tests of pages: a real server over a real store, and a browser."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from anyio.from_thread import start_blocking_portal
from playwright.async_api import Browser, async_playwright
from watched_farm import simulate_days

from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.settings import Settings, load_settings
from headwater.store.opening import open_store
from headwater.store.store import Store
from headwater.web.app import create_app
from support.idle_node import make_idle_node
from support.run_folder import fill_folder_once

NOW = 1_800_000_000.0
STATUS = CrawlStatus(
    feeds=2, under_way=3, strategy="uniform", budget_per_minute=60.0, budget_left=50, next_due=NOW + 90, held_hosts=1
)


@asynccontextmanager
async def serving(store: Store, **options: Any) -> AsyncIterator[str]:
    """Run a server; yield its address. Options are settings, or its `fetcher`, `port`, `base` and `oidc`."""
    listener = socket.create_server(("127.0.0.1", options.pop("port", 0)))
    app_options = {name: options.pop(name) for name in ("base", "oidc") if name in options}
    node = make_idle_node(store, STATUS, clock=lambda: NOW, **options)
    app = create_app(node, clock=lambda: NOW, **app_options)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", server_header=False))
    async with node.fetcher:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
            listener.close()


@pytest.fixture
async def web_store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(f"sqlite:///{tmp_path / 'web.sqlite'}") as opened:
        yield opened


@pytest.fixture
async def site(web_store: Store) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """Start servers over `web_store`: `await site(names=…, fetcher=…)` returns the address."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> str:
            return await stack.enter_async_context(serving(web_store, **options))

        yield start


@pytest.fixture(scope="session")
def watched_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a database as if a server had watched eight feeds for three days, until a minute before NOW."""

    async def fill(folder: Path) -> None:
        given = load_settings(data=folder, budget=2.0, allow_private=True)
        async with await open_store(given.database_url) as store:
            await simulate_days(store, given, NOW - 60, feeds=10, days=3, step=1200.0)

    folder = fill_folder_once(tmp_path_factory, "watched", lambda folder: asyncio.run(fill(folder)))
    return folder / "headwater.sqlite"


@pytest.fixture
async def watched_store(watched_file: Path, tmp_path: Path) -> AsyncIterator[Store]:
    """Open a copy of `watched_file`, to read and to change."""
    shutil.copy(watched_file, tmp_path / "watched.sqlite")
    async with await open_store(f"sqlite:///{tmp_path / 'watched.sqlite'}") as opened:
        yield opened


@pytest.fixture
async def watched_site(watched_store: Store) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """Start servers over `watched_store`."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> str:
            return await stack.enter_async_context(serving(watched_store, **options))

        yield start


@pytest.fixture(scope="session")
def chromium() -> Iterator[str]:
    """Start one Chromium per test process, because starting it costs more than most tests; yield its address."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    args = ["--no-sandbox", "--disable-gpu", f"--remote-debugging-port={port}"]
    with start_blocking_portal() as portal:  # its connection needs an event loop that outlives the tests
        playwright = portal.call(async_playwright().start)
        opened = portal.call(partial(playwright.chromium.launch, executable_path=program, args=args))
        yield f"http://127.0.0.1:{port}"
        portal.call(opened.close)
        portal.call(playwright.stop)


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """Connect to the browser; close the windows of this test at its end."""
    async with async_playwright() as playwright:
        opened = await playwright.chromium.connect_over_cdp(chromium)
        yield opened
        await opened.close()
