"""New databases, and those of version 0.2.0, get the tables of the code, once, and never go backwards."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from headwater.errors import StoreError
from headwater.store.content.feeds import count_feeds, find_feed, list_feeds
from headwater.store.database.migrate import HEAD
from headwater.store.database.migrations import STEPS
from headwater.store.opening import open_store
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.metadata import postgres_metadata
from support.databases import PostgresServer, sqlite_url
from support.store_samples import one_feed

pytestmark = pytest.mark.migrates

RELEASE = Path(__file__).with_name("release_0_2_0")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the address of a database without tables."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path)
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create(empty=True)
    yield server.url(name)
    server.drop(name)


async def load_tables_of_0_2_0(url: str) -> None:
    """Make the database as version 0.2.0 made it."""
    for statement in (RELEASE / f"{url.partition(':')[0]}.sql").read_text().rstrip(";\n").split(";\n"):
        await by_hand(url, statement)


def test_the_tables_have_a_version() -> None:
    tables = metadata.sorted_tables
    columns = [(str(one), type(one.type).__name__, one.nullable) for table in tables for one in table.columns]
    indexes = sorted((one.name, *one.columns.keys()) for table in tables for one in table.indexes)
    assert (HEAD, f"{crc32(repr((sorted(columns), indexes)).encode()):08x}") == ("v0012", "71f2db76"), (
        "the tables have changed: name a new version in HEAD, and put it and the checksum here"
    )
    assert all(name <= HEAD for name in STEPS)


def differences(connection: Connection) -> list[Any]:
    """Return the changes that Alembic would still make to match `tables.py`."""
    postgres = connection.dialect.name == "postgresql"
    options = {"include_object": lambda _, name, kind, *__: not (kind == "table" and name.startswith("item_search"))}
    found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    if postgres:
        only = {"include_object": lambda _, name, *__: name in ("item_search", "item_id", "words", "item_search_pk")}
        found += compare_metadata(MigrationContext.configure(connection, opts=only), postgres_metadata)
    return list(found)


@pytest.mark.parametrize("version", ["new", "0.2.0"])
async def test_the_tables_are_what_the_code_says(empty_url: str, version: str) -> None:
    if version == "0.2.0":
        await load_tables_of_0_2_0(empty_url)
    async with await open_store(empty_url) as store:
        assert await store.read(differences) == []
        tables = await store.read(lambda connection: set(inspect(connection).get_table_names()))
        assert set(metadata.tables) <= tables


async def test_query_feeds_of_0_2_0_stay_as_public_as_they_were(empty_url: str) -> None:
    await load_tables_of_0_2_0(empty_url)
    for key in ("news", "diary"):
        await by_hand(
            empty_url,
            "INSERT INTO query_feed (key, name, text, position, created, importance) "
            f"VALUES ('{key}', '{key}', 'FROM ALL RETURN ITEMS', 1, 1, 1)",
        )
    await by_hand(empty_url, "INSERT INTO private_feed VALUES ('/feeds/diary')")
    async with await open_store(empty_url) as store:
        query = text("SELECT key, visibility FROM query_feed ORDER BY key")
        found = await store.read(lambda connection: connection.execute(query).all())
    assert found == [("diary", "private"), ("news", "public")]


async def test_words_have_their_index(empty_url: str) -> None:
    async with await open_store(empty_url) as store:
        made = {
            "sqlite": "SELECT sql FROM sqlite_master WHERE name = 'item_search'",
            "postgresql": "SELECT indexdef FROM pg_indexes WHERE indexname = 'item_search_words'",
        }
        kind = empty_url.partition(":")[0]
        said = await store.read(lambda connection: connection.execute(text(made[kind])).scalar())
        assert {"sqlite": "fts5", "postgresql": "USING gin"}[kind] in said


async def test_the_comparison_does_notice_a_difference(empty_url: str) -> None:
    async with await open_store(empty_url) as store:
        await store.write(lambda connection: connection.execute(text("ALTER TABLE saved_state ADD COLUMN extra TEXT")))
        assert await store.read(differences) != []


async def test_opening_again_changes_nothing_and_keeps_everything(empty_url: str) -> None:
    async with await open_store(empty_url) as store:
        feed = await one_feed(store)
    async with await open_store(empty_url) as store:
        assert await store.read(find_feed, feed.id) == feed


async def by_hand(url: str, statement: str) -> None:
    """Execute a statement past our code, as another program would."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute(statement)
        connection.close()
    else:
        server = await asyncpg.connect(url)
        await server.execute(statement)
        await server.close()


async def test_a_newer_database_is_refused_and_left_alone(empty_url: str) -> None:
    async with await open_store(empty_url) as store:
        feed = await one_feed(store)
    await by_hand(empty_url, "UPDATE alembic_version SET version_num = 'v9999'")
    for _ in range(2):
        with pytest.raises(StoreError, match="newer Headwater"):
            await open_store(empty_url)
    await by_hand(empty_url, f"UPDATE alembic_version SET version_num = '{HEAD}'")
    async with await open_store(empty_url) as store:
        assert await store.read(list_feeds) == [feed]


async def test_a_database_from_before_the_first_release_is_refused_and_left_alone(empty_url: str) -> None:
    async with await open_store(empty_url) as store:
        feed = await one_feed(store)
    await by_hand(empty_url, "UPDATE alembic_version SET version_num = '0015'")
    with pytest.raises(StoreError, match=r"before 0\.2\.0.*feeds export.*Google Reader API"):
        await open_store(empty_url)
    await by_hand(empty_url, f"UPDATE alembic_version SET version_num = '{HEAD}'")
    async with await open_store(empty_url) as store:
        assert await store.read(list_feeds) == [feed]


async def test_another_programs_database_is_refused_and_left_alone(empty_url: str) -> None:
    await by_hand(empty_url, "CREATE TABLE recipes (name text)")
    with pytest.raises(StoreError, match=r"another program.*recipes"):
        await open_store(empty_url)
    await by_hand(empty_url, "CREATE TABLE feed (name text)")  # none of our tables exists


def open_and_add(url: str, number: int) -> None:
    async def run() -> None:
        async with await open_store(url) as store:
            await one_feed(store, f"https://example.org/{number}")

    asyncio.run(run())


def test_processes_that_start_together_migrate_once(empty_url: str) -> None:
    forks = multiprocessing.get_context("forkserver")
    children = [forks.Process(target=open_and_add, args=(empty_url, number)) for number in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0, 0, 0, 0]

    async def count() -> int:
        async with await open_store(empty_url) as store:
            return await store.read(count_feeds)

    assert asyncio.run(count()) == 4
