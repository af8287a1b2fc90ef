"""Moving a database into another copies everything or nothing, and overwrites nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from headwater.errors import InputError, StoreError
from headwater.store.content.feeds import NewFeed, change_feed, list_feeds
from headwater.store.content.items import count_items, list_items
from headwater.store.content.outbox import list_outbox_entries
from headwater.store.content.search import search_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance import database_copy
from headwater.store.maintenance.database_copy import copy_database
from headwater.store.opening import open_store
from headwater.store.queries.query_feeds import list_all_query_feeds
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import find_owner
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions
from headwater.store.saved_state import load_state, save_state
from support.databases import PostgresServer, sqlite_url
from support.store_samples import NOW, a_verdict, an_item


def quiet(what: str, done: int, total: int) -> None:
    assert 0 <= done <= total


async def fill(url: str, items: int) -> None:
    async with await open_store(url) as store:
        added = await store.write(
            add_and_subscribe, [NewFeed(f"https://example.org/{k}", tags=("a", "ü")) for k in range(5)], NOW
        )
        await store.write(run_script, 'CREATE FEED Lava AS RETURN ALL WHERE TITLE CONTAINS "lava"', NOW)
        await store.write(save_state, "some state", 3, b"\x00\xff", NOW)
        for k, one in enumerate(added):
            new = [an_item(one.feed.id, f"{k}-{n}", title=f"lava {n} ☃") for n in range(items)]
            await save_refreshes(store, [a_verdict(one.feed, *new, at=NOW + k)])


@pytest.fixture
def two(tmp_path: Path, postgres: PostgresServer):
    """Return a fresh SQLite file and a fresh PostgreSQL database."""
    name = postgres.create()
    yield sqlite_url(tmp_path), postgres.url(name)
    postgres.drop(name)


@pytest.mark.parametrize("back", [False, True], ids=["upwards", "back"])
async def test_everything_is_moved_and_ids_go_on_where_they_were(two, back: bool) -> None:
    source, target = reversed(two) if back else two
    await fill(source, 300)
    moved = await copy_database(source, target, quiet)
    assert moved.rows["item"] == 1500
    assert moved.rows["outbox"] == 1500
    async with await open_store(source) as old, await open_store(target) as new:
        assert await new.read(list_feeds) == await old.read(list_feeds)
        assert await new.read(list_items, limit=2000) == await old.read(list_items, limit=2000)
        assert await new.read(list_outbox_entries, 0, 2000) == await old.read(list_outbox_entries, 0, 2000)
        assert await new.read(list_all_query_feeds) == await old.read(list_all_query_feeds)
        assert await new.read(load_state, "some state") == (3, b"\x00\xff")
        assert len((await search_items(new, "lava", limit=2000)).items) == 1500
        for store in (old, new):
            [again] = await store.write(add_and_subscribe, [NewFeed("https://example.net/next")], NOW)
            assert again.feed.id == 6
    assert await moved_ids(source) == await moved_ids(target)


async def moved_ids(url: str) -> list[int]:
    async with await open_store(url) as store:
        return [feed.id for feed in await store.read(list_feeds)]


async def test_a_move_that_was_broken_off_leaves_nothing_and_begins_anew(two, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = two
    monkeypatch.setattr(database_copy, "PIECE", 100)
    await fill(source, 100)

    def breaks(what: str, done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copy_database(source, target, breaks)
    async with await open_store(target) as store:
        assert await store.read(count_items) == 0
    moved = await copy_database(source, target, quiet)
    assert moved.rows["item"] == 500
    with pytest.raises(StoreError, match="is not empty"):
        await copy_database(source, target, quiet)  # finished


async def test_between_two_of_a_kind(two, postgres: PostgresServer, tmp_path: Path) -> None:
    file, server = two
    await fill(file, 3)
    other = f"sqlite:///{tmp_path}/other/headwater.sqlite"
    assert (await copy_database(file, other, quiet)).rows["item"] == 15
    await copy_database(file, server, quiet)
    second = postgres.create()
    try:
        moved = await copy_database(server, postgres.url(second), quiet)
        assert moved.rows["item"] == 15
        async with await open_store(postgres.url(second)) as new, await open_store(other) as old:
            assert await new.read(list_items) == await old.read(list_items)
    finally:
        postgres.drop(second)


async def test_a_target_with_something_in_it_is_refused_and_left_alone(two) -> None:
    source, target = two
    await fill(source, 3)
    async with await open_store(target) as store:
        await store.write(add_and_subscribe, [NewFeed("https://example.net/mine")], NOW)
    with pytest.raises(StoreError, match="is not empty"):
        await copy_database(source, target, quiet)
    async with await open_store(target) as store:
        assert [feed.url for feed in await store.read(list_feeds)] == ["https://example.net/mine"]


@pytest.mark.parametrize("back", [False, True], ids=["upwards", "back"])
async def test_a_copy_is_one_moment_of_a_source_that_changes_meanwhile(two, back: bool) -> None:
    source, target = reversed(two) if back else two
    await fill(source, 3)
    before = await titles(source)

    def change(what: str, done: int, total: int) -> None:
        if what == "copying item":  # tables of feeds are copied before it, those of readers after it
            asyncio.run(rename_and_add(source))

    def in_another_thread(what: str, done: int, total: int) -> None:
        worker = threading.Thread(target=change, args=(what, done, total))
        worker.start()
        worker.join()

    await copy_database(source, target, in_another_thread)
    assert await titles(target) == before
    assert await titles(source) != before


async def rename_and_add(url: str) -> None:
    async with await open_store(url) as store:
        await store.write(change_feed, 1, title="changed")
        await store.write(add_and_subscribe, [NewFeed("https://example.net/late")], NOW)


async def titles(url: str) -> list[tuple[str | None, int]]:
    """Return each feed, and whether the owner subscribes to it."""
    async with await open_store(url) as store:
        owner = await store.read(find_owner)
        mine = {one.feed_id for one in await store.read(list_subscriptions, owner.id)}
        return [(feed.title, feed.id in mine) for feed in await store.read(list_feeds)]


async def test_what_cannot_be_moved_is_reported(two, tmp_path: Path) -> None:
    source, _ = two
    await fill(source, 1)
    with pytest.raises(InputError, match="same database"):
        await copy_database(source, source, quiet)
    with pytest.raises(StoreError):
        await copy_database(f"sqlite:///{tmp_path}/missing.sqlite", source, quiet)
