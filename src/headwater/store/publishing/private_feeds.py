"""The store's side of publishing: `store.publishing`. Every method is one transaction of its own.

Which feeds are private and by which tokens they are read, the past of query feeds by number, and deliveries.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from sqlalchemy import Connection, delete, func, select

from headwater.errors import NotFound
from headwater.model import Item, Refresh
from headwater.store import saved_state
from headwater.store.content import outbox
from headwater.store.database.database import Database
from headwater.store.database.dialect import insert_or_ignore
from headwater.store.maintenance.trash_rows import TrashWriter
from headwater.store.people import TRASHED_FEED_TOKENS, Remover
from headwater.store.publishing import data_slices, deliveries
from headwater.store.queries import hits
from headwater.store.schema.feed_tables import hit
from headwater.store.schema.publication_tables import feed_token, private_feed
from headwater.store.values import DataSlice, Delivery, PrivateFeedToken, PublicAccess, StoredHit


class PublishStore:
    """What is published to whom."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def version(self) -> Hashable:
        """Changes whenever a published document may have changed."""
        return await self._database.read(read_publication_version)

    async def access(self) -> PublicAccess:
        """The private feeds, and which token reads which."""
        return await self._database.read(load_public_access)

    async def set_private(self, path: str, private: bool) -> None:
        """`path` is /feeds/NAME or /tags/TAG."""
        await self._database.write(set_private, path.casefold(), private)

    async def add_token(self, path: str, hash: bytes, label: str, now: float) -> None:
        """Keep the SHA-256 of a token that may read a private feed."""
        await self._database.write(add_feed_token, path.casefold(), hash, label, now)

    async def revoke(self, path: str, label: str | None = None, *, by: Remover) -> tuple[int, int]:
        """Forget tokens of a feed (those with a label): how many there were, and the number by which they are taken
        back. NotFound if none."""
        return await self._database.write(revoke_feed_tokens, path.casefold(), label, by)

    async def tokens(self) -> list[PrivateFeedToken]:
        return await self._database.read(list_feed_tokens)

    # the past of query feeds

    async def count_hits(self, query_id: int) -> int:
        return await self._database.read(count_hits, query_id)

    async def past_hits(self, query_id: int, skip: int, limit: int) -> list[StoredHit]:
        """In the order of arrival, the first of all first; `skip` of them passed over."""
        return await self._database.read(list_hits_by_number, query_id, skip, limit)

    async def last_hit(self, query_id: int) -> int:
        """The end of a query feed's stream."""
        return await self._database.read(find_last_hit, query_id)

    # archives

    async def archive_items(self, after: int, part: DataSlice, limit: int) -> list[Item]:
        """Items in the order of ids, beyond the id `after`."""
        return await self._database.read(data_slices.list_item_slice, after, part, limit)

    async def archive_refreshes(self, after: int, part: DataSlice, limit: int) -> list[tuple[int, Refresh]]:
        return await self._database.read(data_slices.list_refresh_slice, after, part, limit)

    async def archive_hits(self, query_id: int, after: int, part: DataSlice, limit: int) -> list[StoredHit]:
        return await self._database.read(data_slices.list_hit_slice, query_id, after, part, limit)

    async def count_archive(self, what: str, query_id: int | None, after: int, part: DataSlice) -> int:
        """How many of these are left."""
        if query_id is not None:
            return await self._database.read(data_slices.count_hit_slice, query_id, after, part)
        count = data_slices.count_refresh_slice if what == "refreshes" else data_slices.count_item_slice
        return await self._database.read(count, after, part)

    # deliveries

    async def claim(self, now: float, lease: float, limit: int = 50) -> list[list[Delivery]]:
        """Batches whose time has come; nobody else gets them before the lease has passed."""
        return await self._database.write(deliveries.claim_due_batches, now, lease, limit)

    async def settle(self, ids: Sequence[int], state: str, due: float | None, message: str | None, now: float) -> None:
        """What became of a batch: sent, failed until `due`, or dead."""
        await self._database.write(deliveries.settle_deliveries, ids, state, due, message, now)

    async def deliveries(
        self, states: Collection[str] = (), *, before: tuple[float, int] | None = None, limit: int = 100
    ) -> list[Delivery]:
        """The latest first, of these states or of all; `before` is (at, id) of the last one of the page before."""
        return await self._database.read(deliveries.list_deliveries, states, before, limit)

    async def delivery_counts(self) -> dict[str, int]:
        return await self._database.read(deliveries.count_deliveries)

    async def resend(self, ids: Collection[int], now: float) -> int:
        """Make dead or failed deliveries (all dead ones: no ids) due at once; how many."""
        return await self._database.write(deliveries.retry_deliveries, ids, now)

    async def set_template(self, query: str | None, subject: str | None, body: str | None) -> None:
        """In whose words a query feed's deliveries speak (None: all that have none); both None forgets them."""
        await self._database.write(deliveries.set_delivery_template, query, subject, body)

    async def template(self, query: str) -> tuple[str | None, str | None]:
        """Subject and text of a query feed's deliveries: its own, else the server's, else None."""
        return await self._database.read(deliveries.find_delivery_template, query)

    async def templates(self) -> dict[str, tuple[str | None, str | None]]:
        """All of them, by query feed; "" is the server's."""
        return await self._database.read(deliveries.list_delivery_templates)

    async def next_due(self) -> float | None:
        """When the next delivery is due."""
        return await self._database.read(deliveries.find_next_due_delivery)


def read_publication_version(connection: Connection) -> Hashable:
    return (
        outbox.find_last_position(connection),
        outbox.read_checkpoint(connection, "queries"),
        connection.execute(select(func.max(hit.c.id))).scalar(),
        *(
            saved_state.read_revision(connection, what)
            for what in (saved_state.FEEDS, saved_state.QUERIES, saved_state.PUBLISHED)
        ),
    )


def load_public_access(connection: Connection) -> PublicAccess:
    private = frozenset(connection.execute(select(private_feed.c.path)).scalars())
    rows = connection.execute(select(feed_token.c.hash, feed_token.c.path))
    return PublicAccess(private, {bytes(row.hash): row.path for row in rows})


def set_private(connection: Connection, path: str, private: bool) -> None:
    connection.execute(delete(private_feed).where(private_feed.c.path == path))
    if private:
        connection.execute(insert_or_ignore(connection.dialect.name, private_feed), {"path": path})
    saved_state.bump_revision(connection, saved_state.PUBLISHED)


def add_feed_token(connection: Connection, path: str, hash: bytes, label: str, now: float) -> None:
    values = {"hash": hash, "path": path, "label": label, "created": now}
    connection.execute(insert_or_ignore(connection.dialect.name, feed_token), values)
    saved_state.bump_revision(connection, saved_state.PUBLISHED)


def revoke_feed_tokens(connection: Connection, path: str, label: str | None, by: Remover) -> tuple[int, int]:
    which = [feed_token.c.path == path] + ([] if label is None else [feed_token.c.label == label])
    keep = TrashWriter(connection, by, TRASHED_FEED_TOKENS, path)
    keep.add_rows(feed_token, *which)
    number: int = connection.execute(delete(feed_token).where(*which)).rowcount
    if not number:
        named = "" if label is None else f" called “{label}”"
        raise NotFound(f"{path} has no token{named}. “headwater publish list” shows all.")
    saved_state.bump_revision(connection, saved_state.PUBLISHED)
    return number, keep.id


def list_feed_tokens(connection: Connection) -> list[PrivateFeedToken]:
    rows = connection.execute(select(feed_token).order_by(feed_token.c.path, feed_token.c.created))
    return [PrivateFeedToken(row.path, row.label, row.created) for row in rows]


def count_hits(connection: Connection, query_id: int) -> int:
    query = select(func.count()).select_from(hit).where(hit.c.query_id == query_id, hit.c.current)
    return connection.execute(query).scalar_one()


def list_hits_by_number(connection: Connection, query_id: int, skip: int, limit: int) -> list[StoredHit]:
    after = 0
    if skip:
        mine = select(hit.c.id).where(hit.c.query_id == query_id, hit.c.current)
        after = connection.execute(mine.order_by(hit.c.id).offset(skip - 1).limit(1)).scalar() or 0
        if not after:
            return []
    return hits.list_hits_after(connection, query_id, after, limit)


def find_last_hit(connection: Connection, query_id: int) -> int:
    return connection.execute(select(func.max(hit.c.id)).where(hit.c.query_id == query_id)).scalar() or 0
