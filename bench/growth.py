"""Measures the cost of a refresh as the store grows: the same feeds in stores of many feeds and of many items.

Every store holds the farm's feeds, spread evenly among others that are not due, and their items. A node on each store
refreshes the farm's feeds, round after round and in turn, so that other load on the machine slows all of them: once
without news (304), and once with one new item in a window of twenty (200, read, judged and stored; the newest item is
forgotten before each of these rounds). The figure is the CPU time of the whole process, the median round.

`python -m bench.growth [--small]`
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import orjson
import structlog
import uvloop
from sqlalchemy import Connection

from bench.refresh import CONCURRENCY, cpu, farm
from headwater.assembly import build, freeze_startup_objects
from headwater.model import Ending
from headwater.node import maintenance
from headwater.node.crawl.local_crawl import LocalCrawl
from headwater.node.crawl.transport import StoredRefresh
from headwater.node.node import Node
from headwater.settings import load_settings
from headwater.store.content.feed_state import hash_identity
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe

ROUNDS = 7  # the first round fills caches
NEWS, NO_NEWS = "one new item", "no news"


class Size(NamedTuple):
    feeds: int
    items: int  # of the feeds outside the farm

    def __str__(self) -> str:
        return f"{self.feeds:,} feeds, {self.items:,} items"


SMALL = [Size(100, 400), Size(300, 1000)]
LARGE = [Size(1_000, 10_000), Size(10_000, 10_000), Size(100_000, 100_000), Size(10_000, 1_000_000)]

# Feeds that are not due, as after some refreshes: with windows, a log, items and seen identities.
_OTHERS = "SELECT id FROM feed WHERE url NOT LIKE '%/feeds/%'"
_FILL = (
    'UPDATE feed_state SET last_refresh = :now, last_success = :now, next_refresh = :later, "window" = 20 '
    f"WHERE feed_id IN ({_OTHERS})",
    f"INSERT INTO feed_window (feed_id, entries) SELECT id, hex(randomblob(600)) FROM ({_OTHERS})",
    "WITH RECURSIVE one(k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM one WHERE k < 3) "
    'INSERT INTO refresh (feed_id, at, ending, elapsed, bytes, "new", updated, saturated, lost, reason, message) '
    f"SELECT o.id, :now - k * 3600, :ending, 0.1, 5000, 0, 0, 0, 0, 'due', '' FROM one CROSS JOIN ({_OTHERS}) o",
    "WITH RECURSIVE one(k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM one WHERE k < :each) "
    "INSERT INTO item (feed_id, published, first_seen, version, dated, identity, content_hash, title, link, content) "
    "SELECT o.id, :now - k * 7200 - o.id % 7000, :now - k * 7200, 1, 1, 'urn:' || o.id || ':' || k, "
    "hex(randomblob(8)), hex(randomblob(30)), 'http://example.org/' || o.id || '/' || k, hex(randomblob(250)) "
    f"FROM one CROSS JOIN ({_OTHERS}) o",
    "INSERT INTO seen_identity (feed_id, key, item_id, content_hash) SELECT feed_id, randomblob(16), id, "
    "content_hash FROM item "
    "ORDER BY feed_id",
)


class GrownStore:
    """A node on a store of some size, and the farm's feeds in it."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.spent: dict[str, list[float]] = {NEWS: [], NO_NEWS: []}
        self._farm: list[int] = []
        self._waiting: set[int] = set()
        self._done = asyncio.Event()

    async def fill(self, database: str, base: str, sample: int) -> None:
        step = self.size.feeds // sample
        addresses = (
            f"{base}/feeds/{k // step}" if k % step == 0 else f"http://host{k}.example.org/feed"
            for k in range(step * sample)
        )
        now = time.time()
        each = max(self.size.items // self.size.feeds, 1)
        given = {"now": now, "later": now + 1e6, "each": each, "ending": Ending.UNCHANGED.value}
        async with await open_store(database) as store:
            added = await store.write(add_and_subscribe, map(NewFeed, addresses), now)
            self._farm = [one.feed.id for one in added[::step]]

            def fill(connection: Connection) -> None:
                driver: Any = connection.connection.dbapi_connection
                for statement in _FILL if step > 1 else ():
                    driver.execute(statement, given)

            await store.write(fill)

    def build_node(self, folder: Path, database: str) -> AbstractAsyncContextManager[Node]:
        given = load_settings(
            data=folder,
            database=database,
            allow_private=True,
            per_host=CONCURRENCY,
            concurrency=CONCURRENCY,
            budget=1e9,
            strategy="uniform",
        )
        self._waiting = set(self._farm)  # a first refresh is due at once
        return build("node", given, on_stored=self._settled)

    def _settled(self, batch: Sequence[StoredRefresh]) -> None:
        self._waiting.difference_update(one.known.feed_id for one in batch)
        if not self._waiting:
            self._done.set()

    async def begun(self) -> None:
        await self._done.wait()

    async def round(self, node: Node, kind: str) -> None:
        if kind == NEWS:
            await node.store.write(_forget, self._farm)
        self._waiting = set(self._farm)
        self._done.clear()
        used = cpu()
        assert isinstance(node.crawl, LocalCrawl)
        table = node.crawl.scheduler.feed_table
        table.earliest[table.find_rows(self._farm)] = 0.0
        node.crawl.dispatcher.wake()
        await self._done.wait()
        self.spent[kind].append((cpu() - used) / len(self._farm))


def _forget(connection: Connection, feed_ids: Sequence[int]) -> None:
    """Forget the newest item of each feed and the validators of its document."""
    driver: Any = connection.connection.dbapi_connection
    for feed in feed_ids:
        ((entries,),) = driver.execute("SELECT entries FROM feed_window WHERE feed_id = ?", (feed,)).fetchall()
        (newest, _), *others = orjson.loads(entries)
        driver.execute("UPDATE feed_window SET entries = ? WHERE feed_id = ?", (orjson.dumps(others).decode(), feed))
        driver.execute("DELETE FROM seen_identity WHERE feed_id = ? AND key = ?", (feed, hash_identity(newest)))
        driver.execute("DELETE FROM item WHERE feed_id = ? AND identity = ?", (feed, newest))
        driver.execute(
            "UPDATE feed_state SET etag = NULL, last_modified = NULL, body_hash = NULL WHERE feed_id = ?", (feed,)
        )


async def run(base: str, sizes: Sequence[Size], sample: int, rounds: int, folder: Path) -> dict[str, float]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    maintenance.INDEX_SECONDS = 1e9  # words are indexed after the refreshes
    async with AsyncExitStack() as opened:
        running: list[tuple[GrownStore, Node]] = []
        for number, size in enumerate(sizes):
            grown, database = GrownStore(size), f"sqlite:///{folder / f'{number}.sqlite'}"
            await grown.fill(database, base, sample)
            running.append((grown, await opened.enter_async_context(grown.build_node(folder / str(number), database))))
            await grown.begun()
        freeze_startup_objects()
        for _ in range(rounds):
            for kind in (NO_NEWS, NEWS):
                for grown, node in running:
                    await grown.round(node, kind)
    ratios: dict[str, float] = {}
    for kind in (NO_NEWS, NEWS):
        first = median(running[0][0].spent[kind][1:])
        for grown, _ in running:
            took = median(grown.spent[kind][1:])
            ratios[f"{grown.size}: {kind}"] = took / first
            print(f"{grown.size!s:30} {kind:12} {took * 1e6:6.0f} µs CPU a refresh; {took / first:.2f} × the first")
    return ratios


def main(small: bool) -> dict[str, float]:
    """Print and return the cost of a refresh in each store, in multiples of the first."""
    sizes, sample, rounds = (SMALL, 10, 2) if small else (LARGE, 500, ROUNDS)
    with farm(sample) as base, tempfile.TemporaryDirectory() as folder:
        return uvloop.run(run(base, sizes, sample, rounds, Path(folder)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    main(parser.parse_args().small)
