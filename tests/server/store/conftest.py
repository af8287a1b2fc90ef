"""Fixtures: an open store on each kind of database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headwater.store.opening import open_store
from headwater.store.store import Store


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with await open_store(database_url) as opened:
        yield opened
