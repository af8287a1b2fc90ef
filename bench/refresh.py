"""Measures refreshing many feeds, cold (200, parsed and stored) and warm (304): Headwater, lemon24/reader and the
floor.

All run against one feed farm, each in a process of its own, so that CPU time and memory are its own. The floor is the
least possible work: an aiohttp GET, an lxml parse and one SQLite transaction per feed. reader refreshes a part of the
feeds (its cost per feed does not depend on their number), so that the run ends in minutes. Floor and Headwater take
turns, and medians count, because a shared machine is slower in some minutes than in others.

The comparison covers fetching, reading and storing. Headwater also cleans HTML (so does reader), and writes the outbox
of its query processor and a log of refreshes. What it does with new items afterwards is measured after the cold
refreshes: it indexes their words for search (a separate step of reader's, too) and groups them into stories. Feeds are
taken round robin, as by the others; the planning of `value`, the default strategy, has its own line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwater.store.content.search import index_queued
from headwater.store.readers.subscriptions import add_and_subscribe

CONCURRENCY = 64
TURNS = 5


@contextmanager
def farm(feeds: int, *more: str) -> Iterator[str]:
    """Run a farm that publishes nothing new while it is measured, in a process of its own."""
    command = [sys.executable, "-m", "headwater", "farm", "--feeds", str(feeds), "--port", "0", "--prepare", "--json"]
    command += ["--no-hints", "--rates", "5-50", "--speed", "0.001", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def measured(result: dict[str, Any], name: str, feeds: int) -> Iterator[None]:
    wall, used = time.perf_counter(), cpu()
    yield
    wall, used = time.perf_counter() - wall, cpu() - used
    result[name] = {"per_second": feeds / wall, "per_cpu_second": feeds / used}


async def floor(base: str, feeds: int, folder: Path) -> dict[str, Any]:
    import aiohttp
    from lxml import etree

    database = sqlite3.connect(folder / "floor.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("CREATE TABLE item (feed INTEGER, position INTEGER, body TEXT, PRIMARY KEY (feed, position))")
    database.execute("CREATE TABLE feed (id INTEGER PRIMARY KEY, etag TEXT, at REAL)")
    validators: dict[int, dict[str, str]] = {}

    async def one(session: aiohttp.ClientSession, number: int) -> None:
        async with session.get(f"{base}/feeds/{number}", headers=validators.get(number)) as answer:
            body = await answer.read()
        database.execute("BEGIN")
        if answer.status == 200:
            asks = (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified"))
            validators[number] = {ask: answer.headers[told] for ask, told in asks if told in answer.headers}
            rows = [(number, k, text) for k, text in enumerate(_texts(body, etree))]
            database.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?)", rows)
        database.execute("INSERT OR REPLACE INTO feed VALUES (?, ?, ?)", (number, str(validators[number]), time.time()))
        database.execute("COMMIT")

    result: dict[str, Any] = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:
        for name in ("cold", "warm"):
            numbers = iter(range(feeds))

            async def work(numbers: Iterator[int] = numbers) -> None:
                for number in numbers:
                    await one(session, number)

            with measured(result, name, feeds):
                await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return result


def _texts(body: bytes, etree: Any) -> list[str]:
    """Return the raw items of any of the farm's formats."""
    if body.startswith(b"{"):
        return [json.dumps(item) for item in json.loads(body)["items"]]
    items = [element for element in etree.fromstring(body).iter() if str(element.tag).endswith(("item", "entry"))]
    return [etree.tostring(item, encoding="unicode") for item in items]


async def headwater(base: str, feeds: int, folder: Path, strategy: str = "uniform") -> dict[str, Any]:
    import logging

    import structlog
    from sqlalchemy import update

    from headwater.assembly import build, freeze_startup_objects
    from headwater.node import maintenance
    from headwater.node.crawl.local_crawl import LocalCrawl
    from headwater.node.queries import processor
    from headwater.settings import load_settings
    from headwater.store.content.feeds import NewFeed
    from headwater.store.schema.feed_tables import feed_state

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    maintenance.INDEX_SECONDS = processor.IDLE_SECONDS = 1e9  # indexing and grouping are measured separately
    settled: set[int] = set()
    done = asyncio.Event()

    def count(batch: Any) -> None:
        settled.update(one.known.feed_id for one in batch)
        if len(settled) == feeds:
            done.set()

    given = load_settings(
        data=folder, allow_private=True, per_host=CONCURRENCY, concurrency=CONCURRENCY, budget=1e9, strategy=strategy
    )
    result: dict[str, Any] = {}
    async with build("node", given, on_stored=count) as node:
        await node.store.write(add_and_subscribe, [NewFeed(f"{base}/feeds/{k}") for k in range(feeds)], time.time())
        freeze_startup_objects()
        assert node.maintenance is not None
        assert node.processor is not None
        with measured(result, "cold", feeds):
            await node.maintenance.follow_feed_changes(node.processor)
            await done.wait()
        if strategy != "uniform":  # reader schedules updates itself, so there is no warm round of all feeds
            return result
        with measured(result, "index", feeds):
            while await node.store.write(index_queued):
                pass
        with measured(result, "group", feeds):
            while await node.processor.step():
                pass
        settled.clear()
        done.clear()
        # In the store too: the node may reload the feeds at any moment.
        await node.store.write(lambda connection: connection.execute(update(feed_state).values(next_refresh=0.0)))
        assert isinstance(node.crawl, LocalCrawl)
        node.crawl.scheduler.feed_table.earliest[:] = 0.0
        with measured(result, "warm", feeds):
            node.crawl.dispatcher.wake()
            await done.wait()
    return result


def reader(base: str, feeds: int, folder: Path) -> dict[str, Any]:
    from reader import make_reader

    result: dict[str, Any] = {}
    with make_reader(str(folder / "reader.sqlite")) as peer:
        for number in range(feeds):
            peer.add_feed(f"{base}/feeds/{number}")
        for name in ("cold", "warm"):
            with measured(result, name, feeds):
                peer.update_feeds(scheduled=False, workers=10)
    return result


def contend(name: str, base: str, feeds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.refresh", "--contender", name, "--base", base, "--feeds", str(feeds)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(answer.splitlines()[-1])  # type: ignore[no-any-return]


Contender = Callable[[str, int, Path], Coroutine[Any, Any, dict[str, Any]]]


def run_contender(name: str, base: str, feeds: int) -> None:
    import uvloop

    with tempfile.TemporaryDirectory() as folder:
        if name == "reader":
            result = reader(base, feeds, Path(folder))
        else:
            acts: dict[str, Contender]
            acts = {"floor": floor, "headwater": headwater, "value": partial(headwater, strategy="value")}
            result = uvloop.run(acts[name](base, feeds, Path(folder)))
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


def median(results: Sequence[Any]) -> Any:
    """Return the median of each figure."""
    first = results[0]
    if isinstance(first, dict):
        return {name: median([one[name] for one in results]) for name in first}
    return statistics.median(results)


def main(small: bool) -> dict[str, float]:
    """Print the table; return a refresh's CPU in multiples of the floor, cold and warm."""
    feeds, part, turns = (100, 10, 1) if small else (10_000, 500, TURNS)
    with farm(feeds) as base:
        names = ("floor", "headwater")
        each = [{name: contend(name, base, feeds) for name in names} for _ in range(turns)]
        results = median(each)
        planned = contend("value", base, feeds)["cold"]["per_cpu_second"]
        if find_spec("reader"):
            results["reader"] = contend("reader", base, part)
        else:
            print("reader is not installed (extra: bench); it is left out")
    print(f"{feeds:,} feeds ({part} for reader), window 20, {CONCURRENCY} connections, medians of {turns} turns")
    print(f"{'':12}{'cold: feeds/s':>15}{'per CPU s':>12}{'warm: feeds/s':>16}{'per CPU s':>12}{'peak MB':>10}")
    for name, result in results.items():
        cold, warm = result["cold"], result["warm"]
        print(
            f"{name:12}{cold['per_second']:15.0f}{cold['per_cpu_second']:12.0f}"
            f"{warm['per_second']:16.0f}{warm['per_cpu_second']:12.0f}{result['peak_mb']:10.0f}"
        )
    index, group = (1e3 / results["headwater"][step]["per_cpu_second"] for step in ("index", "group"))
    print(f"headwater indexes the words of a cold feed in {index:.2f} ms CPU, which are not in its line,")
    print(f"and groups its items into stories in {group:.2f} ms")
    ours = results["headwater"]["cold"]["per_cpu_second"]
    print(f"with value instead of uniform a cold refresh takes {ours / planned:.2f} times as much CPU")
    ratios: dict[str, float] = {}
    for state in ("cold", "warm"):
        ours = results["headwater"][state]["per_cpu_second"]
        single = sorted(
            turn["floor"][state]["per_cpu_second"] / turn["headwater"][state]["per_cpu_second"] for turn in each
        )
        ratios[state] = statistics.median(single)
        print(f"{state}: {ratios[state]:.2f} × the floor's CPU per feed ({single[0]:.2f} to {single[-1]:.2f})")
        if "reader" in results:
            peer = results["reader"][state]["per_cpu_second"]
            print(f"{state}: {ours / peer:.1f} × as many feeds per CPU second as reader")
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--contender")
    parser.add_argument("--base")
    parser.add_argument("--feeds", type=int)
    given = parser.parse_args()
    if given.contender:
        run_contender(given.contender, given.base, given.feeds)
    else:
        main(given.small)
