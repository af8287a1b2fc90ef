"""The outbox: one order for everybody, nothing behind a reader's back, checkpoints beside their output."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Connection, text

from headwater.errors import StoreError
from headwater.store.content import outbox as boxes
from headwater.store.schema.feed_tables import saved_state
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, one_feed


async def test_entries_come_in_order_and_beyond_a_position(store: Store) -> None:
    feed = await one_feed(store)
    assert await store.outbox_end() == 0
    for k in range(3):
        await store.save([a_verdict(feed, an_item(feed.id, f"{k}"), at=NOW + k)])
    entries = await store.outbox(0)
    assert [entry.item.identity for entry in entries] == ["0", "1", "2"]
    assert await store.outbox(entries[0].position, limit=1) == entries[1:2]
    assert await store.outbox_end() == entries[-1].position
    assert await store.outbox(entries[-1].position) == []


async def test_a_checkpoint_is_committed_with_its_output_or_not_at_all(store: Store) -> None:
    def output(connection: Connection, name: str) -> None:
        connection.execute(saved_state.insert(), {"name": name, "version": 1, "saved": NOW, "blob": b"out"})

    async with store.transaction() as transaction:
        await transaction.run(output, "first")
        await transaction.run(Store.advance, "queries", 7)
    assert await store.checkpoint("queries") == 7
    with pytest.raises(ValueError, match="crash"):  # noqa: PT012  the block is what is tested
        async with store.transaction() as transaction:
            await transaction.run(output, "second")
            await transaction.run(Store.advance, "queries", 9)
            raise ValueError("crash")
    assert await store.checkpoint("queries") == 7
    assert await store.load_state("first") == (1, b"out")
    assert await store.load_state("second") is None


async def test_a_checkpoint_never_moves_back_and_a_new_consumer_starts_at_the_beginning(store: Store) -> None:
    assert await store.checkpoint("new") == 0
    for position in (5, 3):
        async with store.transaction() as transaction:
            await transaction.run(Store.advance, "c", position)
    assert await store.checkpoint("c") == 5


async def test_the_callers_own_errors_pass_through_a_transaction_as_they_are(store: Store) -> None:
    with pytest.raises(OSError, match="theirs"):
        async with store.transaction():
            raise OSError("theirs")
    with pytest.raises(StoreError):
        async with store.transaction() as transaction:
            await transaction.run(lambda connection: connection.execute(text("SELECT nonsense")))
    assert await store.count_feeds() == 0  # the connection is usable


async def test_a_reader_that_tails_while_many_write_misses_nothing(store: Store) -> None:
    """In PostgreSQL ids become visible out of order; who remembers only the last one loses what comes late."""
    feeds = [await one_feed(store, f"https://example.org/{k}") for k in range(6)]
    done = asyncio.Event()
    read: list[str] = []

    async def tail() -> None:
        position = 0
        while True:
            last_look = done.is_set()
            while entries := await store.outbox(position, limit=7):
                read.extend(entry.item.identity for entry in entries)
                position = entries[-1].position
            if last_look:
                return
            await asyncio.sleep(0)

    async def write(number: int) -> None:
        feed = feeds[number]
        for k in range(25):
            await store.save([a_verdict(feed, an_item(feed.id, f"{number}-{k}"), at=NOW + k)])

    reader = asyncio.create_task(tail())
    await asyncio.gather(*(write(number) for number in range(6)))
    done.set()
    await reader
    assert len(read) == 150
    assert set(read) == {f"{number}-{k}" for number in range(6) for k in range(25)}


async def test_positions_taken_in_an_unfinished_transaction_hold_back_those_behind_them(store: Store) -> None:
    """The very trap: a slow transaction takes position 1, a quick one position 2 and commits first."""
    feed = await one_feed(store)
    (saved,) = await store.save([a_verdict(feed, an_item(feed.id))])
    start = await store.outbox_end()

    def slow(connection: Connection) -> None:
        boxes.lock_outbox(connection)
        boxes.append_entries(connection, "update", [(saved.new_ids[0], NOW)])

    async with store.transaction() as transaction:
        await transaction.run(slow)
        quick = asyncio.create_task(store.save([a_verdict(feed, an_item(feed.id, "b"), at=NOW + 1)]))
        await asyncio.sleep(0.2)
        assert await store.outbox(start) == []  # neither: the quick one waits for its turn
    await quick
    assert [entry.kind for entry in await store.outbox(start)] == ["update", "new"]


async def test_states_are_kept_by_name_and_replaced(store: Store) -> None:
    assert await store.load_state("x") is None
    blob = bytes(range(256)) * 100
    await store.save_state("x", 1, b"old", NOW)
    await store.save_state("x", 2, blob, NOW)
    assert await store.load_state("x") == (2, blob)
