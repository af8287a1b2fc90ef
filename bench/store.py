"""Measures the store: rows per second beside a bare sqlite3 executemany, and cost per refresh as the store grows.

`python -m bench.store [--small] [--database postgresql://…]`
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from headwater.model import Ending, Item, Known, Refresh, SafeHtml, Validators, Verdict
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import item_to_row
from headwater.store.content.search import index_queued
from headwater.store.content.search_terms import list_index_words
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

NOW = 1_700_000_000.0
BATCH = 50  # verdicts per transaction, as in the node
WINDOW = 10
ROUNDS = 9  # of measuring growth
SMALL = [(200, 400), (400, 2000)]  # feeds, items
LARGE = [(1000, 10_000), (10_000, 10_000), (100_000, 100_000), (10_000, 1_000_000)]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class ZipfText:
    """Draws texts of about 700 characters with word frequencies of a language (Zipf)."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        words = ["".join(self._random.choices(_LETTERS, k=self._random.randint(2, 11))) for _ in range(20_000)]
        self._pool = self._random.choices(words, [1 / (k + 1) for k in range(len(words))], k=200_000)

    def of(self, count: int) -> str:
        start = self._random.randrange(len(self._pool) - count)
        return " ".join(self._pool[start : start + count])


def make_verdict(text: ZipfText, feed_id: int, url: str, first: int, new: int, at: float) -> Verdict:
    """Make the verdict of a refresh that found `new` items in a window of ten."""
    items = tuple(
        Item(
            feed_id=feed_id,
            identity=f"https://example.org/{feed_id}/{first + k}",
            content_hash=f"{feed_id:x}-{first + k:x}",
            title=text.of(8),
            link=f"https://example.org/{feed_id}/{first + k}",
            published=at - k,
            dated=True,
            updated=None,
            first_seen=at,
            authors=("A. Writer",),
            summary=SafeHtml(text.of(15)),
            content=SafeHtml(f"<p>{text.of(100)}</p>"),
        )
        for k in range(new)
    )
    window = tuple(
        (f"https://example.org/{feed_id}/{first + new - 1 - k}", f"{feed_id:x}-{k:x}") for k in range(WINDOW)
    )
    ending = Ending.CHANGED if new else Ending.UNCHANGED
    refresh = Refresh(feed_id, at, ending, 200 if new else 304, 0.1, 5000, new, 0, WINDOW, WINDOW - new)
    known = Known(feed_id, url, Validators('"etag"', None), window, "hash", at, at, at, at + 3600)
    return Verdict(refresh, known, items)


async def timed(awaitable: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    await awaitable
    return time.perf_counter() - wall, time.process_time() - cpu


async def saved(store: Store, verdicts: list[Verdict]) -> None:
    for start in range(0, len(verdicts), BATCH):
        await save_refreshes(store, verdicts[start : start + BATCH])


async def indexed(store: Store) -> None:
    while await store.write(index_queued):
        pass


async def with_feeds(store: Store, count: int) -> list[tuple[int, str]]:
    added = await store.write(add_and_subscribe, (NewFeed(f"https://example.org/{k}") for k in range(count)), NOW)
    return [(one.feed.id, one.feed.url) for one in added]


def time_bare_insert(folder: Path, verdicts: list[Verdict]) -> float:
    """Insert the same item rows into one table with the same key by executemany, in the same batches; return CPU
    seconds."""
    connection = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    columns = list(item_to_row(verdicts[0].new[0], 1))
    connection.execute(
        f"CREATE TABLE item (id INTEGER PRIMARY KEY, {', '.join(columns[1:])}, UNIQUE(feed_id, identity))"
    )
    marks = ", ".join("?" * len(columns))
    start = time.process_time()
    id = 0
    for first in range(0, len(verdicts), BATCH):
        rows = []
        for one in verdicts[first : first + BATCH]:
            for item in one.new:
                id += 1
                rows.append(tuple(item_to_row(item, id).values()))
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(f"INSERT OR IGNORE INTO item VALUES ({marks})", rows)
        connection.execute("COMMIT")
    used = time.process_time() - start
    connection.close()
    return used


def time_bare_index(folder: Path, verdicts: list[Verdict]) -> float:
    """Insert the same words into a bare FTS5 table; return CPU seconds."""
    connection = sqlite3.connect(folder / "bare-index.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE VIRTUAL TABLE bare USING fts5(words, content='', tokenize='ascii')")
    items = [item for one in verdicts for item in one.new]
    rows = [
        (id, list_index_words(one.title, one.summary, one.content, one.authors, one.categories))
        for id, one in enumerate(items)
    ]
    start = time.process_time()
    for first in range(0, len(rows), 500):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO bare (rowid, words) VALUES (?, ?)", rows[first : first + 500])
        connection.execute("COMMIT")
    used = time.process_time() - start
    connection.close()
    return used


async def rates(url: str, folder: Path, feeds: int) -> dict[str, float]:
    """Return the CPU time of saving and of indexing, each in multiples of its floor."""
    text = ZipfText()
    async with await open_store(url) as store:
        ids = await with_feeds(store, feeds)
        cold = [make_verdict(text, id, address, 0, WINDOW, NOW + k) for k, (id, address) in enumerate(ids)]
        warm = [make_verdict(text, id, address, 0, 0, NOW + feeds + k) for k, (id, address) in enumerate(ids)]
        items = feeds * WINDOW
        wall, cpu = await timed(saved(store, cold))
        print(f"save, {WINDOW} new items each   {items / wall:9,.0f} items/s  {items / cpu:9,.0f} items/CPU s")
        wall_i, cpu_i = await timed(indexed(store))
        print(f"index their words        {items / wall_i:9,.0f} items/s  {items / cpu_i:9,.0f} items/CPU s")
        wall_w, cpu_w = await timed(saved(store, warm))
        print(f"save, nothing new        {feeds / wall_w:9,.0f} refreshes/s {feeds / cpu_w:6,.0f} refreshes/CPU s")
    floor, floor_i = time_bare_insert(folder, cold), time_bare_index(folder, cold)
    print(f"bare executemany         {items / floor:9,.0f} items/CPU s")
    print(f"bare FTS5                {items / floor_i:9,.0f} items/CPU s")
    ratios = {"save / bare": cpu / floor, "index / bare": cpu_i / floor_i}
    ratios["both / both bare"] = (cpu + cpu_i) / (floor + floor_i)
    print("CPU time: " + ", ".join(f"{name} {ratio:.1f} ×" for name, ratio in ratios.items()))
    return ratios


async def measure_growth(make: Callable[[], str], sizes: list[tuple[int, int]], sample: int) -> dict[str, float]:
    """Return the cost of a refresh with one new item in stores of growing size, in multiples of the first.

    The stores are filled first and then take turns, and the median round of each counts: other load on the machine
    slows all of them, and a checkpoint falls into some rounds only.
    """
    text = ZipfText()
    async with AsyncExitStack() as opened:
        filled = [(await opened.enter_async_context(await open_store(make())), size) for size in sizes]
        works = [await _fill_store(store, text, feeds, items, sample) for store, (feeds, items) in filled]
        spent: list[list[tuple[float, float]]] = [[] for _ in filled]
        for turn in range(ROUNDS + 1):
            for (store, _), work, times in zip(filled, works, spent, strict=True):
                took = await timed(saved(store, next(work)))
                if turn:  # the first round fills caches
                    times.append((took[0] / sample, took[1] / sample))
    ratios: dict[str, float] = {}
    first = median(cpu for _, cpu in spent[0])
    for (feeds, items), times in zip(sizes, spent, strict=True):
        wall, cpu = (median(column) for column in zip(*times, strict=True))
        ratios[f"{feeds:,} feeds, {items:,} items"] = cpu / first
        print(
            f"{feeds:8,} feeds {items:10,} items: {cpu * 1e6:6.0f} µs CPU, "
            f"{wall * 1e6:6.0f} µs per refresh; {cpu / first:.2f} × the first"
        )
    return ratios


async def _fill_store(store: Store, text: ZipfText, feeds: int, items: int, sample: int) -> Iterator[list[Verdict]]:
    """Fill a store; then, round by round, refresh random feeds with one new item each."""
    ids = await with_feeds(store, feeds)
    each = max(items // feeds, 1)
    filling = random.Random(2).sample(ids, min(feeds, items))
    for start in range(0, len(filling), BATCH):
        batch = filling[start : start + BATCH]
        await save_refreshes(store, [make_verdict(text, id, url, 0, each, NOW + id / 1e4) for id, url in batch])

    def rounds() -> Iterator[list[Verdict]]:
        chance = random.Random(3)
        for turn in count():
            at = NOW + 1000 * (turn + 1)
            chosen = enumerate(chance.sample(ids, sample))
            yield [make_verdict(text, id, url, each + turn, 1, at + k / sample) for k, (id, url) in chosen]

    return rounds()


async def run(small: bool, database: str | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = iter(range(100))

        def make() -> str:
            return f"sqlite:///{folder / f'{next(numbers)}.sqlite'}"

        figures = await rates(database or make(), folder, 100 if small else 3000)
        if database is None:
            sizes = SMALL if small else LARGE
            figures |= await measure_growth(make, sizes, 100 if small else 500)
        return figures


def main(small: bool = False, database: str | None = None) -> dict[str, float]:
    return asyncio.run(run(small, database))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--database")
    options = parser.parse_args()
    main(options.small, options.database)
