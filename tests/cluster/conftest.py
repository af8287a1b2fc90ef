"""Fixtures for clusters: a fresh PostgreSQL database per test, and one NATS server with a prefix per test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from headwater.cluster.demo.servers import NatsServer, nats_server
from headwater.store.opening import open_store
from headwater.store.store import Store
from support.databases import PostgresServer
from support.server_fixtures import database_url, farm, fresh_logs, migrated_once, postgres

_NUMBERS = itertools.count()


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """Return the address of a fresh PostgreSQL database."""
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with await open_store(url) as opened:
        yield opened


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a NATS server for this test process; each test has streams under its own prefix."""
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def prefix() -> str:
    return f"t{next(_NUMBERS)}"
