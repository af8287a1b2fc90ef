"""Runs query feeds that do not exist yet over stored items."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from headwater.language.ast import CreateFeed, Query
from headwater.language.normal_form import list_read_feeds, uses_changes, uses_stories
from headwater.model import Item
from headwater.node.queries.backfill import ArrivedVersion, expand_versions, is_stateless
from headwater.query import Engine
from headwater.query.index.narrowing import narrow_query, weighs_words
from headwater.query.item_filter import ItemFilter
from headwater.query.items.analysed_item import LanguageDetector
from headwater.query.items.origin import Origin
from headwater.query.items.required_words import Narrowing
from headwater.query.reader_scope import limit_to_reader
from headwater.query.source_scope import SourceScope, sort_by_dependency
from headwater.query.stories.story_placer import PlacedItem
from headwater.store.content.items import find_earlier_versions, find_items
from headwater.store.content.stories import find_placements
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import count_past_items, find_first_arrival, list_past_items, sum_past_items
from headwater.store.queries.query_feeds import StoredCatalogue, load_catalogue, read_definition
from headwater.store.store import Store
from headwater.times import DAY

FIRST_STEP, LAST_STEP = 64, 1024  # items of the first step of a run and of its longest ones
MAX_ITEMS = 200_000  # items that a preview looks at


@dataclass(frozen=True, slots=True)
class QueryPreview:
    """The result of a preview: the query keeps `kept` of `looked_at` items of its feeds in `days`. `sources` counts
    them by feed, `latest` has the newest. The store has items of `stored_days` of these days. While a preview runs,
    `done` is the share of the items that it has evaluated."""

    name: str
    kept: int
    looked_at: int
    days: float
    sources: dict[str, int]
    latest: tuple[Item, ...]
    stored_days: float
    done: float = 1.0

    @property
    def per_day(self) -> float:
        """Items a day of the time that is stored; less than a day is not extrapolated."""
        return self.kept / max(self.stored_days, 1.0)


async def preview_queries(
    store: Store,
    creates: list[CreateFeed],
    days: float,
    now: float,
    detect: LanguageDetector | None = None,
    latest: int = 10,
    reader_id: int | None = None,
) -> list[QueryPreview]:
    """Run query feeds that do not exist yet over the stored items of some days, as those of a reader or the server."""
    steps = stream_previews(store, creates, days, now, detect, latest, reader_id)
    return [found async for found in steps][-1]


async def stream_previews(
    store: Store,
    creates: list[CreateFeed],
    days: float,
    now: float,
    detect: LanguageDetector | None = None,
    latest: int = 10,
    reader_id: int | None = None,
) -> AsyncIterator[list[QueryPreview]]:
    """Yield the previews of the items evaluated so far, after each step; the last ones are those of all items."""
    run = await start_run(store, creates, now - days * DAY, detect, reader_id)
    looked_at = await _count_offered(store, run, now - days * DAY)
    since = {name: await store.read(find_first_arrival, run.name_feeds(name)) for name in run.wanted}
    while True:
        await run.step(store)
        yield [
            QueryPreview(
                name,
                len(items),
                looked_at[name],
                days,
                dict(Counter(run.label(item) for item in items).most_common()),
                tuple(items[:latest]),
                min(days, (now - (since[name] or now)) / DAY),
                run.done,
            )
            for name in run.wanted
            for items in [run.list_found(name)]
        ]
        if run.done == 1:
            return


async def _count_offered(store: Store, run: PastRun, since: float) -> dict[str, int]:
    """Count the items of the feeds of each query since a time."""
    if all(run.name_feeds(name) is None for name in run.wanted):
        return dict.fromkeys(run.wanted, await store.read(sum_past_items, since=since, feed_ids=None))
    offered = await store.read(count_past_items, since=since, feed_ids=run.feeds)
    return {name: sum(offered.get(feed, 0) for feed in feeds) for name, feeds in run.wanted.items()}


class PastRun:
    """Runs query feeds over stored items, step by step. If they judge each item by itself, the latest come first, and
    the results are right after each step; else items come in the order of arrival."""

    def __init__(self, past: _Past, detect: LanguageDetector | None) -> None:
        queries = [create.query for create in past.needed.values()]
        self.wanted = past.wanted
        self.feeds = past.feeds
        self.latest_first = past.latest_first
        self._ids = past.ids[::-1] if self.latest_first else past.ids
        self._list_rest = past.list_rest
        self._next = 0
        self._size = past.first_step
        self._origins = past.origins
        self._changes, self._stories = any(map(uses_changes, queries)), any(map(uses_stories, queries))
        self._found: dict[str, dict[int, Item]] = {name: {} for name in past.wanted}
        self._filter: ItemFilter | None = None
        if len(queries) == 1 and _only_filters(queries[0]):
            self._filter = ItemFilter(queries[0], past.origins, detect)
            return
        self._engine = Engine(detect)
        for feed, origin in past.origins.items():
            self._engine.set_origin(feed, origin)
        for create in sort_by_dependency(past.needed.values()):
            self._engine.add_query(create)

    @property
    def done(self) -> float:
        """The share of the items that have been evaluated; 0 until all are listed."""
        return 0.0 if self._list_rest is not None else self._next / len(self._ids) if self._ids else 1.0

    @property
    def evaluated(self) -> int:
        """The number of items evaluated so far."""
        return self._next

    @property
    def last_id(self) -> int | None:
        """The id of the item that was evaluated last."""
        return self._ids[self._next - 1] if self._next else None

    async def step(self, store: Store) -> None:
        """Evaluate some more items, in each step twice as many as in the one before."""
        if self._list_rest is not None and self._next:
            more = await store.read(self._list_rest, limit=self._size, before_id=self.last_id)
            self._ids += more[::-1]
            if len(more) < self._size:
                self._list_rest = None
        ids = self._ids[self._next : self._next + self._size]
        for name, item in await self._match_items(store, ids):
            if name in self._found:
                self._found[name][item.id or 0] = item  # a story is published once and then changed
        self._next += len(ids)
        self._size = min(2 * self._size, LAST_STEP)

    async def _match_items(self, store: Store, ids: list[int]) -> list[tuple[str, Item]]:
        if self._filter is not None:
            kept = await store.read(_filter_items, self._filter, ids)
            return [(name, item) for name in self._found for item in kept]
        items = await store.read(find_items, ids)
        placed = await store.read(find_placements, ids) if self._stories else {}
        versions = await store.read(find_earlier_versions, ids) if self._changes else {}
        return await asyncio.to_thread(_match_versions, self._engine, expand_versions(items, versions), placed)

    def name_feeds(self, name: str) -> Collection[int] | None:
        """Return the feeds that a query reads; None stands for all."""
        return None if len(self.wanted[name]) == len(self._origins) else self.wanted[name]

    def list_found(self, name: str) -> list[Item]:
        """List the items found, the latest arrival first."""
        found = self._found[name].values()
        return sorted(found, key=lambda item: -(item.id or 0)) if self.latest_first else list(found)[::-1]

    def label(self, item: Item) -> str:
        return self._origins[item.feed_id].label


class _Past(NamedTuple):
    """The definitions of a run, the feeds of each query and of all, and the stored items that it must look at.
    `latest_first` says that each item is judged by itself. `list_rest` lists the items before the given ones, if `ids`
    are only the latest. The first step has `first_step` items."""

    needed: dict[str, CreateFeed]
    origins: dict[int, Origin]
    wanted: Mapping[str, Collection[int]]
    feeds: set[int]
    ids: list[int]
    latest_first: bool
    list_rest: Callable[..., list[int]] | None
    first_step: int


async def start_run(
    store: Store,
    creates: list[CreateFeed],
    since: float,
    detect: LanguageDetector | None = None,
    reader_id: int | None = None,
    before_id: int | None = None,
    enough: int | None = None,
) -> PastRun:
    """Start a run over the items since a time; with `before_id`, only over items that arrived before that one. If the
    caller stops when it has found `enough` items, the first step has so many, and each step lists its own items."""
    limited = [limit_to_reader(create, reader_id) for create in creates]
    return PastRun(await store.read(_load_past, limited, since, reader_id, before_id, enough), detect)


def _load_past(
    connection: Connection,
    creates: list[CreateFeed],
    since: float,
    reader_id: int | None,
    before_id: int | None,
    enough: int | None,
) -> _Past:
    reads = any(list_read_feeds(create.query) for create in creates)
    needed = collect_definitions(creates, load_catalogue(connection, reader_id) if reads else StoredCatalogue())
    origins = load_item_origins(connection, readers=() if reader_id is None else (reader_id,))
    scope = SourceScope(origins, {key: one.query for key, one in needed.items()})
    wanted = {create.name.name: scope.find_feeds(create.query) for create in creates}
    every = {feed for create in creates for feed in scope.find_feeds(create.query, joined=True)}
    # Readers may see less of the feeds of others than the index has; how far a run is must not tell them its words.
    words = None if reads and reader_id is not None else _narrow(creates, needed)
    seen = None if len(every) == len(origins) or any(weighs_words(one.query) for one in needed.values()) else every
    list_items = partial(list_past_items, since=since, feed_ids=seen, narrowing=words)
    latest_first = all(is_stateless(one.query) and not weighs_words(one.query) for one in needed.values())
    first_step = FIRST_STEP if enough is None else enough
    starts = enough is not None and latest_first
    ids = list_items(connection, limit=first_step if starts else MAX_ITEMS, before_id=before_id)
    rest = list_items if starts and len(ids) == first_step else None
    return _Past(needed, origins, wanted, every, ids, latest_first, rest, first_step)


def _only_filters(query: Query) -> bool:
    """Whether the query judges each item by itself and publishes it as it is."""
    return is_stateless(query) and not query.settings and not weighs_words(query)


def _narrow(creates: list[CreateFeed], needed: dict[str, CreateFeed]) -> Narrowing | None:
    """Return the words by which the index can leave out items; None if a query must see all items of its feeds."""
    made = {create.name.key for create in creates}
    read = {name.key for one in needed.values() for name in list_read_feeds(one.query)}
    for key, one in needed.items():
        passes_all = is_stateless(one.query) and not one.query.settings
        ends_here = key in made and key not in read
        # Stories and words are weighed by all items; the index does not have the words of earlier versions.
        sees_all = one.query.joins or weighs_words(one.query) or uses_stories(one.query) or uses_changes(one.query)
        if sees_all or not (passes_all or ends_here):
            return None
    found = [narrow_query(create.query) for create in creates if create.name.key not in read]
    return found[0] if len(found) == 1 else None


def collect_definitions(creates: list[CreateFeed], catalogue: StoredCatalogue) -> dict[str, CreateFeed]:
    """Return the definitions and the stored ones that they read, directly or through others."""
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
            elif key in catalogue.stored:
                _, text, form = catalogue.stored[key]
                todo.append(limit_to_reader(read_definition(text, form), catalogue.readers.get(key)))
    return found


def _filter_items(connection: Connection, wanted: ItemFilter, ids: list[int]) -> list[Item]:
    return [item for item in find_items(connection, ids) if wanted.keeps(item)]


def _match_versions(
    engine: Engine, arrived: list[ArrivedVersion], placed: Mapping[int, PlacedItem]
) -> list[tuple[str, Item]]:
    found: list[tuple[str, Item]] = []
    for one in arrived:
        known = placed.get(one.item.id or 0)
        story = None if known is None else known.story
        hits = engine.match(one.item, None, one.arrived, story=story, previous=one.previous)
        found += [(hit.query, hit.item) for hit in hits]
    return found
