"""The floor of `bench.api`: tables like FreshRSS's, and statements written by hand for the same requests.

One table of entries with `is_read` and `is_favorite` serves one user; several users need a copy of every item each.
There are two floors. *Least* is the least that any server must read for the same response: the items of the list with
the name, site and category of their feed, joined in one statement. *As FreshRSS* sends three statements, as its
`entriesToArray` does: the items, then every feed with its category, then the labels of the items. Both servers look up
the caller's token first and check nothing else.
"""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import orjson
from sqlalchemy import make_url
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.credentials import hash_secret
from headwater.store.content.search_terms import parse_search, to_fts5_query, to_tsquery
from headwater.store.database.sqlite import READERS
from headwater.web.greader.stream_ids import LABEL_PREFIX, READ, READING_LIST, format_item_id

Statement = tuple[Any, ...]  # text, then parameters

_TABLES = (
    "CREATE TABLE fr_category (id {id} PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE TABLE fr_feed (id {id} PRIMARY KEY, name TEXT, website TEXT, priority INTEGER NOT NULL DEFAULT 10, "
    "category {id} NOT NULL DEFAULT 1)",
    "CREATE TABLE fr_entry (id {id} PRIMARY KEY, guid TEXT NOT NULL, title TEXT, author TEXT, content TEXT, link TEXT, "
    "date DOUBLE PRECISION, lastSeen DOUBLE PRECISION, hash TEXT, is_read SMALLINT NOT NULL DEFAULT 0, "
    "is_favorite SMALLINT NOT NULL DEFAULT 0, id_feed {id} NOT NULL, tags TEXT, UNIQUE (id_feed, guid))",
    "CREATE TABLE fr_tag (id {id} PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE TABLE fr_entrytag (id_tag {id} NOT NULL, id_entry {id} NOT NULL, PRIMARY KEY (id_tag, id_entry))",
    "INSERT INTO fr_category (id, name) SELECT ROW_NUMBER() OVER (ORDER BY tag), tag FROM "
    "(SELECT DISTINCT tag FROM feed_tag) t",
    "INSERT INTO fr_feed (id, name, website, category) SELECT f.id, f.title, f.link, c.id FROM feed f "
    "JOIN feed_tag t ON t.feed_id = f.id JOIN fr_category c ON c.name = t.tag",
    "INSERT INTO fr_entry (id, guid, title, author, content, link, date, lastSeen, hash, id_feed, tags) SELECT id, "
    "identity, title, authors, COALESCE(content, summary), link, published, first_seen, content_hash, feed_id, "
    "categories FROM item",
    "CREATE INDEX fr_favorite ON fr_entry (is_favorite)",
    "CREATE INDEX fr_read ON fr_entry (is_read)",
    "CREATE INDEX fr_last_seen ON fr_entry (lastSeen)",
    "CREATE INDEX fr_feed_read ON fr_entry (id_feed, is_read)",
    "CREATE INDEX fr_tagged ON fr_entrytag (id_entry)",
)
_COLUMNS = (
    "e0.id, e0.guid, e0.title, e0.author, e0.content, e0.link, e0.date, e0.hash, e0.is_read, e0.is_favorite, "
    "e0.id_feed, e0.tags"
)
_NAMED = f"SELECT {_COLUMNS}, f0.name, f0.website, c0.name FROM fr_entry e0"
_NAMES = "INNER JOIN fr_feed f0 ON f0.id = e0.id_feed INNER JOIN fr_category c0 ON c0.id = f0.category"
_UNREAD = (
    "INNER JOIN (SELECT e.id FROM fr_entry e INNER JOIN fr_feed f ON e.id_feed = f.id "
    "WHERE f.priority >= 10 AND e.is_read = 0 ORDER BY e.id DESC LIMIT 100) e2 ON e2.id = e0.id"
)
_FEEDS = (
    "SELECT c.id, c.name, f.id, f.name, f.website, f.priority, f.category FROM fr_category c "
    "LEFT OUTER JOIN fr_feed f ON f.category = c.id ORDER BY c.id, f.name"
)
_COUNTS = "SELECT id_feed, COUNT(*), MAX(id) FROM fr_entry WHERE is_read = 0 GROUP BY id_feed"


class Floor(ABC):
    """Sends the statements by the bare driver."""

    @abstractmethod
    async def fetch_rows(self, *statements: Statement) -> list[list[Any]]:
        """Return the rows of each statement."""

    @abstractmethod
    async def run_changes(self, *statements: Statement) -> None:
        """Run all statements in one transaction."""

    @abstractmethod
    def _in_list(self, column: str, ids: Sequence[int], place: int) -> tuple[str, list[Any]]:
        """Return the condition `column IN ids` and its values; the first is parameter number `place`."""

    id_type: str
    statistics: tuple[Statement, ...] = ()
    token: str  # looks up a caller's token
    matching: str

    async def prepare(self) -> None:
        """Create the tables; on PostgreSQL also the statistics that a server in use has."""
        await self.run_changes(*((sql.format(id=self.id_type),) for sql in _TABLES))
        await self.run_changes(*self.statistics)

    # the requests

    def unread(self) -> list[Statement]:
        return [(f"{_NAMED} {_UNREAD} {_NAMES} ORDER BY e0.id DESC",)]

    def contents(self, ids: Sequence[int]) -> list[Statement]:
        among, values = self._in_list("e0.id", ids, 1)
        return [(f"{_NAMED} {_NAMES} WHERE {among} ORDER BY e0.id DESC", *values)]

    async def unread_as_freshrss(self) -> None:
        entries = (await self.fetch_rows((f"SELECT {_COLUMNS} FROM fr_entry e0 {_UNREAD} ORDER BY e0.id DESC",)))[0]
        await self.fetch_rows((_FEEDS,), self._labels([row[0] for row in entries]))

    async def contents_as_freshrss(self, ids: Sequence[int]) -> None:
        among, values = self._in_list("e0.id", ids, 1)
        entries = (f"SELECT {_COLUMNS} FROM fr_entry e0 WHERE {among} ORDER BY e0.id DESC", *values)
        await self.fetch_rows(entries, (_FEEDS,), self._labels(ids))

    def _labels(self, ids: Sequence[int]) -> Statement:
        among, values = self._in_list("et.id_entry", ids, 1)
        return (f"SELECT et.id_entry, t.name FROM fr_tag t INNER JOIN fr_entrytag et ON et.id_tag = t.id "
                f"WHERE {among}", *values)  # fmt: skip

    def counts(self) -> Statement:
        return (_COUNTS,)

    def search(self, word: str) -> Statement:
        found = f"SELECT {_COLUMNS} FROM fr_entry e0 WHERE e0.id IN ({self.matching}) ORDER BY e0.id DESC LIMIT 50"
        return (found, self._match(word))

    @abstractmethod
    def _match(self, word: str) -> str: ...

    def mark_items(self, ids: Sequence[int], read: bool) -> Statement:
        among, values = self._in_list("id", ids, 1)
        return (f"UPDATE fr_entry SET is_read = {int(read)} WHERE is_read <> {int(read)} AND {among}", *values)

    def mark_all(self, up_to: int, read: bool) -> Statement:
        return (f"UPDATE fr_entry SET is_read = {int(read)} WHERE is_read <> {int(read)} AND id <= {up_to}",)


class SqliteFloor(Floor):
    """Uses as many connections as the store has readers, the last used one first."""

    id_type = "INTEGER"
    token = "SELECT t.user_id, t.scopes FROM api_token t WHERE t.hash = ?"
    matching = "SELECT rowid FROM item_search WHERE item_search MATCH ?"

    def __init__(self, file: str) -> None:
        self._free: asyncio.LifoQueue[sqlite3.Connection] = asyncio.LifoQueue()
        for _ in range(READERS):
            db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, cached_statements=256)
            db.executescript("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;")
            self._free.put_nowait(db)

    async def fetch_rows(self, *statements: Statement) -> list[list[Any]]:
        db = await self._free.get()
        try:
            return await asyncio.to_thread(lambda: [db.execute(sql, values).fetchall() for sql, *values in statements])
        finally:
            self._free.put_nowait(db)

    async def run_changes(self, *statements: Statement) -> None:
        await self.fetch_rows(("BEGIN IMMEDIATE",), *statements, ("COMMIT",))

    def _in_list(self, column: str, ids: Sequence[int], place: int) -> tuple[str, list[Any]]:
        return f"{column} IN ({','.join('?' * len(ids))})", list(ids)

    def _match(self, word: str) -> str:
        return to_fts5_query(parse_search(word))

    def close(self) -> None:
        while not self._free.empty():
            self._free.get_nowait().close()


class PostgresFloor(Floor):
    """Uses a pool of as many connections as the store has."""

    id_type = "BIGINT"
    statistics = (("ANALYZE",),)
    token = "SELECT t.user_id, t.scopes FROM api_token t WHERE t.hash = $1"
    matching = "SELECT item_id FROM item_search WHERE words @@ CAST($1::text AS tsquery)"

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def fetch_rows(self, *statements: Statement) -> list[list[Any]]:
        async with self._pool.acquire() as connection:
            return [await connection.fetch(sql, *values) for sql, *values in statements]

    async def run_changes(self, *statements: Statement) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            for sql, *values in statements:
                await connection.execute(sql, *values)

    def _in_list(self, column: str, ids: Sequence[int], place: int) -> tuple[str, list[Any]]:
        return f"{column} = ANY(${place}::bigint[])", [list(ids)]

    def _match(self, word: str) -> str:
        return to_tsquery(parse_search(word))


@asynccontextmanager
async def floor(url: str) -> AsyncIterator[Floor]:
    """Open the floor on the database that the store has filled."""
    if url.startswith("sqlite"):
        one = SqliteFloor(str(make_url(url).database))
        try:
            yield one
        finally:
            one.close()
        return
    async with asyncpg.create_pool(url, min_size=1, max_size=8, server_settings={"jit": "off"}) as pool:
        yield PostgresFloor(pool)


def _to_json(row: Any) -> dict[str, Any]:
    """Return an entry as FreshRSS sends it."""
    at = str(row[0])
    return {
        "id": format_item_id(row[0]),
        "crawlTimeMsec": at,
        "timestampUsec": at,
        "published": int(row[6]),
        "title": row[2],
        "canonical": [{"href": row[5]}],
        "alternate": [{"href": row[5]}],
        "categories": [READING_LIST, LABEL_PREFIX + row[14], *([READ] if row[8] else [])],
        "origin": {"streamId": f"feed/{row[10]}", "htmlUrl": row[13], "title": row[12]},
        "summary": {"content": row[4]},
        "author": row[3],
    }


def app(floor: Floor) -> Starlette:
    """Make a server that sends the statements for callers with a token and writes the results as JSON."""

    def known(request: Request) -> Statement:
        return (floor.token, hash_secret(request.headers["authorization"].removeprefix("Bearer ")))

    async def answer(request: Request, statements: Sequence[Statement]) -> Response:
        who, *_, rows = await floor.fetch_rows(known(request), *statements)
        if not who:
            return Response(status_code=401)
        return Response(orjson.dumps({"items": list(map(_to_json, rows))}), media_type="application/json")

    async def unread(request: Request) -> Response:
        return await answer(request, floor.unread())

    async def contents(request: Request) -> Response:
        ids = [int(str(value)) for key, value in (await request.form()).multi_items() if key == "i"]
        return await answer(request, floor.contents(ids))

    async def mark(request: Request) -> Response:
        form = (await request.form(max_fields=10_000)).multi_items()
        ids, added = [int(str(value)) for key, value in form if key == "i"], any(key == "a" for key, _ in form)
        if not (await floor.fetch_rows(known(request)))[0]:
            return Response(status_code=401)
        await floor.run_changes(floor.mark_items(ids, added))
        return Response(b"OK")

    return Starlette(
        routes=[
            Route("/unread", unread),
            Route("/contents", contents, methods=["POST"]),
            Route("/mark", mark, methods=["POST"]),
        ]
    )
