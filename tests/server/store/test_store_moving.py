"""Moving a database into another: everything arrives, a broken move goes on, nothing is written over."""

from __future__ import annotations

import time
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
from headwater.store.readers.subscriptions import add_and_subscribe
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
    """A SQLite file and a PostgreSQL database, both fresh."""
    name = postgres.create()
    yield sqlite_url(tmp_path), postgres.url(name)
    postgres.drop(name)


@pytest.mark.parametrize("back", [False, True], ids=["upwards", "back"])
async def test_everything_is_moved_and_ids_go_on_where_they_were(two, back: bool) -> None:
    source, target = reversed(two) if back else two
    await fill(source, 300)
    moved = await copy_database(source, target, time.time(), quiet)
    assert moved.rows["item"] == 1500
    assert moved.rows["outbox"] == 1500
    assert not moved.resumed
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


async def test_a_move_that_was_broken_off_goes_on_where_it_stopped(two, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = two
    monkeypatch.setattr(database_copy, "PIECE", 100)
    await fill(source, 100)

    def breaks(what: str, done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copy_database(source, target, time.time(), breaks)
    async with await open_store(target) as store:
        assert 0 < await store.read(count_items) <= 500
    first: list[int] = []
    moved = await copy_database(source, target, time.time(), lambda what, done, total: first.append(done))
    assert moved.resumed
    assert first[0] > 500  # not from the beginning
    assert moved.rows["item"] == 500
    with pytest.raises(StoreError, match="is not empty"):
        await copy_database(source, target, time.time(), quiet)  # done is done


async def test_a_target_with_something_in_it_is_refused_and_left_alone(two) -> None:
    source, target = two
    await fill(source, 3)
    async with await open_store(target) as store:
        await store.write(add_and_subscribe, [NewFeed("https://example.net/mine")], NOW)
    with pytest.raises(StoreError, match="is not empty"):
        await copy_database(source, target, time.time(), quiet)
    async with await open_store(target) as store:
        assert [feed.url for feed in await store.read(list_feeds)] == ["https://example.net/mine"]


async def test_a_source_that_changes_meanwhile_is_noticed_and_the_target_emptied(two) -> None:
    source, target = two
    await fill(source, 3)
    changed = False

    async with await open_store(source) as other:

        def change(what: str, done: int, total: int) -> None:
            nonlocal changed
            if what.startswith("copying item") and not changed:
                changed = True
                pending.append(other.write(change_feed, 1, title="changed"))

        pending: list = []
        original = database_copy._compare_databases

        async def compare(*given):
            for one in pending:
                await one
            return await original(*given)

        database_copy._compare_databases = compare
        try:
            with pytest.raises(StoreError, match="feed differs"):
                await copy_database(source, target, time.time(), change)
        finally:
            database_copy._compare_databases = original
    moved = await copy_database(source, target, time.time(), quiet)
    assert moved.rows["feed"] == 5


async def test_what_cannot_be_moved_is_said(two, tmp_path: Path) -> None:
    source, _ = two
    await fill(source, 1)
    with pytest.raises(InputError, match="same database"):
        await copy_database(source, source, time.time(), quiet)
    with pytest.raises(StoreError):
        await copy_database(f"sqlite:///{tmp_path}/missing.sqlite", source, time.time(), quiet)
