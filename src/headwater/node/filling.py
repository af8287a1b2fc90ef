"""A new or replaced query feed gets its window from the stored past, so that its reader sees something at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from headwater.language.ast import Create, Name, Query
from headwater.language.normal import reads
from headwater.model import Item, QueryFeed
from headwater.query import Arrival, Engine, Hit
from headwater.query.document import Emission, document
from headwater.query.scope import Scope
from headwater.query.text import Analysed, Detect, Origin
from headwater.store import hits, queries, shares
from headwater.store.store import Store
from headwater.store.values import Matched

MOST = 10_000  # items of the past that are looked at, the latest of the query's feeds
LEAST = 200  # even where very many queries are filled at a time
TOGETHER = 1_000_000  # items × queries that are looked at, where many are filled at a time
FEW = 2  # so many are filled one by one, each from as much of the past as there is
BATCH = 200


@dataclass(frozen=True, slots=True)
class Filling:
    """The window, per feed (how many items were kept, of how many), and how many were looked at of each feed."""

    window: list[Matched]
    kept: dict[int, tuple[int, int]]
    offered: Mapping[int, int]


async def fill(store: Store, engine: Engine, query: QueryFeed, definition: Query, scope: Scope, now: float) -> Filling:
    """What the query makes of the past; it must have been added to the engine."""
    past = await arrivals(store, definition, scope, upto=query.position)
    found = await asyncio.to_thread(engine.backfill, query.name, past)
    matched = [Matched(query.id, hit, arrival.arrived or hit.item.first_seen) for arrival, hit in found]
    offered = Counter(arrival.item.feed_id for arrival in past)
    return _filling(definition, matched, offered, now)


async def fill_all(
    store: Store,
    engine: Engine,
    group: Sequence[tuple[QueryFeed, Query]],
    names: Collection[str],
    origins: Mapping[int, Origin],
    scope: Scope,
    now: float,
) -> list[tuple[QueryFeed, Filling]]:
    """What each of several queries makes of the past: many plain ones in one pass, the others one by one."""
    many = [(query, definition) for query, definition in group if plain(definition, names)]
    filled = {}
    if len(many) > FEW:
        together = await asyncio.to_thread(Together, many, origins, engine.detect)
        filled = await together.fill(store, scope, now, len(many))
    return [
        (query, filled.get(query.id) or await fill(store, engine, query, definition, scope, now))
        for query, definition in group
    ]


def write_fillings(connection: Connection, fillings: Sequence[tuple[QueryFeed, Filling]]) -> set[int]:
    """Windows, what was kept of the past, and that the definitions run: together or not at all. The ids of those that
    have not been replaced or dropped meanwhile."""
    running = queries.activate(connection, [query for query, _ in fillings])
    done = {query.id: filling for query, filling in fillings if query.id in running}
    for looked_at in {id(filling.offered): filling.offered for filling in done.values()}.values():  # many share a past
        shares.offered_before(connection, looked_at)
    shares.set_sources(connection, {query: filling.kept for query, filling in done.items()})
    # One that ran no definition before has no hits, or has been brought back, with hits of this very definition.
    replaced = [query.id for query, _ in fillings if query.id in running and query.active is not None]
    hits.refill(connection, {query: filling.window for query, filling in done.items()}, replaced)
    return running


class Together:
    """Many plain queries on an engine of their own: filled in one pass over the past, which is the shorter the more
    there are, and then caught up with what has come since. All hold from the same position of the outbox."""

    def __init__(
        self, group: Sequence[tuple[QueryFeed, Query]], origins: Mapping[int, Origin], detect: Detect | None
    ) -> None:
        self._group = group
        self._position = group[0][0].position
        self._engine = Engine(detect)
        self._ids: dict[str, int] = {}
        for feed, origin in origins.items():
            self._engine.feed(feed, origin)
        for query, definition in group:
            self._engine.add(Create(Name(query.name), definition, text=query.text))
            self._ids[query.name] = query.id

    async def fill(self, store: Store, scope: Scope, now: float, many: int) -> dict[int, Filling]:
        """What each makes of the past, by the id of its query feed; with those that wait they are `many`."""
        feeds = set().union(*(scope.feeds(definition) for _, definition in self._group))
        most = min(max(TOGETHER // many, LEAST), MOST)
        past = await store.queries.past(most=most, upto=self._position, feed_ids=feeds)
        items = await store.queries.items(past)
        found: dict[int, list[Matched]] = {}
        for one in await asyncio.to_thread(self._matched, items):
            found.setdefault(one.query_id, []).append(one)
        offered = Counter(item.feed_id for item in items)
        return {
            query.id: _filling(definition, found.get(query.id, []), offered, now) for query, definition in self._group
        }

    async def catch_up(self, store: Store, upto: int) -> list[Matched]:
        """What they make of the entries between their position and `upto`, which were matched without them. An item
        that was in the past and has changed since is known to the engine as it is now, and not delivered."""
        found: list[Matched] = []
        position = self._position
        while position < upto:
            entries = [entry for entry in await store.outbox(position, BATCH) if entry.position <= upto]
            if not entries:
                break
            found += await asyncio.to_thread(self._matched, [entry.item for entry in entries])
            position = entries[-1].position
        return found

    def _matched(self, items: Sequence[Item]) -> list[Matched]:
        return [
            Matched(self._ids[hit.query], versioned(hit, item.version), item.first_seen)
            for item in items
            for hit in self._engine.match(item, None, item.first_seen)
        ]


def plain(definition: Query, known: Collection[str]) -> bool:
    """Whether the query remembers nothing and reads no other query feed (`known` are their folded names)."""
    return stateless(definition) and not any(read.key in known for read in reads(definition))


def stateless(definition: Query) -> bool:
    return not definition.joins and definition.distinct is None


def _filling(definition: Query, matched: list[Matched], offered: Mapping[int, int], now: float) -> Filling:
    kept = Counter(one.hit.original.feed_id for one in matched if not one.hit.update)
    of_each = {feed: (number, offered[feed]) for feed, number in kept.items()}
    return Filling(window(definition, matched, now), of_each, offered)


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


def versioned(hit: Hit, version: int) -> Hit:
    """The hit with the version that the store counts; the engine counts what it has met."""
    if hit.original.version == version == hit.item.version:
        return hit
    return replace(hit, item=replace(hit.item, version=version), original=replace(hit.original, version=version))
