"""Fixtures: a running node against a real farm and a real SQLite file; a query processor on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from query_world import QueryWorld

from headwater.settings import Settings, load_settings
from headwater.store.opening import open_store
from headwater.store.store import Store


@pytest.fixture
def given(tmp_path: Path) -> Callable[..., Settings]:
    """Return settings for a test network: local addresses, no pause, and a budget large enough not to matter."""

    def make(**more: Any) -> Settings:
        usual: dict[str, Any] = {
            "data": tmp_path,
            "allow_private": True,
            "least_interval": 0.05,
            "per_host": 64,
            "budget": 100_000.0,
            "strategy": "uniform",
        }
        return load_settings(**usual | more)

    return make


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[QueryWorld]:
    async with await open_store(database_url) as store:
        made = QueryWorld(store)
        await made.begin()
        yield made
