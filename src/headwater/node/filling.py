"""A new or replaced query feed gets its window from the stored past, so that its reader sees something at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from headwater.language.ast import Query
from headwater.language.normal import reads
from headwater.model import QueryFeed
from headwater.query import Arrival, Engine
from headwater.query.document import Emission, document
from headwater.query.scope import Scope
from headwater.query.text import Analysed, Origin
from headwater.store.store import Store
from headwater.store.values import Matched

MOST = 10_000  # items of the past that are looked at, the latest of the query's feeds


@dataclass(frozen=True, slots=True)
class Filling:
    """The window, and per feed (how many items were kept, of how many)."""

    window: list[Matched]
    kept: dict[int, tuple[int, int]]


async def fill(store: Store, engine: Engine, query: QueryFeed, definition: Query, scope: Scope, now: float) -> Filling:
    """What the query makes of the past; it must have been added to the engine."""
    past = await arrivals(store, definition, scope, upto=query.position)
    found = await asyncio.to_thread(engine.backfill, query.name, past)
    matched = [Matched(query.id, hit, arrival.arrived or hit.item.first_seen) for arrival, hit in found]
    offered = Counter(arrival.item.feed_id for arrival in past)
    kept = Counter(one.hit.original.feed_id for one in matched if not one.hit.update)
    return Filling(window(definition, matched, now), {feed: (kept[feed], number) for feed, number in offered.items()})


async def arrivals(
    store: Store, definition: Query, scope: Scope, *, upto: int, since: float | None = None, most: int = MOST
) -> list[Arrival]:
    """The latest items of the feeds that a query reads, with what the query feeds it names have published of them."""
    feeds = scope.feeds(definition, joined=True)
    ids = await store.queries.past(since=since, most=most, upto=upto, feed_ids=feeds)
    names = [name.name for name in reads(definition)]
    published = await store.queries.published(names) if names else {}
    return [
        Arrival(item, item.first_seen, emitted=published.get(item.id or 0, {}))
        for item in await store.queries.items(ids)
    ]


def window(definition: Query, matched: list[Matched], now: float) -> list[Matched]:
    """What of it KEEP keeps, in the order of arrival."""
    emissions = []
    for number, one in enumerate(matched):
        seen = Analysed(one.hit.item, Origin(None, f"feed:{one.hit.item.feed_id}"), one.arrived)
        emissions.append(Emission(seen, one.hit.branches, None, one.arrived, number))
    latest = {emission.seen.item.id: emission for emission in emissions}  # an item that changed counts once
    kept = {emission.sequence for emission in document(definition, latest.values(), now)}
    return [one for number, one in enumerate(matched) if number in kept]
