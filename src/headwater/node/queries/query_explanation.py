"""Explains where the items of a query feed come from and what they cost, for the command line and the pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.language.ast import CreateFeed
from headwater.language.normal_form import list_read_feeds
from headwater.model import QueryFeed
from headwater.node.crawl.crawl_status import TargetOutcome
from headwater.node.quality import targets
from headwater.node.quality.promises import PromiseReport, find_promise, measure_query
from headwater.node.queries.demand import Demand, DemandModel, load_demand_model, load_own_weights
from headwater.query.index.access_path import AccessExplanation, count_feature_shares, explain_access
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.source_scope import SourceScope
from headwater.settings import Settings
from headwater.store.content.items import find_items
from headwater.store.content.outbox import find_last_position
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import (
    QueryStatistics,
    compute_query_statistics,
    count_feed_activity,
    find_first_arrival,
    list_past_items,
)
from headwater.store.queries.query_feeds import (
    find_dependents,
    find_query_feed,
    list_all_query_feeds,
    read_query,
)
from headwater.store.queries.selectivity import list_selectivity, load_offered_counts
from headwater.store.store import Store
from headwater.times import DAY

WEEK_DAYS = 7.0
WORD_SAMPLE = 500  # items on which the commonness of words is counted


@dataclass(frozen=True, slots=True)
class SourceShare:
    """A feed that a query reads, with the items that the query keeps and the weight that it gives the feed.

    `weight` is the feed's whole weight, `due_to_query` the part that this query gives. Of `items_per_day` the query
    keeps `wanted_per_day`; `refreshes_per_day` is the cost of the feed.
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
    """The sources of a query feed, their cost, and the outcome of its TARGET."""

    query: QueryFeed
    statistics: QueryStatistics
    reads: tuple[str, ...]  # query feeds below it
    read_by: tuple[str, ...]
    sources: tuple[SourceShare, ...]
    ways: tuple[AccessExplanation, ...]
    stored_days: float  # how far back its feeds have items, at most a week; less than a day is not extrapolated
    expected_per_day: float
    refreshes_per_day: float
    share_of_weight: float  # the part of its feeds' weight that this query gives
    asks: bool  # whether it has a TARGET
    target: TargetOutcome | None  # the latest outcome that the server computed
    promise: PromiseReport | None  # its quality as measured; with a TARGET also as promised, None before a record


async def load_scope(store: Store) -> tuple[SourceScope, dict[int, CreateFeed], dict[int, Origin]]:
    """Load the stored feeds and definitions."""
    origins = await store.read(load_item_origins)
    definitions = {query.id: read_query(query) for query in await store.read(list_all_query_feeds)}
    return SourceScope(origins, {one.name.key: one.query for one in definitions.values()}), definitions, origins


class SavedDemand(NamedTuple):
    """The demand for every feed as the server computes it, and what it is computed from."""

    definitions: dict[int, CreateFeed]
    origins: dict[int, Origin]
    aims: Mapping[str, TargetOutcome]
    model: DemandModel
    by_feed: dict[int, Demand]

    @property
    def times(self) -> dict[int, float]:
        """Return by how much the TARGET of each query multiplies its importance."""
        named = {id: create.name.name for id, create in self.definitions.items()}
        return {id: self.aims[name].times for id, name in named.items() if name in self.aims}


async def load_demand(store: Store, settings: Settings, now: float) -> SavedDemand:
    """Compute the demand of queries and readers from the store, as the running server does."""
    scope, definitions, origins = await load_scope(store)
    model = await load_demand_model(store, settings, definitions, scope, now)
    own = await load_own_weights(store, settings.only_wanted_by_queries)
    saved = SavedDemand(definitions, origins, await targets.load_outcomes(store), model, {})
    by_feed = await asyncio.to_thread(model.compute_demand, own, saved.times)
    return saved._replace(by_feed=by_feed)


async def explain_query(store: Store, settings: Settings, name: str, now: float) -> QueryExplanation:
    """Explain a query feed from the store."""
    query = await store.read(find_query_feed, name)
    saved = await load_demand(store, settings, now)
    definitions, origins, aims, model, demand = saved
    times = saved.times
    asks = definitions[query.id].query.target is not None
    target = aims.get(query.name) if asks else None
    kept = {source.feed_id: source for source in await store.read(list_selectivity, query.id)}
    offers = await store.read(load_offered_counts)
    feeds = sorted(model.list_feeds(query.id))
    first = await store.read(find_first_arrival, feeds)
    stored_days = WEEK_DAYS if first is None else min(max((now - first) / DAY, 0.0), WEEK_DAYS)
    days = max(stored_days, 1.0)
    activity = await store.read(count_feed_activity, now - WEEK_DAYS * DAY)
    below = tuple(
        read.name
        for read in list_read_feeds(definitions[query.id].query)
        if any(d.name.key == read.key for d in definitions.values())
    )
    sources = []
    for feed in feeds:
        share = model.estimate_selectivity(query.id, feed)
        refreshes, items = activity.get(feed, (0, 0))
        known = kept.get(feed)
        wanted = demand[feed]
        sources.append(
            SourceShare(
                feed_id=feed,
                name=origins[feed].label,
                url=origins[feed].url,
                kept=known.kept if known else 0,
                offered=known.offered if known else offers.get(feed, 0),
                selectivity=share,
                items_per_day=items / days,
                wanted_per_day=share * items / days,
                refreshes_per_day=refreshes / days,
                weight=wanted.weight * wanted.selectivity,
                due_to_query=query.importance * share * times.get(query.id, 1.0),
            )
        )
    weight = sum(source.weight for source in sources)
    if asks:
        promise = await find_promise(store, query.name, now)
    else:
        promise = await measure_query(store, query, model, now)
    return QueryExplanation(
        query=query,
        statistics=await store.read(compute_query_statistics, query.id, now),
        reads=below,
        read_by=tuple(other.name for other in await store.read(find_dependents, [query.name])),
        sources=tuple(sources),
        ways=tuple(await _find_access_paths(store, definitions[query.id], feeds, origins)),
        stored_days=stored_days,
        expected_per_day=sum(source.wanted_per_day for source in sources),
        refreshes_per_day=sum(source.refreshes_per_day for source in sources),
        share_of_weight=min(sum(source.due_to_query for source in sources) / weight, 1.0) if weight else 0.0,
        asks=asks,
        target=target,
        promise=promise,
    )


async def _find_access_paths(
    store: Store, create: CreateFeed, feeds: list[int], origins: Mapping[int, Origin]
) -> list[AccessExplanation]:
    ids = await store.read(
        list_past_items, limit=WORD_SAMPLE, upto=await store.read(find_last_position), feed_ids=feeds
    )
    items = await store.read(find_items, ids)
    return explain_access(
        create.query, count_feature_shares(AnalysedItem(item, origins[item.feed_id]) for item in items)
    )
