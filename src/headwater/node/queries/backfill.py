"""A new or replaced query feed gets its window from the stored past, so that its reader sees something at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection

from headwater.language.ast import CreateFeed, FeedName, Query
from headwater.language.normal_form import list_read_feeds
from headwater.model import Item, QueryFeed
from headwater.query import Arrival, Engine, Hit
from headwater.query.items.analysed_item import AnalysedItem, LanguageDetector
from headwater.query.items.origin import Origin
from headwater.query.query_document import Emission, select_items
from headwater.query.source_scope import SourceScope
from headwater.store.content.items import find_items
from headwater.store.content.outbox import list_outbox_entries
from headwater.store.queries import hits, query_feeds, selectivity
from headwater.store.queries.hits import NewHit, find_published_items, list_past_items
from headwater.store.store import Store

MAX_ITEMS = 10_000  # items of the past that are looked at, the latest of the query's feeds
MIN_ITEMS = 200  # even where very many queries are filled at a time
MAX_PAIRS = 1_000_000  # items × queries that are looked at, where many are filled at a time
FEW = 2  # so many are filled one by one, each from as much of the past as there is
BATCH = 200


@dataclass(frozen=True, slots=True)
class Backfill:
    """The window, per feed (how many items were kept, of how many), and how many were looked at of each feed."""

    window: list[NewHit]
    kept: dict[int, tuple[int, int]]
    offered: Mapping[int, int]


async def backfill_query(
    store: Store, engine: Engine, query: QueryFeed, definition: Query, scope: SourceScope, now: float
) -> Backfill:
    """What the query makes of the past; it must have been added to the engine."""
    past = await load_arrivals(store, definition, scope, upto=query.position)
    found = await asyncio.to_thread(engine.backfill, query.name, past)
    matched = [NewHit(query.id, hit, arrival.arrived or hit.item.first_seen) for arrival, hit in found]
    offered = Counter(arrival.item.feed_id for arrival in past)
    return _make_backfill(definition, matched, offered, now)


async def backfill_queries(
    store: Store,
    engine: Engine,
    group: Sequence[tuple[QueryFeed, Query]],
    names: Collection[str],
    origins: Mapping[int, Origin],
    scope: SourceScope,
    now: float,
) -> list[tuple[QueryFeed, Backfill]]:
    """What each of several queries makes of the past: many plain ones in one pass, the others one by one."""
    many = [(query, definition) for query, definition in group if is_plain(definition, names)]
    filled = {}
    if len(many) > FEW:
        together = await asyncio.to_thread(BackfillBatch, many, origins, engine.detect)
        filled = await together.backfill(store, scope, now, len(many))
    return [
        (query, filled.get(query.id) or await backfill_query(store, engine, query, definition, scope, now))
        for query, definition in group
    ]


def write_backfills(connection: Connection, fillings: Sequence[tuple[QueryFeed, Backfill]]) -> set[int]:
    """Windows, what was kept of the past, and that the definitions run: together or not at all. The ids of those that
    have not been replaced or dropped meanwhile."""
    running = query_feeds.activate_definitions(connection, [query for query, _ in fillings])
    done = {query.id: filling for query, filling in fillings if query.id in running}
    for looked_at in {id(filling.offered): filling.offered for filling in done.values()}.values():  # many share a past
        selectivity.raise_offered_counts(connection, looked_at)
    selectivity.set_selectivity(connection, {query: filling.kept for query, filling in done.items()})
    # One that ran no definition before has no hits, or has been brought back, with hits of this very definition.
    replaced = [query.id for query, _ in fillings if query.id in running and query.active is not None]
    hits.replace_windows(connection, {query: filling.window for query, filling in done.items()}, replaced)
    return running


class BackfillBatch:
    """Many plain queries on an engine of their own: filled in one pass over the past, which is the shorter the more
    there are, and then caught up with what has come since. All hold from the same position of the outbox."""

    def __init__(
        self, group: Sequence[tuple[QueryFeed, Query]], origins: Mapping[int, Origin], detect: LanguageDetector | None
    ) -> None:
        self._group = group
        self._position = group[0][0].position
        self._engine = Engine(detect)
        self._ids: dict[str, int] = {}
        for feed, origin in origins.items():
            self._engine.set_origin(feed, origin)
        for query, definition in group:
            self._engine.add_query(CreateFeed(FeedName(query.name), definition, text=query.text))
            self._ids[query.name] = query.id

    async def backfill(self, store: Store, scope: SourceScope, now: float, many: int) -> dict[int, Backfill]:
        """What each makes of the past, by the id of its query feed; with those that wait they are `many`."""
        feeds = set().union(*(scope.find_feeds(definition) for _, definition in self._group))
        most = min(max(MAX_PAIRS // many, MIN_ITEMS), MAX_ITEMS)
        past = await store.read(list_past_items, most=most, upto=self._position, feed_ids=feeds)
        items = await store.read(find_items, past)
        found: dict[int, list[NewHit]] = {}
        for one in await asyncio.to_thread(self._match_items, items):
            found.setdefault(one.query_id, []).append(one)
        offered = Counter(item.feed_id for item in items)
        return {
            query.id: _make_backfill(definition, found.get(query.id, []), offered, now)
            for query, definition in self._group
        }

    async def catch_up(self, store: Store, upto: int) -> list[NewHit]:
        """What they make of the entries between their position and `upto`, which were matched without them. An item
        that was in the past and has changed since is known to the engine as it is now, and not delivered."""
        found: list[NewHit] = []
        position = self._position
        while position < upto:
            entries = [
                entry for entry in await store.read(list_outbox_entries, position, BATCH) if entry.position <= upto
            ]
            if not entries:
                break
            found += await asyncio.to_thread(self._match_items, [entry.item for entry in entries])
            position = entries[-1].position
        return found

    def _match_items(self, items: Sequence[Item]) -> list[NewHit]:
        return [
            NewHit(self._ids[hit.query], with_version(hit, item.version), item.first_seen)
            for item in items
            for hit in self._engine.match(item, None, item.first_seen)
        ]


def is_plain(definition: Query, known: Collection[str]) -> bool:
    """Whether the query remembers nothing and reads no other query feed (`known` are their folded names)."""
    return is_stateless(definition) and not any(read.key in known for read in list_read_feeds(definition))


def is_stateless(definition: Query) -> bool:
    return not definition.joins and definition.distinct is None


def _make_backfill(definition: Query, matched: list[NewHit], offered: Mapping[int, int], now: float) -> Backfill:
    kept = Counter(one.hit.original.feed_id for one in matched if not one.hit.update)
    of_each = {feed: (number, offered[feed]) for feed, number in kept.items()}
    return Backfill(select_window(definition, matched, now), of_each, offered)


async def load_arrivals(
    store: Store, definition: Query, scope: SourceScope, *, upto: int, since: float | None = None, most: int = MAX_ITEMS
) -> list[Arrival]:
    """The latest items of the feeds that a query reads, with what the query feeds it names have published of them."""
    feeds = scope.find_feeds(definition, joined=True)
    ids = await store.read(list_past_items, since=since, most=most, upto=upto, feed_ids=feeds)
    names = [name.name for name in list_read_feeds(definition)]
    published = await store.read(find_published_items, names) if names else {}
    return [
        Arrival(item, item.first_seen, emitted=published.get(item.id or 0, {}))
        for item in await store.read(find_items, ids)
    ]


def select_window(definition: Query, matched: list[NewHit], now: float) -> list[NewHit]:
    """What of it KEEP keeps, in the order of arrival."""
    emissions = []
    for number, one in enumerate(matched):
        analysed = AnalysedItem(one.hit.item, Origin(None, f"feed:{one.hit.item.feed_id}"), one.arrived)
        emissions.append(Emission(analysed, one.hit.branches, None, one.arrived, number))
    latest = {emission.analysed.item.id: emission for emission in emissions}  # an item that changed counts once
    kept = {emission.sequence for emission in select_items(definition, latest.values(), now)}
    return [one for number, one in enumerate(matched) if number in kept]


def with_version(hit: Hit, version: int) -> Hit:
    """The hit with the version that the store counts; the engine counts what it has met."""
    if hit.original.version == version == hit.item.version:
        return hit
    return replace(
        hit,
        item=msgspec.structs.replace(hit.item, version=version),
        original=msgspec.structs.replace(hit.original, version=version),
    )
