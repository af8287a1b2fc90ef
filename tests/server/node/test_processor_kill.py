"""After any kill −9 of the query processor, every item has been matched once by every query that existed on its
arrival.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import signal
import time

import killed_processor
import pytest
from sqlalchemy import Connection, select

from headwater.node.queries.processor import QueryProcessor
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.queries.query_feeds import list_all_query_feeds
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.schema.item_tables import item, outbox
from headwater.store.schema.query_tables import hit
from support.store_samples import NOW

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["headwater.node.queries.processor", "asyncpg", "sqlalchemy.dialects.postgresql.asyncpg"])


def run_and_kill(url: str, round: int, feed_ids: list[int], wait: float) -> None:
    """Run a processor and kill it; in every other life wait for its first query, however slow the machine."""
    ours, theirs = FORKS.Pipe(duplex=False)
    child = FORKS.Process(target=killed_processor.main, args=(url, round, feed_ids, theirs), daemon=True)
    child.start()
    theirs.close()
    assert ours.recv() == "ready"
    if round % 2 == 0:
        assert ours.recv() == "changed"
    time.sleep(wait)
    child.kill()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    ours.close()


async def with_feeds(url: str) -> list[int]:
    async with await open_store(url) as store:
        added = await store.write(add_and_subscribe, [NewFeed(f"https://example.org/{k}") for k in range(3)], NOW)
        return [one.feed.id for one in added]


def fresh_hits(connection: Connection) -> list[tuple[int, str]]:
    query = select(hit.c.query_id, item.c.title).join(item, item.c.id == hit.c.item_id).where(hit.c.fresh)
    return [(row.query_id, row.title) for row in connection.execute(query)]


def arrivals(connection: Connection) -> list[tuple[int, str]]:
    query = select(outbox.c.position, item.c.title).join(item, item.c.id == outbox.c.item_id)
    return [(row.position, row.title) for row in connection.execute(query)]


async def check(url: str) -> tuple[int, int]:
    """Catch up, then check that each query delivered exactly the matching items after its position."""
    async with await open_store(url) as store:
        processor = QueryProcessor(store, clock=lambda: NOW)
        await processor.load()
        while await processor.step():
            pass
        queries = await store.read(list_all_query_feeds)
        found = await store.read(fresh_hits)
        arrived = await store.read(arrivals)
    expected = sorted(
        (query.id, title)
        for query in queries
        for position, title in arrived
        if position > query.position and title.startswith(query.name.partition("_")[0])
    )
    assert sorted(found) == expected
    assert all(query.active == query.text for query in queries)
    return len(queries), len(found)


def killed_again_and_again(url: str, times: int) -> None:
    chance = random.Random(times)
    feed_ids = asyncio.run(with_feeds(url))
    for round in range(times):
        run_and_kill(url, round, feed_ids, chance.uniform(0.05, 0.6))
    queries, hits = asyncio.run(check(url))
    assert queries >= killed_processor.LARGE + times // 2 - 1  # the processes worked between the kills
    assert hits > times


def test_every_item_meets_every_query_of_its_time_once_after_a_few_kills(database_url: str) -> None:
    killed_again_and_again(database_url, 6)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_every_item_meets_every_query_of_its_time_once_after_two_hundred_kills(database_url: str) -> None:
    killed_again_and_again(database_url, 200)
