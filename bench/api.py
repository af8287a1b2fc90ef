"""Measures the reading API against SQL written by hand on tables like FreshRSS's, and a client's whole sync.

`python -m bench.api [--small] [--postgres]`

`bench.support.freshrss_floor` has the statements. “store” compares the store's functions with them, sent by the bare
driver; “served” compares the Google Reader API with a server that only sends them and writes the same JSON. On SQLite
the CPU time of all threads counts, client and server together. A PostgreSQL server works in other processes, so there
wall time counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
import uvicorn
from tests.support.idle_node import make_idle_node

from bench.store import ZipfText, make_verdict
from bench.support import freshrss_floor
from bench.support.database import measure_on_database, run_from_command_line
from bench.support.freshrss_floor import Floor
from headwater.credentials import hash_secret
from headwater.store.content.feeds import NewFeed
from headwater.store.content.search import index_queued
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.accounts import add_api_token, add_user, find_owner
from headwater.store.readers.marks import compact_all_marks, mark_items, mark_stream_read, undo_mark_read
from headwater.store.readers.reader_items import find_reader_items, list_reader_items, search_reader_items
from headwater.store.readers.stream_positions import Stream, StreamQuery, list_stream_positions
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions
from headwater.store.readers.unread_counts import count_unread
from headwater.store.store import Store
from headwater.web.app import create_app
from headwater.web.greader.stream_ids import READ, READING_LIST

NOW = 1_700_000_000.0
WORD = "hetyfiiz"  # 2 % of the items contain it; the texts never change
SMALL, LARGE = (20, 50, 8), (500, 200, 50)  # feeds, items of each, concurrent readers


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    # The server's own event loop, uvloop, sets it. Without it the clock counts 40 ms of waiting for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # On a busy machine a connection idle for the usual 5 s is closed at the moment of its next use.
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_keep_alive=600)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


Work = Callable[[], Awaitable[Any]]


@dataclass
class Pair:
    """One piece of work: ours, the floor's, and FreshRSS's way where that is more. Samples are taken in turn."""

    name: str
    ours: Work
    floor: Work
    freshrss: Work | None = None

    async def measure(self, times: int, clock: Callable[[], float]) -> list[float]:
        """Return the median seconds of each."""
        works = [self.ours, self.floor, *([self.freshrss] if self.freshrss else [])]
        samples = [[await _count_cpu(work, clock) for work in works] for _ in range(times + 2)]
        return [statistics.median(each) for each in zip(*samples[2:], strict=True)]  # the first two fill caches


async def _count_cpu(work: Work, clock: Callable[[], float]) -> float:
    start = clock()
    await work()
    return clock() - start


async def fill(store: Store, feeds: int, each: int) -> None:
    text = ZipfText()
    new = [NewFeed(f"https://{n}.example/feed", title=f"Feed {n}", tags=(f"tag {n % 20}",)) for n in range(feeds)]
    added = [one.feed for one in await store.write(add_and_subscribe, new, NOW)]
    for start in range(0, each, 10):
        for some in range(0, feeds, 50):
            await save_refreshes(
                store,
                [
                    make_verdict(
                        text, feed.id, feed.url, start, min(10, each - start), NOW + 60 * start + feed.id * 0.001
                    )
                    for feed in added[some : some + 50]
                ],
            )
    while await store.write(index_queued, 2000):
        pass


def compare_store(store: Store, floor: Floor, user: int, total: int) -> list[Pair]:
    """Compare the store's functions with the statements."""
    ids = list(range(1, total, max(1, total // 250)))[:250]
    many = list(range(2, total, max(1, total // 1000)))[:1000]
    turn = {"ours": True, "floor": True}

    async def mark() -> None:
        turn["ours"] = not turn["ours"]
        await store.write(mark_items, user, many, NOW, read=turn["ours"])

    async def mark_by_hand() -> None:
        turn["floor"] = not turn["floor"]
        await floor.run_changes(floor.mark_items(many, turn["floor"]))

    unread = StreamQuery(unread=True, limit=100, by_arrival=True)
    return [
        Pair(
            "100 unread",
            lambda: store.read(list_reader_items, user, Stream(), unread),
            lambda: floor.fetch_rows(*floor.unread()),
            floor.unread_as_freshrss,
        ),
        Pair(
            "100 unread by date",
            lambda: store.read(list_reader_items, user, Stream(), StreamQuery(unread=True, limit=100)),
            lambda: floor.fetch_rows(*floor.unread()),
            floor.unread_as_freshrss,
        ),
        Pair(
            "contents of 250",
            lambda: store.read(find_reader_items, user, ids),
            lambda: floor.fetch_rows(*floor.contents(ids)),
            lambda: floor.contents_as_freshrss(ids),
        ),
        Pair(
            "search",
            lambda: search_reader_items(store, user, WORD, limit=50),
            lambda: floor.fetch_rows(floor.search(WORD)),
        ),
        Pair("unread counts", lambda: store.read(count_unread, user), lambda: floor.fetch_rows(floor.counts())),
        Pair("mark 1,000", mark, mark_by_hand),
    ]


async def measure_mark_all(
    store: Store, floor: Floor, user: int, total: int, clock: Callable[[], float]
) -> tuple[float, float]:
    """Mark everything as read, and back, beside one UPDATE."""
    ours, theirs = [], []
    for _ in range(3):
        start = clock()
        done = await store.write(mark_stream_read, user, now=NOW, up_to=total)
        ours.append(clock() - start)
        theirs.append(await _count_cpu(lambda: floor.run_changes(floor.mark_all(total, True)), clock))
        if done.undo is not None:
            await store.write(undo_mark_read, user, done.undo, NOW)
        await floor.run_changes(floor.mark_all(total, False))
    return statistics.median(ours), statistics.median(theirs)


class ApiClient:
    """A client of one of the servers."""

    def __init__(self, session: aiohttp.ClientSession, base: str, secret: str = "") -> None:
        self._session = session
        self._base = base
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self.calls = self.received = 0

    async def get(self, path: str) -> bytes:
        async with self._session.get(self._base + path, headers=self._headers) as answer:
            return self._took(answer.status, await answer.read())

    async def post(self, path: str, fields: list[tuple[str, str]]) -> bytes:
        async with self._session.post(self._base + path, data=fields, headers=self._headers) as answer:
            return self._took(answer.status, await answer.read())

    def _took(self, status: int, body: bytes) -> bytes:
        if status != 200:
            raise RuntimeError(f"{status}: {body[:200]!r}")
        self.calls += 1
        self.received += len(body)
        return body


API = "/reader/api/0"
UNREAD = f"{API}/stream/contents/{READING_LIST}?xt={READ}&n=100"


def compare_served(ours: ApiClient, floor: ApiClient, total: int) -> list[Pair]:
    """Compare whole requests."""
    ids = [("i", str(id)) for id in range(1, total, max(1, total // 250))][:250]
    many = [("i", str(id)) for id in range(2, total, max(1, total // 1000))][:1000]
    turn = {"ours": "r", "floor": "r"}

    async def mark(who: ApiClient, key: str, path: str) -> None:
        turn[key] = "r" if turn[key] == "a" else "a"
        await who.post(path, [*many, (turn[key], READ)])

    return [
        Pair("100 unread", lambda: ours.get(UNREAD), lambda: floor.get("/unread")),
        Pair(
            "contents of 250",
            lambda: ours.post(f"{API}/stream/items/contents", ids),
            lambda: floor.post("/contents", ids),
        ),
        Pair("mark 1,000", lambda: mark(ours, "ours", f"{API}/edit-tag"), lambda: mark(floor, "floor", "/mark")),
    ]


async def measure_load(who: list[ApiClient], path: str, seconds: float) -> tuple[float, float]:
    """Return the median time of a list of 100 unread items, and requests per second, with all clients busy."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def ask(one: ApiClient) -> None:
        while time.perf_counter() < end:
            times.append(await _count_cpu(lambda: one.get(path), time.perf_counter))

    await asyncio.gather(*map(ask, who))
    return statistics.median(times), len(times) / seconds


async def run_sync(client: ApiClient, ids_of_last: set[int]) -> set[int]:
    """Sync as NetNewsWire does: lists, all unread and starred ids, contents of the missing items."""
    for path in ("tag/list", "subscription/list", "unread-count"):
        await client.get(f"{API}/{path}?output=json")
    ids: list[int] = []
    for stream, more in ((READING_LIST, f"&xt={READ}"), (f"{READ[:-4]}starred", "")):
        after = ""
        while True:
            path = f"{API}/stream/items/ids?s={stream}{more}&n=10000{after}"
            answer = orjson.loads(await client.get(path))
            ids += [int(ref["id"]) for ref in answer["itemRefs"]]
            if "continuation" not in answer:
                break
            after = f"&c={answer['continuation']}"
    missing = [id for id in dict.fromkeys(ids) if id not in ids_of_last]
    for start in range(0, len(missing), 1000):
        await client.post(f"{API}/stream/items/contents", [("i", str(id)) for id in missing[start : start + 1000]])
    return set(ids)


def _say(what: str, ours: float, floor: float, freshrss: float | None = None) -> float:
    more = "" if freshrss is None else f"   as FreshRSS {1e3 * freshrss:8.2f} ms, ratio {ours / freshrss:5.2f}"
    print(f"{what:44} {1e3 * ours:9.2f} ms   floor {1e3 * floor:9.2f} ms, ratio {ours / floor:5.2f}{more}", flush=True)
    return ours / floor


async def _run(small: bool, url: str, clock: Callable[[], float]) -> dict[str, float]:
    feeds, each, readers = SMALL if small else LARGE
    start = time.perf_counter()
    async with await open_store(url) as store:
        await fill(store, feeds, each)
        async with freshrss_floor.floor(url) as floor:
            await floor.prepare()
            total = feeds * each
            print(
                f"{feeds:,} feeds, {total:,} items, all unread, on {url.partition(':')[0]}, filled in "
                f"{time.perf_counter() - start:.0f} s. Medians of {5 if small else 31}, "
                f"{'CPU' if clock is time.process_time else 'by the clock'}; load and sync by the clock."
            )
            gc.collect()
            gc.freeze()
            user = (await store.read(find_owner)).id
            figures = await _ask_store(store, floor, user, total, 5 if small else 31, clock)
            return figures | await _serve(store, floor, user, total, readers, 5 if small else 31, clock)


async def _ask_store(
    store: Store, floor: Floor, user: int, total: int, times: int, clock: Callable[[], float]
) -> dict[str, float]:
    figures: dict[str, float] = {}
    for pair in compare_store(store, floor, user, total):
        figures[f"store: {pair.name}"] = _say(f"store: {pair.name}", *(await pair.measure(times, clock)))
    figures["store: mark all"] = _say(
        f"store: mark all {total:,}", *await measure_mark_all(store, floor, user, total, clock)
    )
    # The same after all but every hundredth item was read one by one, and maintenance has run.
    rare = [id for id in range(1, total + 1) if id % 100]
    for start in range(0, len(rare), 20_000):
        await store.write(mark_items, user, rare[start : start + 20_000], NOW, read=True)
    await compact_all_marks(store, NOW)
    await floor.run_changes(
        floor.mark_all(total, True),
        floor.mark_items([id for id in range(1, total + 1) if not id % 100], False),
        *floor.statistics,
    )
    for pair in compare_store(store, floor, user, total):
        if pair.name in ("100 unread", "100 unread by date", "unread counts"):
            name = f"store, 1 of 100 unread: {pair.name}"
            figures[name] = _say(name, *(await pair.measure(times, clock)))
    await store.write(mark_items, user, range(1, total + 1), NOW, read=False)
    await floor.run_changes(floor.mark_all(total, False), *floor.statistics)
    return figures


async def _make_readers(store: Store, user: int, number: int) -> list[str]:
    """Return the secrets of the owner and of others who each read a fifth of the feeds."""
    await store.write(add_api_token, user, hash_secret("bench"), "bench", ["read", "write"], NOW)
    secrets = ["bench"]
    every = await store.read(list_subscriptions, user)
    for n in range(1, number):
        other = await store.write(add_user, f"reader {n}", None, NOW)
        fifth = [NewFeed(one.url) for one in every if one.feed_id is not None and n % 5 == one.feed_id % 5]
        await store.write(add_and_subscribe, fifth, NOW, subscriber=other.id)
        await store.write(add_api_token, other.id, hash_secret(f"bench {n}"), "bench", ["read", "write"], NOW)
        secrets.append(f"bench {n}")
    return secrets


async def _serve(
    store: Store, floor: Floor, user: int, total: int, readers: int, times: int, clock: Callable[[], float]
) -> dict[str, float]:
    figures: dict[str, float] = {}
    secrets = await _make_readers(store, user, readers)
    async with (
        serving(create_app(make_idle_node(store))) as base,
        serving(freshrss_floor.app(floor)) as floor_base,
        # Neither server compresses for such a client, so that the ratios compare the same work.
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), headers={"Accept-Encoding": "identity"}
        ) as session,
    ):
        for pair in compare_served(ApiClient(session, base, "bench"), ApiClient(session, floor_base, "bench"), total):
            figures[f"served: {pair.name}"] = _say(f"served: {pair.name}", *(await pair.measure(times, clock)))
        seconds = 1.0 if times < 10 else 8.0
        asking = [ApiClient(session, base, secret) for secret in secrets]
        await store.write(mark_items, user, range(1, total + 1), NOW, read=False)
        median, rate = await measure_load(asking, UNREAD, seconds)
        by_hand = [ApiClient(session, floor_base, secret) for secret in secrets]
        floor_median, floor_rate = await measure_load(by_hand, "/unread", seconds)
        figures["load: 100 unread"] = _say(f"load of {readers} readers: 100 unread", median, floor_median)
        print(f"{'':44} {rate:9.0f} /s   floor {floor_rate:9.0f} /s")
        page, pages = await measure_load(asking, "/read/all", seconds)
        print(f"{f'load of {readers} readers: reading page':44} {1e3 * page:9.2f} ms, {pages:.0f} /s", flush=True)
        had: set[int] = set()
        for name in (f"first sync of {total:,} items", "the next, with nothing new"):
            client = ApiClient(session, base, "bench")
            start, cpu = time.perf_counter(), time.process_time()
            had = await run_sync(client, had)
            took, cpu = time.perf_counter() - start, time.process_time() - cpu
            print(
                f"{name}: {client.calls} calls, {client.received / 1e6:.2f} MB, {took:.2f} s, "
                f"{cpu:.2f} s of CPU (server and client)"
            )
            figures.setdefault("sync: calls", client.calls)
            figures.setdefault("sync: bytes", client.received)
        places = await store.read(
            list_stream_positions, user, Stream(), StreamQuery(unread=True, limit=total + 1, by_arrival=True)
        )
        assert {id for _, id in places} == had
    return figures


def main(small: bool = False, postgres: bool = False) -> dict[str, float]:
    """Run all comparisons; return the figures by name, ratios except for the sync."""
    return measure_on_database(_run, small, postgres)


if __name__ == "__main__":
    run_from_command_line(main, __doc__)
