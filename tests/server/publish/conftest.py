"""Fixtures: a store, and a server that publishes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from publish_server import BASE, Asker, served

from headwater.store.opening import open_store
from headwater.store.store import Store
from headwater.web.app import create_app
from support.idle_node import make_idle_node


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(f"sqlite:///{tmp_path / 'publish.sqlite'}") as opened:
        yield opened


@pytest.fixture
async def ask(store: Store) -> AsyncIterator[Asker]:
    async with AsyncExitStack() as stack:
        base = await stack.enter_async_context(served(create_app(make_idle_node(store), base=BASE)))
        yield Asker(await stack.enter_async_context(httpx.AsyncClient()), base)
