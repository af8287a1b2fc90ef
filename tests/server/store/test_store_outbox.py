"""All readers of the outbox see one order and miss nothing; checkpoints are saved together with their output."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Connection, text

from headwater.errors import StoreError
from headwater.store.content import outbox as boxes
from headwater.store.content.feeds import count_feeds
from headwater.store.content.outbox import advance_checkpoint, find_last_position, list_outbox_entries, read_checkpoint
from headwater.store.content.verdicts import save_refreshes
from headwater.store.saved_state import load_state, save_state
from headwater.store.schema.item_tables import saved_state
from headwater.store.store import Store
from support.databases import closed_gate
from support.store_samples import NOW, a_verdict, an_item, one_feed


async def test_entries_come_in_order_and_beyond_a_position(store: Store) -> None:
    feed = await one_feed(store)
    assert await store.read(find_last_position) == 0
    for k in range(3):
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id, f"{k}"), at=NOW + k)])
    entries = await store.read(list_outbox_entries, 0)
    assert [entry.item.identity for entry in entries] == ["0", "1", "2"]
    assert await store.read(list_outbox_entries, entries[0].position, limit=1) == entries[1:2]
    assert await store.read(find_last_position) == entries[-1].position
    assert await store.read(list_outbox_entries, entries[-1].position) == []


async def test_a_checkpoint_is_committed_with_its_output_or_not_at_all(store: Store) -> None:
    def output(connection: Connection, name: str) -> None:
        connection.execute(saved_state.insert(), {"name": name, "version": 1, "saved": NOW, "blob": b"out"})

    def consume(connection: Connection, name: str, position: int, *, crash: bool = False) -> None:
        output(connection, name)
        advance_checkpoint(connection, "queries", position)
        if crash:
            raise ValueError("crash")

    await store.write(consume, "first", 7)
    assert await store.read(read_checkpoint, "queries") == 7
    with pytest.raises(ValueError, match="crash"):
        await store.write(consume, "second", 9, crash=True)
    assert await store.read(read_checkpoint, "queries") == 7
    assert await store.read(load_state, "first") == (1, b"out")
    assert await store.read(load_state, "second") is None


async def test_a_checkpoint_never_moves_back_and_a_new_consumer_starts_at_the_beginning(store: Store) -> None:
    assert await store.read(read_checkpoint, "new") == 0
    for position in (5, 3):
        await store.write(advance_checkpoint, "c", position)
    assert await store.read(read_checkpoint, "c") == 5


async def test_the_callers_own_errors_pass_through_a_transaction_as_they_are(store: Store) -> None:
    def fail(connection: Connection) -> None:
        raise ValueError("theirs")

    with pytest.raises(ValueError, match="theirs"):
        await store.write(fail)
    with pytest.raises(StoreError):
        await store.write(lambda connection: connection.execute(text("SELECT nonsense")))
    assert await store.read(count_feeds) == 0  # the connection is still usable


async def test_a_reader_that_tails_while_many_write_misses_nothing(store: Store) -> None:
    """In PostgreSQL ids become visible out of order; a reader that remembers only the last one misses late ones."""
    feeds = [await one_feed(store, f"https://example.org/{k}") for k in range(6)]
    done = asyncio.Event()
    read: list[str] = []

    async def tail() -> None:
        position = 0
        while True:
            last_look = done.is_set()
            while entries := await store.read(list_outbox_entries, position, limit=7):
                read.extend(entry.item.identity for entry in entries)
                position = entries[-1].position
            if last_look:
                return
            await asyncio.sleep(0)

    async def write(number: int) -> None:
        feed = feeds[number]
        for k in range(25):
            await save_refreshes(store, [a_verdict(feed, an_item(feed.id, f"{number}-{k}"), at=NOW + k)])

    reader = asyncio.create_task(tail())
    await asyncio.gather(*(write(number) for number in range(6)))
    done.set()
    await reader
    assert len(read) == 150
    assert set(read) == {f"{number}-{k}" for number in range(6) for k in range(25)}


async def test_positions_taken_in_an_unfinished_transaction_hold_back_those_behind_them(
    store: Store, database_url: str
) -> None:
    """A slow transaction takes position 1; a quick one takes position 2 and commits first."""
    feed = await one_feed(store)
    (saved,) = await save_refreshes(store, [a_verdict(feed, an_item(feed.id))])
    start = await store.read(find_last_position)
    loop, taken = asyncio.get_running_loop(), asyncio.Event()

    async with closed_gate(database_url) as wait_at_gate:

        def slow(connection: Connection) -> None:
            boxes.lock_outbox(connection)
            boxes.append_entries(connection, "update", [(saved.new_ids[0], NOW)])
            loop.call_soon_threadsafe(taken.set)
            wait_at_gate(connection)

        waiting = asyncio.create_task(store.write(slow))
        await taken.wait()
        quick = asyncio.create_task(save_refreshes(store, [a_verdict(feed, an_item(feed.id, "b"), at=NOW + 1)]))
        await asyncio.sleep(0.2)
        assert await store.read(list_outbox_entries, start) == []  # neither is visible: the quick one waits
    await waiting
    await quick
    assert [entry.kind for entry in await store.read(list_outbox_entries, start)] == ["update", "new"]


async def test_states_are_kept_by_name_and_replaced(store: Store) -> None:
    assert await store.read(load_state, "x") is None
    blob = bytes(range(256)) * 100
    await store.write(save_state, "x", 1, b"old", NOW)
    await store.write(save_state, "x", 2, blob, NOW)
    assert await store.read(load_state, "x") == (2, blob)
