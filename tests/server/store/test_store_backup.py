"""Backups: one moment of a busy database, in one file, restored into either kind, or refused in a sentence."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, inspect, select

from headwater.errors import HeadwaterError, InputError, StoreError
from headwater.store.content.feeds import change_feed, list_feeds
from headwater.store.content.search import index_queued, search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.database.migrate import HEAD
from headwater.store.maintenance.backup import write_backup
from headwater.store.maintenance.backup_file import FORMAT, Manifest, open_backup_reader, open_backup_writer
from headwater.store.maintenance.backup_restore import restore_backup
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
    """A database with something in it that is hard to keep: bytes, true, infinity, holes in the numbers."""
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


async def backed_up(url: str, file: Path) -> Manifest:
    async with await open_store(url) as store:
        with open_backup_writer(file) as writer:
            return await store.snapshot(write_backup, writer, NOW, silent)


async def restored(file: Path, url: str) -> None:
    with open_backup_reader(file) as reader:
        await restore_backup(reader, url, file, silent)


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
    manifest = await backed_up(database_url, tmp_path / "backup")
    assert manifest.counts["item"] == 30
    await restored(tmp_path / "backup", empty_target)
    assert await everything(empty_target) == before
    async with await open_store(empty_target) as store:
        assert len((await search_items(store, "title")).items) == 30  # words are indexed anew
        ids = {feed.id for feed in await store.read(list_feeds)}
        assert (await one_feed(store, "https://new.example/feed")).id > max(ids) + 1  # nor is an id given twice


async def test_a_backup_is_one_moment_while_others_write(database_url: str, empty_target: str, tmp_path: Path) -> None:
    async with await open_store(database_url) as store, await open_store(database_url) as second:
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
        with open_backup_writer(tmp_path / "backup") as writer:
            manifest = await second.snapshot(write_backup, writer, NOW, silent)
        before_end = next(written)
        await asyncio.sleep(0.1)
        done.set()
        await writing_on
    assert next(written) > before_end  # nobody had to wait for the backup
    await restored(tmp_path / "backup", empty_target)
    found = await everything(empty_target)
    assert {name: len(rows) for name, rows in found.items() if name != "saved_state"} == {
        name: count for name, count in manifest.counts.items() if name != "saved_state"
    }
    # Twenty items in each transaction, with their marks and outbox entries: none is there in part.
    assert len(found["item"]) == len(found["seen_identity"]) == len(found["outbox"]) == 20 * len(found["refresh"]) > 0


async def test_a_backup_from_before_the_first_release_is_refused(tmp_path: Path) -> None:
    with open_backup_writer(tmp_path / "old") as writer:
        writer.write_manifest(Manifest(FORMAT, "0.0.1", "0001", NOW, "sqlite", {"feed": ["id"]}, {"feed": 0}, {}))
        writer.write_seal()
    with pytest.raises(StoreError, match=r"before 0\.2\.0"):
        await restored(tmp_path / "old", sqlite_url(tmp_path))


async def test_a_newer_backup_is_refused(tmp_path: Path) -> None:
    for format, version in ((FORMAT, "v9999"), (FORMAT + 1, HEAD)):
        with open_backup_writer(tmp_path / "new", replace=True) as writer:
            writer.write_manifest(Manifest(format, "9.0", version, NOW, "sqlite", {}, {}, {}))
            writer.write_seal()
        with pytest.raises(HeadwaterError, match=r"newer Headwater \(9.0.*Install that version"):
            await restored(tmp_path / "new", f"sqlite:///{tmp_path}/x/headwater.sqlite")
    assert not (tmp_path / "x" / "headwater.sqlite").exists()


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


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_cut_or_changed_file_is_never_taken_for_a_whole_one(sound: Path, data: st.DataObject) -> None:
    whole = sound.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    bit = data.draw(st.integers(0, 8))
    bad = whole[:at] if bit == 8 else whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]
    file = sound.with_name("bad")
    file.write_bytes(bad)
    if found := contents(file):
        assert found == contents(sound)  # a bit of the packing that says nothing: what is packed is whole
        assert bit < 8 or at >= len(whole) - 4
        return
    with pytest.raises(InputError, match=r"is damaged: .*\. Nothing was restored|is no backup of Headwater|newer"):
        contents(file, strictly=True)


def test_every_bit_of_its_first_bytes_may_change(sound: Path) -> None:
    """Where the packing says how it is packed: most bits damage it, some say nothing."""
    whole, file = sound.read_bytes(), sound.with_name("bad")
    for at in range(24):
        for bit in range(8):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
            assert contents(file) in ([], contents(sound))


def contents(file: Path, *, strictly: bool = False) -> list[object]:
    with suppress(() if strictly else InputError), open_backup_reader(file) as reader:
        return [reader.manifest, *reader.read_blocks()]
    return []


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


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" * 100, b"PK\x03\x04", b"\x28\xb5\x2f\xfdnonsense"])
def test_another_kind_of_file_is_told_apart(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match="is no backup of Headwater"), open_backup_reader(tmp_path / "x"):
        pass


@pytest.mark.parametrize("name", ["nothing", "."])
def test_what_cannot_be_read_is_said_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"), open_backup_reader(tmp_path / name):
        pass


def test_where_nothing_can_be_written_is_said_so(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match="cannot be written: No such file"),
        open_backup_writer(tmp_path / "no" / "folder"),
    ):
        pass


async def test_every_table_is_in_a_backup_but_the_index_of_words(database_url: str, tmp_path: Path) -> None:
    manifest = await backed_up(database_url, tmp_path / "backup")
    async with await open_store(database_url) as store:
        found = await store.read(lambda connection: inspect(connection).get_table_names())
    there = {name for name in found if not name.startswith("item_search")}
    assert there - set(manifest.counts) == {"alembic_version", "index_queue"}


async def test_a_server_that_has_an_owner_is_not_restored_over(database_url: str, sound: Path) -> None:
    async with await open_store(database_url) as store:
        await store.write(claim_ownership, "olga", "hash of a password")
    with pytest.raises(StoreError, match="already"):
        await restored(sound, database_url)
    async with await open_store(database_url) as store:
        assert (await store.read(find_owner)).name == "olga"
