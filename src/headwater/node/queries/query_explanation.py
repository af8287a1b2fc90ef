"""Why a query feed is as it is, and what a query would have made of the past: for the command line and the pages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.language.ast import CreateFeed
from headwater.language.normal_form import list_read_feeds
from headwater.model import Item, QueryFeed
from headwater.node.crawl.crawl_status import TargetOutcome
from headwater.node.quality import targets
from headwater.node.queries.demand import DemandModel, load_reader_weights
from headwater.query import Engine
from headwater.query.index.access_path import AccessExplanation, count_feature_shares, explain_access
from headwater.query.items.analysed_item import AnalysedItem, LanguageDetector
from headwater.query.items.origin import Origin
from headwater.query.source_scope import SourceScope, sort_by_dependency
from headwater.settings import Settings
from headwater.store.content.items import find_items
from headwater.store.content.outbox import find_last_position
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import QueryStatistics, compute_query_statistics, count_feed_activity, list_past_items
from headwater.store.queries.query_feeds import (
    find_dependents,
    find_query_feed,
    list_all_query_feeds,
    load_catalogue,
    read_definition,
)
from headwater.store.queries.selectivity import list_selectivity, load_offered_counts
from headwater.store.store import Store

DAY = 86_400.0
WEEK_DAYS = 7.0
WORD_SAMPLE = 500  # items on which the commonness of words is counted
CHUNK = 500
MAX_ITEMS = 200_000  # items that a preview looks at


@dataclass(frozen=True, slots=True)
class SourceShare:
    """A feed that a query reads: what the query keeps of it, and what that is to the scheduler.

    `weight` is the feed's whole weight, `due_to_query` the part of it that this query gives; `refreshes_per_day` is
    what the feed costs, `items_per_day` what it brings, `wanted_per_day` what of that the query keeps.
    """

    feed_id: int
    name: str
    url: str
    kept: int
    offered: int
    selectivity: float
    items_per_day: float
    wanted_per_day: float
    refreshes_per_day: float
    weight: float
    due_to_query: float


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    query: QueryFeed
    statistics: QueryStatistics
    reads: tuple[str, ...]  # query feeds below it
    read_by: tuple[str, ...]
    sources: tuple[SourceShare, ...]
    ways: tuple[AccessExplanation, ...]
    expected_per_day: float
    refreshes_per_day: float
    share_of_weight: float  # of the weight of its feeds, what is due to this query
    asks: bool  # whether it has a TARGET
    target: TargetOutcome | None  # what the server last found of it


async def load_scope(store: Store) -> tuple[SourceScope, dict[int, CreateFeed], dict[int, Origin]]:
    """The feeds and definitions as they are stored."""
    origins = await store.read(load_item_origins)
    definitions = {
        query.id: read_definition(query.text, query.form) for query in await store.read(list_all_query_feeds)
    }
    return SourceScope(origins, {one.name.key: one.query for one in definitions.values()}), definitions, origins


async def explain_query(store: Store, settings: Settings, name: str, now: float) -> QueryExplanation:
    query = await store.read(find_query_feed, name)
    scope, definitions, origins = await load_scope(store)
    wanting = DemandModel(definitions, scope, await store.read(list_selectivity), await store.read(load_offered_counts))
    aims = await targets.load_outcomes(store)
    times = {id: aims[create.name.name].times for id, create in definitions.items() if create.name.name in aims}
    target = aims.get(query.name) if definitions[query.id].query.target is not None else None
    wants = wanting.compute_demand(await load_reader_weights(store, settings.only_wanted_by_queries), times)
    kept = {source.feed_id: source for source in await store.read(list_selectivity, query.id)}
    offers = await store.read(load_offered_counts)
    feeds = sorted(wanting.list_feeds(query.id))
    activity = await store.read(count_feed_activity, now - WEEK_DAYS * DAY)
    below = tuple(
        read.name
        for read in list_read_feeds(definitions[query.id].query)
        if any(d.name.key == read.key for d in definitions.values())
    )
    sources = []
    for feed in feeds:
        share = wanting.estimate_selectivity(query.id, feed)
        refreshes, items = activity.get(feed, (0, 0))
        known = kept.get(feed)
        want = wants[feed]
        sources.append(
            SourceShare(
                feed_id=feed,
                name=origins[feed].label,
                url=origins[feed].url,
                kept=known.kept if known else 0,
                offered=known.offered if known else offers.get(feed, 0),
                selectivity=share,
                items_per_day=items / WEEK_DAYS,
                wanted_per_day=share * items / WEEK_DAYS,
                refreshes_per_day=refreshes / WEEK_DAYS,
                weight=want.weight * want.selectivity,
                due_to_query=query.importance * share * times.get(query.id, 1.0),
            )
        )
    weight = sum(source.weight for source in sources)
    return QueryExplanation(
        query=query,
        statistics=await store.read(compute_query_statistics, query.id, now),
        reads=below,
        read_by=tuple(other.name for other in await store.read(find_dependents, [query.name])),
        sources=tuple(sources),
        ways=tuple(await _find_access_paths(store, definitions[query.id], feeds, origins)),
        expected_per_day=sum(source.wanted_per_day for source in sources),
        refreshes_per_day=sum(source.refreshes_per_day for source in sources),
        share_of_weight=min(sum(source.due_to_query for source in sources) / weight, 1.0) if weight else 0.0,
        asks=definitions[query.id].query.target is not None,
        target=target,
    )


async def _find_access_paths(
    store: Store, create: CreateFeed, feeds: list[int], origins: Mapping[int, Origin]
) -> list[AccessExplanation]:
    ids = await store.read(list_past_items, most=WORD_SAMPLE, upto=await store.read(find_last_position), feed_ids=feeds)
    items = await store.read(find_items, ids)
    return explain_access(
        create.query, count_feature_shares(AnalysedItem(item, origins[item.feed_id]) for item in items)
    )


# preview


@dataclass(frozen=True, slots=True)
class QueryPreview:
    """What a query would have returned: `kept` of `looked_at` items of its feeds in `days`; `latest` of them, and by
    feed how many."""

    name: str
    kept: int
    looked_at: int
    days: float
    sources: dict[str, int]
    latest: tuple[Item, ...]

    @property
    def per_day(self) -> float:
        return self.kept / self.days


async def preview_queries(
    store: Store,
    creates: list[CreateFeed],
    days: float,
    now: float,
    detect: LanguageDetector | None = None,
    latest: int = 10,
) -> list[QueryPreview]:
    """Run query feeds that do not exist (yet) over the stored past."""
    needed = _collect_definitions(creates, (await store.read(load_catalogue)).stored)
    origins = await store.read(load_item_origins)
    scope = SourceScope(origins, {key: one.query for key, one in needed.items()})
    engine = Engine(detect)
    for feed, origin in origins.items():
        engine.set_origin(feed, origin)
    for create in sort_by_dependency(needed.values()):
        engine.add_query(create)
    wanted = {create.name.name: scope.find_feeds(create.query) for create in creates}
    every = {feed for create in creates for feed in scope.find_feeds(create.query, joined=True)}
    upto = await store.read(find_last_position)
    ids = await store.read(list_past_items, since=now - days * DAY, most=MAX_ITEMS, upto=upto, feed_ids=every)
    found: dict[str, list[Item]] = {name: [] for name in wanted}
    offered: Counter[int] = Counter()
    for start in range(0, len(ids), CHUNK):
        items = await store.read(find_items, ids[start : start + CHUNK])
        offered.update(item.feed_id for item in items)
        for name, item in await asyncio.to_thread(_match_items, engine, items):
            if name in found:
                found[name].append(item)
    return [
        QueryPreview(
            name,
            len(items),
            sum(offered[feed] for feed in wanted[name]),
            days,
            dict(Counter(origins[item.feed_id].label for item in items).most_common()),
            tuple(reversed(items[-latest:])) if latest else (),
        )
        for name, items in found.items()
    ]


def _collect_definitions(
    creates: list[CreateFeed], stored: Mapping[str, tuple[str, str, bytes | None]]
) -> dict[str, CreateFeed]:
    """The definitions and those they read, directly or through others: of 100,000 that are stored, a few."""
    made = {create.name.key: create for create in creates}
    todo, found = list(made.values()), {}
    while todo:
        create = todo.pop()
        if create.name.key in found:
            continue
        found[create.name.key] = create
        for key in (read.key for read in list_read_feeds(create.query)):
            if key in made:
                todo.append(made[key])
            elif key in stored:
                _, text, form = stored[key]
                todo.append(read_definition(text, form))
    return found


def _match_items(engine: Engine, items: list[Item]) -> list[tuple[str, Item]]:
    return [(hit.query, hit.item) for item in items for hit in engine.match(item, None, item.first_seen)]
