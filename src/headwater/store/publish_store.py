"""The store's side of publishing: `store.publishing`. Every method is one transaction of its own.

Which feeds are private and by which tokens they are read, the past of query feeds by number, and deliveries.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from sqlalchemy import Connection, delete, func, select

from headwater.errors import NotFound
from headwater.model import Item, Refresh
from headwater.store import archive, deliveries, hits, outbox, state
from headwater.store.database import Database
from headwater.store.kept_rows import Keeper
from headwater.store.people import PUBLISHED_TOKENS, Remover
from headwater.store.publish_tables import private_feed, token
from headwater.store.sql import insert_new
from headwater.store.tables import hit
from headwater.store.values import Access, Delivery, Slice, StoredHit, Token


class PublishStore:
    """What is published to whom."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def version(self) -> Hashable:
        """Changes whenever a published document may have changed."""
        return await self._database.read(_version)

    async def access(self) -> Access:
        """The private feeds, and which token reads which."""
        return await self._database.read(_access)

    async def set_private(self, path: str, private: bool) -> None:
        """`path` is /feeds/NAME or /tags/TAG."""
        await self._database.write(_set_private, path.casefold(), private)

    async def add_token(self, path: str, hash: bytes, label: str, now: float) -> None:
        """Keep the SHA-256 of a token that may read a private feed."""
        await self._database.write(_add_token, path.casefold(), hash, label, now)

    async def revoke(self, path: str, label: str | None = None, *, by: Remover) -> tuple[int, int]:
        """Forget tokens of a feed (those with a label): how many there were, and the number by which they are taken
        back. NotFound if none."""
        return await self._database.write(_revoke, path.casefold(), label, by)

    async def tokens(self) -> list[Token]:
        return await self._database.read(_tokens)

    # the past of query feeds

    async def count_hits(self, query_id: int) -> int:
        return await self._database.read(_count, query_id)

    async def past_hits(self, query_id: int, skip: int, limit: int) -> list[StoredHit]:
        """In the order of arrival, the first of all first; `skip` of them passed over."""
        return await self._database.read(_past, query_id, skip, limit)

    async def last_hit(self, query_id: int) -> int:
        """The end of a query feed's stream."""
        return await self._database.read(_last, query_id)

    # archives

    async def archive_items(self, after: int, part: Slice, limit: int) -> list[Item]:
        """Items in the order of ids, beyond the id `after`."""
        return await self._database.read(archive.items_after, after, part, limit)

    async def archive_refreshes(self, after: int, part: Slice, limit: int) -> list[tuple[int, Refresh]]:
        return await self._database.read(archive.refreshes_after, after, part, limit)

    async def archive_hits(self, query_id: int, after: int, part: Slice, limit: int) -> list[StoredHit]:
        return await self._database.read(archive.hits_after, query_id, after, part, limit)

    async def count_archive(self, what: str, query_id: int | None, after: int, part: Slice) -> int:
        """How many of these are left."""
        if query_id is not None:
            return await self._database.read(archive.count_hits, query_id, after, part)
        count = archive.count_refreshes if what == "refreshes" else archive.count_items
        return await self._database.read(count, after, part)

    # deliveries

    async def claim(self, now: float, lease: float, limit: int = 50) -> list[list[Delivery]]:
        """Batches whose time has come; nobody else gets them before the lease has passed."""
        return await self._database.write(deliveries.claim, now, lease, limit)

    async def settle(self, ids: Sequence[int], state: str, due: float | None, message: str | None, now: float) -> None:
        """What became of a batch: sent, failed until `due`, or dead."""
        await self._database.write(deliveries.settle, ids, state, due, message, now)

    async def deliveries(
        self, states: Collection[str] = (), *, before: tuple[float, int] | None = None, limit: int = 100
    ) -> list[Delivery]:
        """The latest first, of these states or of all; `before` is (at, id) of the last one of the page before."""
        return await self._database.read(deliveries.listed, states, before, limit)

    async def delivery_counts(self) -> dict[str, int]:
        return await self._database.read(deliveries.counts)

    async def resend(self, ids: Collection[int], now: float) -> int:
        """Make dead or failed deliveries (all dead ones: no ids) due at once; how many."""
        return await self._database.write(deliveries.resend, ids, now)

    async def set_template(self, query: str | None, subject: str | None, body: str | None) -> None:
        """In whose words a query feed's deliveries speak (None: all that have none); both None forgets them."""
        await self._database.write(deliveries.set_template, query, subject, body)

    async def template(self, query: str) -> tuple[str | None, str | None]:
        """Subject and text of a query feed's deliveries: its own, else the server's, else None."""
        return await self._database.read(deliveries.template, query)

    async def templates(self) -> dict[str, tuple[str | None, str | None]]:
        """All of them, by query feed; "" is the server's."""
        return await self._database.read(deliveries.templates)

    async def next_due(self) -> float | None:
        """When the next delivery is due."""
        return await self._database.read(deliveries.next_due)


def _version(connection: Connection) -> Hashable:
    return (
        outbox.end(connection),
        outbox.read_checkpoint(connection, "queries"),
        connection.execute(select(func.max(hit.c.id))).scalar(),
        *(state.revision(connection, what) for what in (state.FEEDS, state.QUERIES, state.PUBLISHED)),
    )


def _access(connection: Connection) -> Access:
    private = frozenset(connection.execute(select(private_feed.c.path)).scalars())
    rows = connection.execute(select(token.c.hash, token.c.path))
    return Access(private, {bytes(row.hash): row.path for row in rows})


def _set_private(connection: Connection, path: str, private: bool) -> None:
    connection.execute(delete(private_feed).where(private_feed.c.path == path))
    if private:
        connection.execute(insert_new(connection.dialect.name, private_feed), {"path": path})
    state.changed(connection, state.PUBLISHED)


def _add_token(connection: Connection, path: str, hash: bytes, label: str, now: float) -> None:
    values = {"hash": hash, "path": path, "label": label, "created": now}
    connection.execute(insert_new(connection.dialect.name, token), values)
    state.changed(connection, state.PUBLISHED)


def _revoke(connection: Connection, path: str, label: str | None, by: Remover) -> tuple[int, int]:
    which = [token.c.path == path] + ([] if label is None else [token.c.label == label])
    keep = Keeper(connection, by, PUBLISHED_TOKENS, path)
    keep.rows(token, *which)
    number: int = connection.execute(delete(token).where(*which)).rowcount
    if not number:
        named = "" if label is None else f" called “{label}”"
        raise NotFound(f"{path} has no token{named}. “headwater publish list” shows all.")
    state.changed(connection, state.PUBLISHED)
    return number, keep.id


def _tokens(connection: Connection) -> list[Token]:
    rows = connection.execute(select(token).order_by(token.c.path, token.c.created))
    return [Token(row.path, row.label, row.created) for row in rows]


def _count(connection: Connection, query_id: int) -> int:
    query = select(func.count()).select_from(hit).where(hit.c.query_id == query_id, hit.c.current)
    return connection.execute(query).scalar_one()


def _past(connection: Connection, query_id: int, skip: int, limit: int) -> list[StoredHit]:
    after = 0
    if skip:
        mine = select(hit.c.id).where(hit.c.query_id == query_id, hit.c.current)
        after = connection.execute(mine.order_by(hit.c.id).offset(skip - 1).limit(1)).scalar() or 0
        if not after:
            return []
    return hits.stream(connection, query_id, after, limit)


def _last(connection: Connection, query_id: int) -> int:
    return connection.execute(select(func.max(hit.c.id)).where(hit.c.query_id == query_id)).scalar() or 0
