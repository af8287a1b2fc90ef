"""Fills the window of a new or replaced query feed from stored items, so that its reader sees something at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection

from headwater.language.ast import CreateFeed, FeedName, Query
from headwater.language.normal_form import list_read_feeds, uses_changes, uses_stories
from headwater.model import Item, QueryFeed
from headwater.query import Arrival, Engine, Hit
from headwater.query.index.narrowing import weighs_words
from headwater.query.items.analysed_item import AnalysedItem, LanguageDetector
from headwater.query.items.origin import Origin
from headwater.query.query_document import Emission, select_items
from headwater.query.source_scope import SourceScope, sort_by_dependency
from headwater.store.content.items import EarlierVersion, find_earlier_versions, find_items
from headwater.store.content.outbox import list_outbox_entries
from headwater.store.content.stories import find_placements
from headwater.store.queries import hits, query_feeds, selectivity
from headwater.store.queries.hits import NewHit, find_published_items, list_past_items, merge_story_hits
from headwater.store.store import Store

MAX_ITEMS = 10_000  # the latest items of the query's feeds that are matched
MIN_ITEMS = 200  # even if very many queries are filled together
MAX_PAIRS = 1_000_000  # items × queries that are matched if many are filled together
FEW = 2  # at most so many queries are filled one by one, each with MAX_ITEMS
BATCH = 200


@dataclass(frozen=True, slots=True)
class Backfill:
    """The results of a query among stored items."""

    window: list[NewHit]
    published: dict[int, Item]  # all results as the query publishes them, by the item's id
    kept: dict[int, tuple[int, int]]  # by feed with results: how many, and of how many items
    offered: Mapping[int, int]  # how many items of each feed were matched with the query


async def backfill_query(
    store: Store,
    engine: Engine,
    query: QueryFeed,
    definition: Query,
    scope: SourceScope,
    now: float,
    published: Mapping[str, Mapping[int, Item]],
) -> Backfill:
    """Match stored items with a query that was added to the engine. `published` has, by name, the items of query feeds
    that are filled with it and not stored yet."""
    past = await load_arrivals(store, definition, scope, upto=query.position, published=published)
    found = await asyncio.to_thread(engine.backfill, query.name, past)
    matched = merge_story_hits(NewHit(query.id, hit, arrival.arrived or hit.item.first_seen) for arrival, hit in found)
    feeds = scope.find_feeds(definition, joined=True)
    offered = Counter(arrival.item.feed_id for arrival in past if arrival.item.feed_id in feeds)
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
    """Match stored items with several queries, in the order in which they read each other: many plain ones in one pass,
    the others one by one."""
    many = [(query, definition) for query, definition in group if is_plain(definition, names)]
    filled = {}
    if len(many) > FEW:
        batch = await asyncio.to_thread(BackfillBatch, many, origins, engine.detect)
        filled = await batch.backfill(store, scope, now, len(many))
        engine.adopt_word_counts(batch.engine)
    found: list[tuple[QueryFeed, Backfill]] = []
    published: dict[str, Mapping[int, Item]] = {}
    for query, definition in _sort_by_dependency(group):
        backfill = filled.get(query.id) or await backfill_query(store, engine, query, definition, scope, now, published)
        found.append((query, backfill))
        published[query.name] = backfill.published
    return found


def _sort_by_dependency(group: Sequence[tuple[QueryFeed, Query]]) -> list[tuple[QueryFeed, Query]]:
    by_name = {query.name: (query, definition) for query, definition in group}
    creates = [CreateFeed(FeedName(name), definition) for name, (_, definition) in by_name.items()]
    return [by_name[create.name.name] for create in sort_by_dependency(creates)]


def write_backfills(connection: Connection, backfills: Sequence[tuple[QueryFeed, Backfill]]) -> set[int]:
    """Write windows and selectivities and activate the definitions, in one transaction. Return the ids of the query
    feeds that were not replaced or dropped meanwhile."""
    running = query_feeds.activate_definitions(connection, [query for query, _ in backfills])
    done = {query.id: backfill for query, backfill in backfills if query.id in running}
    for offered in {id(one.offered): one.offered for one in done.values()}.values():  # many share one
        selectivity.raise_offered_counts(connection, offered)
    selectivity.set_selectivity(connection, {query: backfill.kept for query, backfill in done.items()})
    # A query feed without a running definition has no hits, or was restored with hits of this definition.
    replaced = [query.id for query, _ in backfills if query.id in running and query.active is not None]
    hits.replace_windows(connection, {query: backfill.window for query, backfill in done.items()}, replaced)
    return running


class BackfillBatch:
    """Many plain queries of one position of the outbox, on an engine of their own.

    They are filled in one pass over stored items, over fewer items the more queries there are, and then matched with
    the entries since their position.
    """

    def __init__(
        self, group: Sequence[tuple[QueryFeed, Query]], origins: Mapping[int, Origin], detect: LanguageDetector | None
    ) -> None:
        self._group = group
        self._position = group[0][0].position
        self.engine = Engine(detect)
        self._ids: dict[str, int] = {}
        for feed, origin in origins.items():
            self.engine.set_origin(feed, origin)
        for query, definition in group:
            # A reader's query runs with limits, so not as its text says.
            text = query.text if query.reader_id is None else ""
            self.engine.add_query(CreateFeed(FeedName(query.name), definition, text=text))
            self._ids[query.name] = query.id

    async def backfill(self, store: Store, scope: SourceScope, now: float, many: int) -> dict[int, Backfill]:
        """Match stored items; return the result by the id of the query feed. `many` counts all waiting queries."""
        feeds = set().union(*(scope.find_feeds(definition) for _, definition in self._group))
        weighing = any(weighs_words(definition) for _, definition in self._group)
        most = min(max(MAX_PAIRS // many, MIN_ITEMS), MAX_ITEMS)
        wanted = None if weighing else feeds
        past = await store.read(list_past_items, limit=most, upto=self._position, feed_ids=wanted)
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
        """Match the entries between their position and `upto`, which were matched without these queries. An item that
        was in the first pass and has changed since is known to the engine already, and not delivered."""
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
            for hit in self.engine.match(item, None, item.first_seen)
        ]


def is_plain(definition: Query, known: Collection[str]) -> bool:
    """Whether the query remembers nothing and reads no other query feed (`known` are their folded names)."""
    return is_stateless(definition) and not any(read.key in known for read in list_read_feeds(definition))


def is_stateless(definition: Query) -> bool:
    """Whether the query needs nothing but the item: it has neither joins nor DISTINCT, and asks for neither stories
    nor changes."""
    remembers = bool(definition.joins) or definition.distinct is not None
    return not remembers and not uses_stories(definition) and not uses_changes(definition)


def _make_backfill(definition: Query, matched: list[NewHit], offered: Mapping[int, int], now: float) -> Backfill:
    kept = Counter(one.hit.original.feed_id for one in matched if not one.hit.update)
    of_each = {feed: (number, offered[feed]) for feed, number in kept.items()}
    published = {one.hit.item.id or 0: one.hit.item for one in matched}
    return Backfill(select_window(definition, matched, now), published, of_each, offered)


async def load_arrivals(
    store: Store,
    definition: Query,
    scope: SourceScope,
    *,
    upto: int,
    published: Mapping[str, Mapping[int, Item]] | None = None,
) -> list[Arrival]:
    """Load the latest items of the feeds that a query reads, with their publications in query feeds that it reads.
    `published` has, by name, those of query feeds that are not stored yet."""
    feeds = scope.find_feeds(definition, joined=True)
    ids = await store.read(list_past_items, limit=MAX_ITEMS, upto=upto, feed_ids=feeds)
    if weighs_words(definition):  # by the items of all feeds, as new items do
        ids = sorted({*ids, *await store.read(list_past_items, limit=MAX_ITEMS, upto=upto)})
    read = {name.key for name in list_read_feeds(definition)}
    unstored = {name: items for name, items in (published or {}).items() if name.casefold() in read}
    stored = await store.read(find_published_items, read - {name.casefold() for name in unstored})
    placed = await store.read(find_placements, ids) if uses_stories(definition) else {}
    versions = await store.read(find_earlier_versions, ids) if uses_changes(definition) else {}
    return [
        Arrival(
            version.item,
            version.arrived,
            emitted=_collect_publications(version.item.id or 0, stored, unstored),
            story=placed[version.item.id].story if version.item.id in placed else None,
            previous=version.previous,
        )
        for version in expand_versions(await store.read(find_items, ids), versions)
    ]


@dataclass(frozen=True, slots=True)
class ArrivedVersion:
    """A version of an item, its arrival, and the version before it."""

    item: Item
    arrived: float
    previous: Item | None


def expand_versions(items: Sequence[Item], versions: Mapping[int, Sequence[EarlierVersion]]) -> list[ArrivedVersion]:
    """Return the versions of items in the order of arrival: the earlier ones that are given, and the present one."""
    found: list[ArrivedVersion] = []
    for item in items:
        arrived, previous = item.first_seen, None
        for earlier in versions.get(item.id or 0, ()):
            found.append(ArrivedVersion(earlier.item, arrived, previous))
            arrived, previous = earlier.until, earlier.item
        found.append(ArrivedVersion(item, arrived, previous))
    return sorted(found, key=lambda version: version.arrived) if versions else found


def _collect_publications(
    item: int, stored: Mapping[int, Mapping[str, Item]], unstored: Mapping[str, Mapping[int, Item]]
) -> Mapping[str, Item]:
    fresh = {name: items[item] for name, items in unstored.items() if item in items}
    return {**stored.get(item, {}), **fresh}


def select_window(definition: Query, matched: list[NewHit], now: float) -> list[NewHit]:
    """Return the hits that KEEP keeps, in order of arrival."""
    emissions = []
    for number, one in enumerate(matched):
        analysed = AnalysedItem(one.hit.item, Origin(None, f"feed:{one.hit.item.feed_id}"), one.arrived)
        emissions.append(Emission(analysed, one.hit.branches, None, one.arrived, number))
    latest = {emission.analysed.item.id: emission for emission in emissions}  # an item that changed counts once
    kept = {emission.sequence for emission in select_items(definition, latest.values(), now)}
    return [one for number, one in enumerate(matched) if number in kept]


def with_version(hit: Hit, version: int) -> Hit:
    """Return the hit with the stored version of the item; the engine counts only versions that it has met."""
    if hit.origin is not None or hit.original.version == version == hit.item.version:
        return hit  # the first item of a story is not the one that has arrived
    return replace(
        hit,
        item=msgspec.structs.replace(hit.item, version=version),
        original=msgspec.structs.replace(hit.original, version=version),
    )
