"""Reading by the API beside SQL by hand on the same database, laid out as FreshRSS has it; and a client's whole sync.

python -m bench.api [--small]

The floor is a table of entries with `is_read` and `is_favorite` in it, one for each person, and the statements that
FreshRSS sends: what one pays who gives every person a copy of every item. “store” compares the store's functions with
those statements, sent by the bare driver; “served” compares the Google Reader API with a server that does nothing but
send them and write the same JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import socket
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.store import Text, verdict
from headwater.credentials import digest
from headwater.node.crawler import Status
from headwater.store.people import Part, Stream
from headwater.store.store import Store
from headwater.store.values import NewFeed
from headwater.web.app import create_app
from headwater.web.greader.ids import READ, READING_LIST, long_id

NOW = 1_700_000_000.0
STATUS = Status(0, 0, "uniform", 60.0, 60, None, 0)
WORD = "hetyfiiz"  # which 2 % of the items have: the texts are always the same
SMALL, LARGE = (20, 50, 8), (500, 200, 50)  # feeds, items of each, readers at a time

_FLOOR = """
CREATE TABLE fr_category (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE fr_feed (id INTEGER PRIMARY KEY, name TEXT, website TEXT, priority INTEGER NOT NULL DEFAULT 10,
  category INTEGER NOT NULL DEFAULT 1);
INSERT INTO fr_category (name) SELECT DISTINCT tag FROM feed_tag;
CREATE TABLE fr_entry (
  id INTEGER PRIMARY KEY, guid TEXT NOT NULL, title TEXT, author TEXT, content TEXT, link TEXT, date INTEGER,
  lastSeen INTEGER, hash BLOB, is_read INTEGER NOT NULL DEFAULT 0, is_favorite INTEGER NOT NULL DEFAULT 0,
  id_feed INTEGER NOT NULL, tags TEXT, UNIQUE (id_feed, guid));
INSERT INTO fr_feed (id, name, website, category) SELECT f.id, f.title, f.link, c.id FROM feed f
  JOIN feed_tag t ON t.feed_id = f.id JOIN fr_category c ON c.name = t.tag;
INSERT INTO fr_entry (id, guid, title, author, content, link, date, lastSeen, hash, id_feed, tags)
  SELECT id, identity, title, authors, coalesce(content, summary), link, published, first_seen, content_hash, feed_id,
    categories FROM item;
CREATE INDEX fr_favorite ON fr_entry (is_favorite);
CREATE INDEX fr_read ON fr_entry (is_read);
CREATE INDEX fr_last_seen ON fr_entry (lastSeen);
CREATE INDEX fr_feed_read ON fr_entry (id_feed, is_read);
"""
_COLUMNS = "e0.id, e0.guid, e0.title, e0.author, e0.content, e0.link, e0.date, e0.hash, e0.is_read, e0.is_favorite, e0.id_feed, e0.tags"  # noqa: E501
_LIST = f"""SELECT {_COLUMNS} FROM fr_entry e0 INNER JOIN (
  SELECT e.id FROM fr_entry e INNER JOIN fr_feed f ON e.id_feed = f.id
  WHERE f.priority >= 10 AND e.is_read = 0 ORDER BY e.id DESC LIMIT 100) e2 ON e2.id = e0.id ORDER BY e0.id DESC"""
_NAMES = "SELECT f.id, f.name, c.name FROM fr_feed f INNER JOIN fr_category c ON c.id = f.category"
_COUNTS = "SELECT id_feed, COUNT(*), MAX(id) FROM fr_entry WHERE is_read = 0 GROUP BY id_feed"
_SEARCH = f"""SELECT {_COLUMNS} FROM fr_entry e0 WHERE e0.id IN
  (SELECT rowid FROM item_search WHERE item_search MATCH ?) ORDER BY e0.id DESC LIMIT 50"""


def _in(count: int) -> str:
    return ",".join("?" * count)


class Floor:
    """The statements of FreshRSS, by the bare driver."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, cached_statements=256)
        self._db.executescript("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;")

    def prepare(self) -> None:
        self._db.executescript(f"BEGIN; {_FLOOR} COMMIT;")

    def close(self) -> None:
        self._db.close()

    def names(self) -> dict[int, Any]:
        """Which FreshRSS asks for with every answer that has items in it."""
        return {row[0]: row for row in self._db.execute(_NAMES)}

    def unread(self) -> list[Any]:
        self.names()
        return self._db.execute(_LIST).fetchall()

    def counts(self) -> list[Any]:
        return self._db.execute(_COUNTS).fetchall()

    def contents(self, ids: list[int]) -> list[Any]:
        self.names()
        sql = f"SELECT {_COLUMNS} FROM fr_entry e0 WHERE e0.id IN ({_in(len(ids))}) ORDER BY e0.id DESC"
        return self._db.execute(sql, ids).fetchall()

    def search(self, word: str) -> list[Any]:
        return self._db.execute(_SEARCH, (word,)).fetchall()

    def mark(self, ids: list[int], read: bool) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        sql = f"UPDATE fr_entry SET is_read = {int(read)} WHERE is_read <> {int(read)} AND id IN ({_in(len(ids))})"
        self._db.execute(sql, ids)
        self._db.execute("COMMIT")

    def mark_all(self, upto: int) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("UPDATE fr_entry SET is_read = 1 WHERE is_read <> 1 AND id <= ?", (upto,))
        self._db.execute("COMMIT")

    def unmark_all(self) -> None:
        self._db.execute("UPDATE fr_entry SET is_read = 0 WHERE is_read <> 0")


def shown(row: Any) -> dict[str, Any]:
    """An entry as FreshRSS answers it."""
    at = str(row[0])
    return {
        "id": long_id(row[0]),
        "crawlTimeMsec": at,
        "timestampUsec": at,
        "published": int(row[6]),
        "title": row[2],
        "canonical": [{"href": row[5]}],
        "alternate": [{"href": row[5]}],
        "categories": [READING_LIST, *([READ] if row[8] else [])],
        "origin": {"streamId": f"feed/{row[10]}", "htmlUrl": "", "title": ""},
        "summary": {"content": row[4]},
        "author": row[3],
    }


def floor_app(file: Path) -> Starlette:
    """A server that only sends the statements and writes what they bring."""
    floor = Floor(file)

    def answer(rows: list[Any]) -> Response:
        return Response(orjson.dumps({"items": list(map(shown, rows))}), media_type="application/json")

    async def unread(request: Request) -> Response:
        return answer(await asyncio.to_thread(floor.unread))

    async def contents(request: Request) -> Response:
        ids = [int(value) for key, value in (await request.form()).multi_items() if key == "i"]
        return answer(await asyncio.to_thread(floor.contents, ids))

    async def mark(request: Request) -> Response:
        form = (await request.form(max_fields=10_000)).multi_items()
        ids, added = [int(value) for key, value in form if key == "i"], any(key == "a" for key, _ in form)
        await asyncio.to_thread(floor.mark, ids, added)
        return Response(b"OK")

    return Starlette(
        routes=[
            Route("/unread", unread),
            Route("/contents", contents, methods=["POST"]),
            Route("/mark", mark, methods=["POST"]),
        ]
    )


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


@dataclass
class Pair:
    """The same work twice: ours, and the floor's. Each sample is the two of them side by side."""

    name: str
    ours: Callable[[], Awaitable[Any]]
    floor: Callable[[], Awaitable[Any]]

    async def measure(self, times: int) -> tuple[float, float]:
        """Medians in seconds of CPU, of all threads, and of client and server together: others use the machine too."""
        samples = [(await _spent(self.ours), await _spent(self.floor)) for _ in range(times + 2)]
        ours, floor = zip(*samples[2:], strict=True)  # the first two fill caches
        return statistics.median(ours), statistics.median(floor)


async def _spent(work: Callable[[], Awaitable[Any]]) -> float:
    start = time.process_time()
    await work()
    return time.process_time() - start


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


async def fill(store: Store, feeds: int, each: int) -> None:
    text = Text()
    new = [NewFeed(f"https://{n}.example/feed", title=f"Feed {n}", tags=(f"tag {n % 20}",)) for n in range(feeds)]
    added = [one.feed for one in await store.add_feeds(new, NOW)]
    for start in range(0, each, 10):
        for some in range(0, feeds, 50):
            await store.save(
                [
                    verdict(text, feed.id, feed.url, start, min(10, each - start), NOW + 60 * start + feed.id * 0.001)
                    for feed in added[some : some + 50]
                ]
            )
    while await store.index(2000):
        pass


def stores(store: Store, floor: Floor, user: int, total: int) -> list[Pair]:
    """The store's functions beside the statements."""
    ids = list(range(1, total, max(1, total // 250)))[:250]
    many = list(range(2, total, max(1, total // 1000)))[:1000]
    turn = {"ours": True, "floor": True}

    async def bare(function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, function, *args)

    async def mark() -> None:
        turn["ours"] = not turn["ours"]
        await store.reading.mark(user, many, NOW, read=turn["ours"])

    async def bare_mark() -> None:
        turn["floor"] = not turn["floor"]
        await bare(floor.mark, many, turn["floor"])

    return [
        Pair(
            "100 unread",
            lambda: store.reading.page(user, Stream(), Part(unread=True, limit=100, by_arrival=True)),
            lambda: bare(floor.unread),
        ),
        Pair("contents of 250", lambda: store.reading.chosen(user, ids), lambda: bare(floor.contents, ids)),
        Pair("search", lambda: store.reading.search(user, WORD, limit=50), lambda: bare(floor.search, WORD)),
        Pair("unread counts", lambda: store.reading.counts(user), lambda: bare(floor.counts)),
        Pair("mark 1,000", mark, bare_mark),
    ]


async def mark_all(store: Store, floor: Floor, user: int, total: int) -> tuple[float, float]:
    """Everything as read, and back, beside the one UPDATE."""
    ours, theirs = [], []
    for _ in range(3):
        start = time.process_time()
        done = await store.reading.mark_all_read(user, now=NOW, up_to=total)
        ours.append(time.process_time() - start)
        theirs.append(await _spent(lambda: asyncio.to_thread(floor.mark_all, total)))
        if done.undo is not None:
            await store.reading.undo(user, done.undo, NOW)
        await asyncio.to_thread(floor.unmark_all)
    return statistics.median(ours), statistics.median(theirs)


class Asking:
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


def served(ours: Asking, floor: Asking, total: int) -> list[Pair]:
    """Whole requests."""
    ids = [("i", str(id)) for id in range(1, total, max(1, total // 250))][:250]
    many = [("i", str(id)) for id in range(2, total, max(1, total // 1000))][:1000]
    turn = {"ours": "r", "floor": "r"}

    async def mark(who: Asking, key: str, path: str) -> None:
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


async def under_load(who: list[Asking], path: str, seconds: float) -> tuple[float, float]:
    """The median of a list of 100 unread, and requests a second, with all of them asking all the time."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def ask(one: Asking) -> None:
        while time.perf_counter() < end:
            times.append(await _timed(lambda: one.get(path)))

    await asyncio.gather(*map(ask, who))
    return statistics.median(times), len(times) / seconds


async def synchronise(client: Asking, ids_of_last: set[int]) -> set[int]:
    """What NetNewsWire does: lists, all unread and starred ids, contents of those it does not have."""
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


def _say(what: str, ours: float, floor: float) -> float:
    print(f"{what:32} {1e3 * ours:9.2f} ms   floor {1e3 * floor:9.2f} ms   ratio {ours / floor:5.2f}")
    return ours / floor


async def _run(small: bool) -> dict[str, float]:
    feeds, each, readers = SMALL if small else LARGE
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "api.sqlite"
        async with await Store.open(f"sqlite:///{file}") as store:
            await fill(store, feeds, each)
            floor = Floor(file)
            floor.prepare()
            figures = await _measure(store, floor, file, feeds, each, readers, 5 if small else 31)
            floor.close()
    return figures


async def _measure(
    store: Store, floor: Floor, file: Path, feeds: int, each: int, readers: int, times: int
) -> dict[str, float]:
    figures: dict[str, float] = {}
    total = feeds * each
    user = (await store.accounts.owner()).id
    print(f"{feeds:,} feeds, {total:,} items, all unread; SQLite. CPU, medians of {times}; load and sync by the clock.")
    gc.collect()
    gc.freeze()
    for pair in stores(store, floor, user, total):
        figures[f"store: {pair.name}"] = _say(f"store: {pair.name}", *(await pair.measure(times)))
    figures["store: mark all"] = _say(f"store: mark all {total:,}", *await mark_all(store, floor, user, total))
    # The same where all but every hundredth has been read, one by one, and upkeep has been there since.
    rare = [id for id in range(1, total + 1) if id % 100]
    for start in range(0, len(rare), 20_000):
        await store.reading.mark(user, rare[start : start + 20_000], NOW, read=True)
    await store.reading.compact(NOW)
    await asyncio.to_thread(floor.mark_all, total)
    await asyncio.to_thread(floor.mark, [id for id in range(1, total + 1) if not id % 100][:30_000], False)
    for pair in stores(store, floor, user, total)[:4:3]:
        name = f"store, 1 of 100 unread: {pair.name}"
        figures[name] = _say(name.replace("store, ", "", 1), *(await pair.measure(times)))
    await store.reading.mark(user, rare[:200_000], NOW, read=False)
    await asyncio.to_thread(floor.unmark_all)
    return figures | await _serve(store, file, user, total, readers, times)


async def _serve(store: Store, file: Path, user: int, total: int, readers: int, times: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    app = create_app(store, lambda: STATUS)
    await store.accounts.add_token(user, digest("bench"), "bench", ["read", "write"], NOW)
    secrets = ["bench"]
    for n in range(1, readers):
        other = await store.accounts.add(f"reader {n}", None, NOW)
        for one in await store.reading.subscriptions(user):
            if one.feed_id is not None and n % 5 == one.feed_id % 5:  # each reads a fifth of the feeds
                await store.reading.subscribe(other.id, one.feed_id, NOW)
        await store.accounts.add_token(other.id, digest(f"bench {n}"), "bench", ["read", "write"], NOW)
        secrets.append(f"bench {n}")
    limit = aiohttp.TCPConnector(limit=0)
    async with (
        serving(app) as base,
        serving(floor_app(file)) as floor_base,
        aiohttp.ClientSession(connector=limit) as session,
    ):
        ours, floor = Asking(session, base, "bench"), Asking(session, floor_base)
        for pair in served(ours, floor, total):
            figures[f"served: {pair.name}"] = _say(f"served: {pair.name}", *(await pair.measure(times)))
        seconds = 1.0 if times < 10 else 8.0
        asking = [Asking(session, base, secret) for secret in secrets]
        await store.reading.mark(user, range(1, total + 1), NOW, read=False)
        median, rate = await under_load(asking, UNREAD, seconds)
        floor_median, floor_rate = await under_load([floor] * readers, "/unread", seconds)
        figures["load: 100 unread"] = _say(f"load of {readers} readers: 100 unread", median, floor_median)
        print(f"{'':32} {rate:9.0f} /s   floor {floor_rate:9.0f} /s")
        had: set[int] = set()
        for name in (f"first sync of {total:,} items", "the next, with nothing new"):
            client = Asking(session, base, "bench")
            start, cpu = time.perf_counter(), time.process_time()
            had = await synchronise(client, had)
            took, cpu = time.perf_counter() - start, time.process_time() - cpu
            print(
                f"{name}: {client.calls} calls, {client.received / 1e6:.2f} MB, {took:.2f} s, "
                f"{cpu:.2f} s of CPU (server and client)"
            )
            figures.setdefault("sync: calls", client.calls)
            figures.setdefault("sync: bytes", client.received)
        places = await store.reading.places(user, Stream(), Part(unread=True, limit=total + 1, by_arrival=True))
        assert {id for _, id in places} == had
    return figures


def main(small: bool = False) -> dict[str, float]:
    """The figures by name; ratios, unless they are of the sync."""
    return asyncio.run(_run(small))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a size that finishes in seconds")
    main(parser.parse_args().small)
