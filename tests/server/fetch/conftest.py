"""Fixtures: a hostile server, and a fetcher that may connect to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from raw_server import RawServer, read_titles

from headwater.fetch.client import Fetcher


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with RawServer() as server:
        yield server


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    """Make a fetcher with access to loopback and a deadline short enough for a test."""
    async with Fetcher(
        allow_private=True, contact="https://example.org/contact", deadline=1.0, per_host=8, read=read_titles
    ) as fetcher:
        yield fetcher
