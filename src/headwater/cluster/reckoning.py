"""The reckoning after a run against a feed farm: what was published, and what has become of every item of it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from headwater.lab.farm.server import Farm
from headwater.store.store import Store
from headwater.store.tables import hit, item, outbox, refresh

MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class Reckoning:
    """`published` counts what feeds published between their first and their last good refresh; what came before is
    history, of which a feed shows as much as its window holds.

    `missing` of those are not stored although no loss was noticed; `overflowed` passed through a window unread, which
    was noticed. `doubled` are stored twice, `unannounced` have not exactly one outbox entry, `unmatched` did not come
    out of the query of everything exactly once. `at_once` is the most that a host had to bear at a time.
    """

    published: int
    stored: int
    processed: int
    missing: int
    overflowed: int
    doubled: int
    unannounced: int
    unmatched: int
    at_once: int
    requests: int

    @property
    def whole(self) -> bool:
        return not (self.missing or self.doubled or self.unannounced or self.unmatched)


async def reckon(farm: Farm, store: Store, query: str) -> Reckoning:
    """`query` is the name of a query feed of everything that was there before the first item."""
    published = missing = overflowed = 0
    lost, first = await store.read(_lost), await store.read(_first)
    for feed in await store.feeds():
        known = (await store.known([feed.id])).get(feed.id)
        if known is None or known.last_success is None:
            continue
        number = int(feed.url.rpartition("/")[2])
        pieces = farm.published(number, since=first[feed.id], until=known.last_success)
        there = {piece.identity for piece in pieces}
        here = {one.identity for one in await store.items(feed_id=feed.id, limit=MANY)}
        published += len(there)
        if feed.id in lost:
            overflowed += len(there - here)
        else:
            missing += len(there - here)
    query_id = (await store.queries.find(query)).id
    return Reckoning(
        published,
        await store.count_items(),
        await store.publishing.count_hits(query_id),
        missing,
        overflowed,
        *await store.read(_faults, query_id),
        max(farm.log.most_at_once.values(), default=0),
        len(farm.log),
    )


def _lost(connection: Connection) -> set[int]:
    """Feeds whose window had moved on beyond everything known, which is when a loss is noticed and estimated."""
    noticed = refresh.c.saturated | (refresh.c.lost > 0)
    return set(connection.execute(select(refresh.c.feed_id).where(noticed)).scalars())


def _first(connection: Connection) -> dict[int, float]:
    """When each feed was refreshed for the first time."""
    query = select(refresh.c.feed_id, func.min(refresh.c.at)).group_by(refresh.c.feed_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def _faults(connection: Connection, query_id: int) -> tuple[int, int, int]:
    """(doubled, unannounced, unmatched)."""
    same = select(item.c.feed_id).group_by(item.c.feed_id, item.c.identity).having(func.count() > 1)
    said = select(outbox.c.item_id).where(outbox.c.kind == "new").group_by(outbox.c.item_id).having(func.count() == 1)
    came = select(hit.c.item_id).where(hit.c.query_id == query_id).group_by(hit.c.item_id).having(func.count() == 1)
    return (
        len(connection.execute(same).all()),
        len(connection.execute(select(item.c.id).where(item.c.id.not_in(said))).all()),
        len(connection.execute(select(item.c.id).where(item.c.id.not_in(came))).all()),
    )
