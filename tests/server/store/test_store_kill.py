"""kill −9 at random times loses nothing acknowledged, stores nothing twice, and leaves the file intact."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import signal
import sqlite3
import time
from collections import Counter

import killed_writer
import pytest
from sqlalchemy import Connection, select

from headwater.store.content.feeds import NewFeed
from headwater.store.content.refreshes import list_refreshes
from headwater.store.content.search import index_queued, search_items
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.schema.item_tables import index_queue, item, outbox, seen_identity
from support.store_samples import NOW

# Children are forked from a process that has imported everything, so that a kill costs no start-up.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["headwater.store.store", "asyncpg", "sqlalchemy.dialects.postgresql.asyncpg"])


def run_and_kill(url: str, round: int, feed_ids: list[int], wait: float) -> set[tuple[int, str]]:
    """Run a writer, kill it `wait` seconds after it is ready, and return the acknowledged items.

    In every other round wait for its first batch, because on a slow machine none may be finished in time.
    """
    ours, theirs = FORKS.Pipe(duplex=False)
    child = FORKS.Process(target=killed_writer.main, args=(url, round, feed_ids, theirs), daemon=True)
    child.start()
    theirs.close()
    assert ours.recv() == []
    told = set(ours.recv()) if round % 2 == 0 else set[tuple[int, str]]()
    time.sleep(wait)
    child.kill()
    while True:
        try:
            told.update(ours.recv())
        except EOFError:
            break
    child.join()
    assert child.exitcode == -signal.SIGKILL
    ours.close()
    return told


def contents(connection: Connection) -> set[tuple[int, str]]:
    """Return every item, after checking that it and its dependent rows exist once."""
    rows = connection.execute(select(item.c.id, item.c.feed_id, item.c.identity)).all()
    items = Counter((feed_id, identity) for _, feed_id, identity in rows)
    ids = {row.id for row in rows}
    announced = Counter(connection.execute(select(outbox.c.item_id).where(outbox.c.kind == "new")).scalars())
    assert max(items.values(), default=1) == 1, "stored twice"
    assert max(announced.values(), default=1) == 1, "announced twice"
    assert set(announced) == ids
    assert set(connection.execute(select(seen_identity.c.item_id)).scalars()) == ids
    assert set(connection.execute(select(index_queue.c.item_id)).scalars()) <= ids
    return set(items)


def killed_again_and_again(url: str, times: int) -> None:
    chance = random.Random(times)
    feed_ids = asyncio.run(with_feeds(url))
    told: set[tuple[int, str]] = set()
    for round in range(times):
        told |= run_and_kill(url, round, feed_ids, chance.uniform(0.0, 0.3))
        items = asyncio.run(checked(url))
        assert told - items == set(), "acknowledged and lost"
    assert len(told) > times  # it wrote and acknowledged
    if url.startswith("sqlite"):
        check_file(url.removeprefix("sqlite:///"))
    asyncio.run(check_search_and_log(url, items))


async def with_feeds(url: str) -> list[int]:
    async with await open_store(url) as store:
        added = await store.write(add_and_subscribe, [NewFeed(f"https://example.org/{k}") for k in range(8)], NOW)
        return [one.feed.id for one in added]


async def checked(url: str) -> set[tuple[int, str]]:
    async with await open_store(url) as store:
        return await store.snapshot(contents)


def check_file(file: str) -> None:
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.execute("INSERT INTO item_search (item_search) VALUES ('integrity-check')")
    connection.close()


async def check_search_and_log(url: str, items: set[tuple[int, str]]) -> None:
    async with await open_store(url) as store:
        while await store.write(index_queued):
            pass
        found = await search_items(store, "text", limit=1_000_000)
        assert {(one.feed_id, one.identity) for one in found.items} == items
        assert sum(one.new for one in await store.read(list_refreshes, limit=1_000_000)) == len(items)


def test_no_acknowledged_item_is_lost_and_none_is_there_twice_after_a_few_kills(database_url: str) -> None:
    killed_again_and_again(database_url, 8)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_acknowledged_item_is_lost_and_none_is_there_twice_after_two_hundred_kills(database_url: str) -> None:
    killed_again_and_again(database_url, 200)
