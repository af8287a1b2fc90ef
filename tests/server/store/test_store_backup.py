"""A backup holds one moment of a busy database in one file, and is restored into either kind or refused with a
message.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, inspect, select

from headwater.errors import InputError, StoreError
from headwater.store.content.feeds import change_feed, list_feeds
from headwater.store.content.search import index_queued, search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.backup import Backup, check_backup, restore_backup, write_backup
from headwater.store.maintenance.database_copy import PROCESS_TABLES
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.store.opening import open_store
from headwater.store.readers.accounts import claim_ownership, find_owner
from headwater.store.saved_state import save_state
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.feed_tables import feed_state
from support.databases import PostgresServer, sqlite_url
from support.store_samples import NOW, SOMEBODY, a_verdict, an_item, one_feed


def silent(done: int, total: int) -> None:
    assert done <= total


async def filled(url: str, items: int = 30) -> None:
    """Return a database with values that are hard to copy: bytes, booleans, infinity, gaps between ids."""
    async with await open_store(url) as store:
        gone = await one_feed(store, "https://gone.example/feed")
        feed = await one_feed(store, title="Ödön’s “feed” 🌋", tags=("a", "b"))
        await store.write(change_feed, feed.id, paused=True, weight=2.5)
        await save_refreshes(store, [a_verdict(feed, *(an_item(feed.id, f"item {n}") for n in range(items)))])
        last = await one_feed(store, "https://last.example/feed")
        await store.write(move_feed_to_trash, gone.id, by=SOMEBODY)
        await store.write(move_feed_to_trash, last.id, by=SOMEBODY)
        await store.write(save_state, "odd", 3, bytes(range(256)), NOW)
        await store.write(index_queued)
        endless = feed_state.update().values(next_refresh=float("inf"))
        await store.write(lambda connection: connection.execute(endless))


async def backed_up(url: str, file: Path) -> Backup:
    return await write_backup(url, file, NOW, silent)


async def restored(file: Path, url: str) -> None:
    await restore_backup(file, url, silent)


async def everything(url: str) -> dict[str, list[tuple[Any, ...]]]:
    def rows(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
        return {
            name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for name, table in metadata.tables.items()
            if name != "index_queue"
        }

    async with await open_store(url) as store:
        return await store.read(rows)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/restored/headwater.sqlite"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create(empty=True)
    yield server.url(name)
    server.drop(name)


async def test_everything_comes_back_in_either_kind_of_database(
    database_url: str, empty_target: str, tmp_path: Path
) -> None:
    await filled(database_url)
    before = await everything(database_url)
    made = await backed_up(database_url, tmp_path / "backup")
    assert made.counts["item"] == 30
    assert made.note.database == ("sqlite" if database_url.startswith("sqlite") else "postgresql")
    assert await check_backup(tmp_path / "backup", silent) == made
    assert [name for name in os.listdir(tmp_path) if name.startswith("backup")] == ["backup"]
    await restored(tmp_path / "backup", empty_target)
    assert await everything(empty_target) == before
    async with await open_store(empty_target) as store:
        assert len((await search_items(store, "title")).items) == 30  # words are indexed anew
        ids = {feed.id for feed in await store.read(list_feeds)}
        assert (await one_feed(store, "https://new.example/feed")).id > max(ids) + 1  # an id is never reused


async def test_a_backup_is_one_moment_while_others_write(database_url: str, empty_target: str, tmp_path: Path) -> None:
    async with await open_store(database_url) as store:
        feed = await one_feed(store)
        written = itertools.count()
        busy, done = asyncio.Event(), asyncio.Event()

        async def write() -> None:
            while not done.is_set():
                number = next(written)
                new = [an_item(feed.id, f"{number}/{k}") for k in range(20)]
                await save_refreshes(store, [a_verdict(feed, *new, at=NOW + number)])
                if number == 10:
                    busy.set()

        writing_on = asyncio.create_task(write())
        await busy.wait()
        made = await backed_up(database_url, tmp_path / "backup")
        before_end = next(written)
        await asyncio.sleep(0.1)
        done.set()
        await writing_on
    assert next(written) > before_end  # writers did not wait for the backup
    await restored(tmp_path / "backup", empty_target)
    found = await everything(empty_target)
    assert {name: len(found[name]) for name in made.counts if name != "saved_state"} == {
        name: count for name, count in made.counts.items() if name != "saved_state"
    }
    # Each transaction has twenty items with their marks and outbox entries: none is copied in part.
    assert len(found["item"]) == len(found["seen_identity"]) == len(found["outbox"]) == 20 * len(found["refresh"]) > 0


def packed(file: Path, content: bytes) -> Path:
    file.write_bytes(zstandard.compress(content))
    return file


def test_anybody_opens_a_backup_with_zstd_and_sqlite(sound: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.sqlite"
    plain.write_bytes(unpacked(sound.read_bytes()))
    with closing(sqlite3.connect(f"file:{plain}?mode=ro&immutable=1", uri=True)) as connection:
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (5,)


def changed(backup: Path, new: Path, statement: str) -> Path:
    """Write a backup with a modified database."""
    plain = new.with_name("changed.sqlite")
    plain.write_bytes(unpacked(backup.read_bytes()))
    with closing(sqlite3.connect(plain)) as connection, connection:
        connection.execute(statement)
    return packed(new, plain.read_bytes())


def unpacked(content: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(content)


async def test_a_newer_backup_is_refused(sound: Path, tmp_path: Path) -> None:
    new = changed(sound, tmp_path / "new", "UPDATE alembic_version SET version_num = 'v9999'")
    with pytest.raises(StoreError, match=r"newer Headwater \(.*tables v9999.*Install that version"):
        await restored(new, f"sqlite:///{tmp_path}/x/headwater.sqlite")
    assert not list((tmp_path / "x").glob("*"))


async def test_a_database_that_no_backup_made_is_refused(sound: Path, tmp_path: Path) -> None:
    for name, statement in (
        ("own", "DELETE FROM saved_state WHERE name = 'backup'"),
        ("foreign", "DROP TABLE alembic_version"),
    ):
        with pytest.raises(InputError, match="is not a backup of Headwater"):
            await check_backup(changed(sound, tmp_path / name, statement), silent)


async def test_a_database_that_is_not_whole_is_refused(sound: Path, tmp_path: Path) -> None:
    orphans = changed(sound, tmp_path / "orphans", "DELETE FROM feed")
    with pytest.raises(InputError, match=r"is damaged: the database in it is not whole"):
        await check_backup(orphans, silent)


async def test_what_is_there_is_not_overwritten(database_url: str, empty_target: str, tmp_path: Path) -> None:
    await filled(database_url, 3)
    await backed_up(database_url, tmp_path / "backup")
    before = await everything(database_url)
    with pytest.raises(StoreError, match=r"already\. Restore into another|not empty: it has rows in"):
        await restored(tmp_path / "backup", database_url)
    assert await everything(database_url) == before
    with pytest.raises(InputError, match="is there already"):
        await backed_up(database_url, tmp_path / "backup")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    asyncio.run(filled(f"sqlite:///{folder}/a.sqlite", 5))
    asyncio.run(backed_up(f"sqlite:///{folder}/a.sqlite", folder / "backup"))
    return folder / "backup"


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_cut_or_changed_file_is_never_taken_for_a_whole_one(sound: Path, data: st.DataObject) -> None:
    whole = sound.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    bit = data.draw(st.integers(0, 8))
    bad = whole[:at] if bit == 8 else whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]
    file = sound.with_name("bad")
    file.write_bytes(bad)
    if is_sound(file):
        assert bit < 8  # an unused bit of the compression header: the database is the same
        assert unpacked(bad) == unpacked(whole)
        return
    with pytest.raises(InputError, match=r"is damaged: .*\. Nothing was restored|is not a backup of Headwater"):
        asyncio.run(check_backup(file, silent))


def is_sound(file: Path) -> bool:
    with suppress(InputError):
        return bool(asyncio.run(check_backup(file, silent)))
    return False


def test_every_bit_of_its_first_bytes_may_change(sound: Path) -> None:
    """These bytes describe the compression: most bits damage it, some are unused."""
    whole, file = sound.read_bytes(), sound.with_name("bad")
    for at in range(16):
        for bit in range(8):
            bad = whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]
            file.write_bytes(bad)
            assert not is_sound(file) or unpacked(bad) == unpacked(whole)


def cut(file: Path) -> Path:
    bad = file.with_name("cut")
    bad.write_bytes(file.read_bytes()[:-20])
    return bad


async def test_a_failed_restore_leaves_nothing_and_can_be_tried_again(
    sound: Path, empty_target: str, tmp_path: Path
) -> None:
    bad = cut(sound)
    with pytest.raises(InputError, match="damaged"):
        await restored(bad, empty_target)
    assert not list((tmp_path / "restored").glob("*")) if empty_target.startswith("sqlite") else True
    await restored(sound, empty_target)
    assert len((await everything(empty_target))["item"]) == 5


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a backup of Headwater"),
        (b"SQLite format 3\0" * 100, "is not a backup of Headwater"),
        (b"PK\x03\x04", "is not a backup of Headwater"),
        (b"\x28\xb5\x2f\xfdnonsense", "is damaged: a part of it cannot be unpacked"),
        (zstandard.compress(b""), "is not a backup of Headwater"),
        (zstandard.compress(b"nonsense"), "is not a backup of Headwater"),
        (zstandard.compress(b"SQLite format 3\0" * 100), "is damaged: the database in it cannot be read"),
    ],
)
async def test_another_kind_of_file_is_told_apart(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=says):
        await check_backup(tmp_path / "x", silent)


def test_what_follows_the_end_of_a_backup_is_noticed(sound: Path, tmp_path: Path) -> None:
    whole = sound.read_bytes()
    for more in (b"x", bytes(100_000), whole):
        (tmp_path / "longer").write_bytes(whole + more)
        with pytest.raises(InputError, match=r"is damaged: (something follows|a part of it)"):
            asyncio.run(check_backup(tmp_path / "longer", silent))


@pytest.mark.parametrize("name", ["nothing", "."])
async def test_an_unreadable_backup_is_reported(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        await check_backup(tmp_path / name, silent)


async def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    await filled(sqlite_url(tmp_path), 1)
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        await backed_up(sqlite_url(tmp_path), tmp_path / "no" / "folder")


async def test_every_table_is_in_a_backup_but_those_of_running_processes(database_url: str, tmp_path: Path) -> None:
    async with await open_store(database_url) as store:
        found = await store.read(lambda connection: inspect(connection).get_table_names())
    made = await backed_up(database_url, tmp_path / "backup")
    there = {name for name in found if not name.startswith("item_search")}
    assert there - set(made.counts) == {"alembic_version", "index_queue", *(table.name for table in PROCESS_TABLES)}


async def test_a_server_that_has_an_owner_is_not_restored_over(database_url: str, sound: Path) -> None:
    async with await open_store(database_url) as store:
        await store.write(claim_ownership, "olga", "hash of a password")
    with pytest.raises(StoreError, match="already"):
        await restored(sound, database_url)
    async with await open_store(database_url) as store:
        assert (await store.read(find_owner)).name == "olga"
