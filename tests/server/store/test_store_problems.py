"""Database problems are reported in a sentence, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from headwater.errors import StoreError
from headwater.store.content.feeds import count_feeds, find_feed
from headwater.store.content.items import count_items, list_items
from headwater.store.content.outbox import list_outbox_entries
from headwater.store.content.refreshes import list_refreshes
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.probe import probe_tables
from headwater.store.opening import open_store
from headwater.store.readers.accounts import find_owner
from headwater.store.readers.marks import mark_items
from headwater.store.readers.unread_counts import count_unread
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.metadata import postgres_metadata
from headwater.store.store import Store
from support import ROOT
from support.databases import PostgresServer, sqlite_url
from support.store_samples import NOW, a_verdict, an_item, find_seen_of_feed, one_feed

pytestmark = pytest.mark.migrates


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://localhost/x", "sqlite:///FILE or postgresql://"),
        ("nonsense", "sqlite:///FILE or postgresql://"),
        ("", "sqlite:///FILE or postgresql://"),
        ("sqlite://", "in a file"),
        ("sqlite:///:memory:", "in a file"),
        ("sqlite://host/file", "three slashes"),
        ("sqlite:///x?colour=red", "not colour=red"),
        ("sqlite:///x?synchronous=maybe", "not synchronous=maybe"),
        ("postgresql://user:secret@127.0.0.1:1/x", "cannot be reached"),
        ("postgresql://user:secret@localhost:notaport/x", "not the address of a database"),
    ],
)
async def test_an_address_that_leads_nowhere_is_reported(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says) as caught:
        await open_store(url)
    assert "secret" not in str(caught.value)


async def test_a_missing_file_is_only_made_when_asked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/folder/x.sqlite"
    with pytest.raises(StoreError, match="There is no database at"):
        await open_store(url, create=False)
    assert not (tmp_path / "new").exists()
    async with await open_store(url) as store:
        assert await store.read(count_feeds) == 0
    async with await open_store(url, create=False) as store:
        assert await store.read(count_feeds) == 0


@pytest.mark.parametrize(
    "content", [b"this is some text file, long enough to be looked at" * 100, b"PK\x03\x04" * 1000]
)
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"notes\.txt is not a SQLite database"):
        await open_store(f"sqlite:///{file}")
    assert file.read_bytes() == content


async def test_a_folder_and_a_file_in_the_way_are_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        await open_store(f"sqlite:///{tmp_path}")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be opened"):
        await open_store(f"sqlite:///{tmp_path}/file/x.sqlite")


async def test_a_missing_table_of_either_database_is_noticed(store: Store) -> None:
    """Each table in turn has another name, and then its own again."""

    async def run(statement: str) -> None:
        await store.write(lambda connection: connection.execute(text(statement)) and None)

    await store.read(probe_tables)
    is_postgres = await store.read(lambda connection: connection.dialect.name == "postgresql")
    if not is_postgres:
        await run("PRAGMA legacy_alter_table = ON")  # references keep the old name
    names = [*metadata.tables, "alembic_version", *(postgres_metadata.tables if is_postgres else ())]
    assert len(names) > 50
    for name in names:
        await run(f'ALTER TABLE "{name}" RENAME TO elsewhere')
        with pytest.raises(StoreError):
            await store.read(probe_tables)
        await run(f'ALTER TABLE elsewhere RENAME TO "{name}"')
    await store.read(probe_tables)


async def test_a_locked_file_is_reported_and_can_be_used_afterwards(tmp_path: Path) -> None:
    async with await open_store(sqlite_url(tmp_path) + "?timeout=0.2") as store:
        feed = await one_feed(store)
        other = sqlite3.connect(tmp_path / "headwater.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"locked by another program"):
            await save_refreshes(store, [a_verdict(feed, an_item(feed.id))])
        with pytest.raises(StoreError, match=r"locked by another program"):
            await open_store(sqlite_url(tmp_path) + "?timeout=0.2")
        assert await store.read(count_feeds) == 1  # reading continues
        other.execute("ROLLBACK")
        other.close()
        (saved,) = await save_refreshes(store, [a_verdict(feed, an_item(feed.id))])
        assert len(saved.new) == 1


async def test_a_full_disk_is_reported_nothing_is_half_written_and_it_recovers(tmp_path: Path) -> None:
    async with await open_store(sqlite_url(tmp_path)) as store:
        feed = await one_feed(store)
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id))])

        async def pages(limit: int) -> None:
            await store.write(lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count = {limit}"))

        await pages(1)  # SQLite replaces smaller limits by the present size
        large = [an_item(feed.id, f"large{k}", content="x" * 100_000) for k in range(10)]
        with pytest.raises(StoreError, match="disk is full"):
            await save_refreshes(store, [a_verdict(feed, *large, at=NOW + 1)])
        assert await store.read(count_items) == 1
        assert len(await store.read(list_refreshes)) == 1
        assert len(await store.read(list_outbox_entries, 0)) == 1
        await pages(2**30)
        (saved,) = await save_refreshes(store, [a_verdict(feed, *large, at=NOW + 1)])
        assert len(saved.new) == 10


FILL = """
import asyncio, resource, signal, sys
from support.store_samples import NOW, a_verdict, an_item
from headwater.errors import StoreError
from headwater.model import Feed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store

async def main(url, feed_id):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with await open_store(url) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
        feed = Feed(feed_id, "https://example.org/feed")
        try:
            for k in range(100):
                item = an_item(feed_id, f"{k}", content="x" * 100_000)
                await save_refreshes(store, [a_verdict(feed, item, at=NOW + k)])
                print(k, flush=True)
        except StoreError as error:
            print("refused:", error)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def test_a_disk_that_refuses_to_write_loses_nothing_acknowledged(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with await open_store(url) as store:
        feed = await one_feed(store)
    child = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", FILL, url, str(feed.id)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", *sys.path])},
        check=True,
    )
    *told, last = child.stdout.splitlines()
    assert last.startswith("refused: The dis")
    assert 0 < len(told) < 100
    async with await open_store(url) as store:
        assert {item.identity for item in await store.read(list_items, limit=200)} >= set(told)
        assert await store.read(count_items) == len(told)
    with sqlite3.connect(tmp_path / "headwater.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


async def test_a_torn_log_loses_only_what_is_torn(tmp_path: Path) -> None:
    """If the end of the write-ahead log is damaged, as after a power cut, all earlier transactions survive."""
    url = sqlite_url(tmp_path)
    store = await open_store(url)
    feed = await one_feed(store)
    for k in range(5):
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id, f"{k}"), at=NOW + k)])
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("headwater.sqlite", "headwater.sqlite-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    await store.close()
    log = copy / "headwater.sqlite-wal"
    log.write_bytes(log.read_bytes()[:-1500])
    async with await open_store(sqlite_url(copy)) as torn:
        kept = {item.identity for item in await torn.read(list_items)}
        assert kept == {"0", "1", "2", "3"}
        assert len(await torn.read(list_outbox_entries, 0)) == 4
        assert await torn.read(find_seen_of_feed, feed.id, ["4"]) == {}


async def test_synchronous_full_is_taken_from_the_address(tmp_path: Path) -> None:
    for option, level in (("", 1), ("?synchronous=full", 2)):
        async with await open_store(sqlite_url(tmp_path) + option) as store:
            pragma = text("PRAGMA synchronous")
            assert await store.write(lambda connection, sql=pragma: connection.execute(sql).scalar()) == level


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o500)
    with pytest.raises(StoreError, match="cannot be written"):
        await open_store(sqlite_url(tmp_path))
    os.chmod(tmp_path, 0o700)


async def test_a_database_that_is_not_on_the_server_is_reported(postgres: PostgresServer) -> None:
    with pytest.raises(StoreError, match="no database of that name"):
        await open_store(postgres.url("nowhere"))


async def test_an_old_server_is_refused(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.store.database.postgres.OLDEST_VERSION", 99)
    with pytest.raises(StoreError, match="Headwater needs 99 or newer"):
        await open_store(postgres.url("postgres"))


async def test_a_wrong_password_is_reported(postgres: PostgresServer) -> None:
    right = postgres.guarded_url("right")
    async with await open_store(right) as store:
        assert await store.read(count_feeds) == 0
    with pytest.raises(StoreError, match="refused the password") as caught:
        await open_store(right.replace(":right@", ":wrong@"))
    assert "wrong" not in str(caught.value)


async def test_connections_that_were_cut_are_made_anew(postgres: PostgresServer) -> None:
    name = postgres.create()
    async with await open_store(postgres.url(name)) as store:
        feed = await one_feed(store)

        def cut_every_time(connection: Connection) -> None:
            connection.execute(text("SELECT 1"))
            postgres.disconnect(name)
            connection.execute(text("SELECT 1"))

        with pytest.raises(StoreError, match="cannot be reached"):
            await store.write(cut_every_time)
        assert await store.read(find_feed, feed.id) == feed
        # statements sent directly by the driver too
        [saved] = await save_refreshes(store, [a_verdict(feed, an_item(feed.id, "a"))])
        owner = (await store.read(find_owner)).id
        assert (await store.read(count_unread, owner)).total == 1
        postgres.disconnect(name)
        assert (await store.read(count_unread, owner)).total == 1
        postgres.disconnect(name)
        assert await store.write(mark_items, owner, saved.new_ids, NOW, read=True) == 1
        postgres.disconnect(name)
        assert (await store.read(count_unread, owner)).total == 0
    postgres.drop(name)


@pytest.mark.parametrize("missing", ["asyncpg", "greenlet"])
def test_postgresql_without_its_packages_says_what_to_install(missing: str) -> None:
    opening = f"""
import asyncio, sys
sys.modules["{missing}"] = None
from headwater.store.opening import open_store
asyncio.run(open_store("postgresql://nobody@127.0.0.1:1/x"))
"""
    run = subprocess.run([sys.executable, "-c", opening], capture_output=True, text=True, check=False)
    assert "StoreError: PostgreSQL needs more packages: install headwater[postgres]." in run.stderr.splitlines()[-1]


def test_the_extra_for_postgresql_brings_what_sqlalchemy_needs_to_wait() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert any(one.startswith("sqlalchemy[asyncio]") for one in extras["postgres"])
    assert "headwater[postgres]" in extras["cluster"]
