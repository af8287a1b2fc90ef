"""Measures how a server with 100,000 standing queries starts, how many items its processor matches, and whether items
wait while queries are added.

`python -m bench.standing [--small] [--queries N]`. A store is filled with the queries of the matching benchmark, and an
item is put into its outbox. `headwater serve` then runs until that item's hits are written: seconds since the start of
the process, its CPU time and its memory, beside a server with one query. Then, while items come in, one query is added,
and thousands in one script: how long items wait for their hits, median and maximum, beside the same without new
queries. The server checks once a second for changes by other processes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from sqlalchemy import Connection, update

from bench.support.workload import Workload
from headwater.model import Ending, Feed, Item, Known, Refresh, Verdict
from headwater.node.queries.processor import CONSUMER, QueryProcessor
from headwater.store.content.feeds import NewFeed, change_feed
from headwater.store.content.outbox import find_last_position
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.schema.query_tables import query_feed
from headwater.store.store import Store

SCRIPT = 10_000  # statements of one script
PAUSE = 0.05  # least seconds between two items; each matches one query in 230, and the hits must be written
LONGEST = 600.0  # seconds until the benchmark gives up


@dataclass(frozen=True)
class FilledStore:
    """A store in a folder of its own, and its only feed."""

    folder: Path
    feed: Feed

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'headwater.sqlite'}"

    def position(self) -> int:
        """Return the position up to which the outbox has been matched."""
        with contextlib.closing(sqlite3.connect(self.folder / "headwater.sqlite", timeout=30)) as database:
            asked = "SELECT coalesce(max(position), 0) FROM checkpoint WHERE consumer = ?"
            return int(database.execute(asked, (CONSUMER,)).fetchone()[0])


async def fill_store(folder: Path, queries: int, workload: Workload) -> FilledStore:
    """Fill a store with active queries."""
    place = FilledStore(folder, Feed(0, "https://news.example/rss"))
    async with await open_store(place.url) as store:
        (added,) = await store.write(add_and_subscribe, [NewFeed(place.feed.url, name="news")], time.time())
        await store.write(change_feed, added.feed.id, paused=True)
        for start in range(0, queries, SCRIPT):
            await store.write(run_script, script(workload, min(SCRIPT, queries - start), start), time.time())
        await store.write(_activate)
    return replace(place, feed=added.feed)


def script(workload: Workload, count: int, start: int) -> str:
    return "\n".join(create.text for create in workload.queries(count, start))


def _activate(connection: Connection) -> None:
    done = {"active": query_feed.c.text, "active_position": query_feed.c.position}
    connection.execute(update(query_feed).values(done))


async def publish(store: Store, place: FilledStore, item: Item) -> int:
    """Store an item; return its position in the outbox."""
    now = time.time()
    mine = msgspec.structs.replace(item, feed_id=place.feed.id, published=now, first_seen=now)
    window = ((mine.identity, mine.content_hash),)
    refresh = Refresh(place.feed.id, now, Ending.CHANGED, status=200, bytes=1000, new=1, window=1)
    known = Known(place.feed.id, place.feed.url, window=window, last_refresh=now, last_success=now)
    await save_refreshes(store, [Verdict(refresh, known, (mine,))])
    return await store.read(find_last_position)


# starting


@contextlib.contextmanager
def run_server(place: FilledStore) -> Iterator[int]:
    """Run a server on the store; yield its process id."""
    options = ["--data", str(place.folder), "--port", "0", "--log-level", "error"]
    command = [sys.executable, "-m", "headwater", "serve", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def count_cpu(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK")


def measure_memory(pid: int, what: str) -> float:
    """Return the memory in MiB; `what` is VmRSS, or VmHWM for the peak."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def wait_for(place: FilledStore, position: int) -> None:
    until = time.monotonic() + LONGEST
    while place.position() < position:
        if time.monotonic() > until:
            raise SystemExit(f"no hits within {LONGEST:g} seconds")
        time.sleep(0.01)


async def measure_start(
    place: FilledStore, queries: int, workload: Workload, number: int, settling: float = 5.0
) -> None:
    async with await open_store(place.url) as store:
        (item,) = workload.items(1, seed=100 + number)
        position = await publish(store, place, item)
    began = time.monotonic()
    with run_server(place) as pid:
        await asyncio.to_thread(wait_for, place, position)
        took, cpu = time.monotonic() - began, count_cpu(pid)
        held = measure_memory(pid, "VmRSS")
        await asyncio.sleep(settling)
        settled, most = measure_memory(pid, "VmRSS"), measure_memory(pid, "VmHWM")
    print(f"\n{queries:,} queries: from the start of the process to the first item's hits")
    print(f"  seconds                 {took:9.1f}   {cpu:.1f} of CPU time")
    print(f"  memory                  {held:9.0f} MiB   {settled:.0f} {settling:g} s later, {most:.0f} at most")


# adding


async def measure_waits(
    place: FilledStore, store: Store, items: list[Item], more: str | None, pause: float
) -> list[float]:
    """Return the seconds that each item waited for its hits while the script ran."""
    sent: list[tuple[int, float]] = []
    done: list[float] = []

    def watch() -> None:
        until = time.monotonic() + LONGEST
        while (len(done) < len(items)) and time.monotonic() < until:
            position, now = place.position(), time.monotonic()
            while len(done) < len(sent) and sent[len(done)][0] <= position:
                done.append(now - sent[len(done)][1])
            time.sleep(0.01)

    watching = asyncio.create_task(asyncio.to_thread(watch))
    adding = None
    for number, item in enumerate(items):
        if more is not None and number == len(items) // 10:
            adding = asyncio.create_task(store.write(run_script, more, time.time()))
        began = time.monotonic()
        sent.append((await publish(store, place, item), began))
        await asyncio.sleep(pause)
    await watching
    if adding is not None:
        await adding
    return done


async def measure_adding(place: FilledStore, queries: int, more: int, items: int, workload: Workload) -> None:
    pause = max(PAUSE, queries / 100_000)
    async with await open_store(place.url) as store:
        position = await publish(store, place, workload.items(1, seed=199)[0])
        with run_server(place) as pid:
            await asyncio.to_thread(wait_for, place, position)
            for number, (what, text) in enumerate(
                (
                    ("nothing comes", None),
                    ("one query comes", script(workload, 1, queries)),
                    (f"{more:,} queries come", script(workload, more, queries + 1)),
                )
            ):
                before = count_cpu(pid)
                found = await measure_waits(place, store, workload.items(items, seed=200 + number), text, pause)
                middle, worst = statistics.median(found), max(found)
                print(
                    f"  {what:<24}{middle:9.2f} s in the middle, {worst:.2f} s at most, CPU "
                    f"{count_cpu(pid) - before:.1f} s"
                )


# one processor


async def measure_processor(place: FilledStore, queries: int, items: int, workload: Workload) -> None:
    """Print how many items one processor matches, with their hits stored, in a second of CPU time."""
    async with await open_store(place.url) as store:
        last = [await publish(store, place, item) for item in workload.items(items, seed=300)][-1]
        stop, before = asyncio.Event(), place.position()
        running = asyncio.create_task(QueryProcessor(store).run(stop))
        first = await asyncio.to_thread(wait_for_change, place, before)  # the definitions are loaded
        began = time.process_time()
        await asyncio.to_thread(wait_for, place, last)
        used = time.process_time() - began
        stop.set()
        await running
    print(f"\none processor with {queries:,} queries: {(last - first) / used:,.0f} items in a second of CPU time")


def wait_for_change(place: FilledStore, position: int) -> int:
    """Wait until the processor has matched something; return its position."""
    wait_for(place, position + 1)
    return place.position()


def main(small: bool = False, queries: int | None = None) -> None:
    workload = Workload()
    size = queries or (1_000 if small else 100_000)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as empty, tempfile.TemporaryDirectory() as full:
        nothing = asyncio.run(fill_store(Path(empty), 1, workload))
        asyncio.run(measure_start(nothing, 1, workload, 0))
        began = time.process_time()
        place = asyncio.run(fill_store(Path(full), size, workload))
        print(f"\n{size:,} queries created in {time.process_time() - began:.1f} s of CPU time")
        for number in range(1 if small else 3):
            asyncio.run(measure_start(place, size, workload, number))
        asyncio.run(measure_processor(place, size, 600 if small else 1_000, workload))
        print(f"\nitems that wait for their hits while queries are added to {size:,}")
        asyncio.run(measure_adding(place, size, 200 if small else 5_000, 40 if small else 60, workload))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--queries", type=int, metavar="N")
    given = parser.parse_args()
    main(given.small, given.queries)
