"""A new or replaced query feed gets its window from the stored past, so that its reader sees something at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.language.ast import Create, Name, Query
from headwater.language.normal import reads
from headwater.model import Item, QueryFeed
from headwater.query import Arrival, Engine
from headwater.query.document import Emission, document
from headwater.query.scope import Scope
from headwater.query.text import Analysed, Origin
from headwater.store.store import Store
from headwater.store.values import Matched

MOST = 10_000  # items of the past that are looked at, the latest of the query's feeds
LEAST = 200  # even where very many queries are filled at a time
TOGETHER = 1_000_000  # items × queries that are looked at, where many are filled at a time


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
    return _filling(definition, matched, offered, now)


async def fill_together(
    store: Store, group: Sequence[tuple[QueryFeed, Query]], scope: Scope, origins: Mapping[int, Origin], now: float
) -> dict[int, Filling]:
    """The same for many plain queries in one pass over the past, which is the shorter the more they are."""
    engine = Engine()
    for feed, origin in origins.items():
        engine.feed(feed, origin)
    ids = {}
    for query, definition in group:
        engine.add(Create(Name(query.name), definition, text=query.text))
        ids[query.name] = query.id
    feeds = set().union(*(scope.feeds(definition) for _, definition in group))
    most = min(max(TOGETHER // len(group), LEAST), MOST)
    past = await store.queries.past(most=most, upto=group[0][0].position, feed_ids=feeds)
    items = await store.queries.items(past)
    found = await asyncio.to_thread(_matched, engine, items, ids)
    offered = Counter(item.feed_id for item in items)
    return {query.id: _filling(definition, found.get(query.id, []), offered, now) for query, definition in group}


def _matched(engine: Engine, items: Sequence[Item], ids: Mapping[str, int]) -> dict[int, list[Matched]]:
    found: dict[int, list[Matched]] = {}
    for item in items:
        for hit in engine.match(item, None, item.first_seen):
            one = Matched(ids[hit.query], hit, item.first_seen)
            found.setdefault(one.query_id, []).append(one)
    return found


def plain(definition: Query, known: Collection[str]) -> bool:
    """Whether the query remembers nothing and reads no other query feed (`known` are their folded names)."""
    stateless = not definition.joins and definition.distinct is None
    return stateless and not any(read.key in known for read in reads(definition))


def _filling(definition: Query, matched: list[Matched], offered: Mapping[int, int], now: float) -> Filling:
    kept = Counter(one.hit.original.feed_id for one in matched if not one.hit.update)
    return Filling(window(definition, matched, now), {feed: (number, offered[feed]) for feed, number in kept.items()})


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
