"""Runs query feeds that do not exist yet over stored items."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection

from headwater.language.ast import AllSources, CreateFeed, Query
from headwater.language.normal_form import list_read_feeds, list_sources, uses_changes, uses_stories
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
from headwater.store.content.feeds import count_feeds
from headwater.store.content.items import find_earlier_versions, find_items
from headwater.store.content.search import list_narrowed_items
from headwater.store.content.stories import find_placements
from headwater.store.queries.document_hits import list_feeds_of_all, load_item_origins
from headwater.store.queries.hits import (
    count_past_items,
    find_first_arrival,
    find_first_id,
    list_past_items,
    sum_past_items,
)
from headwater.store.queries.query_feeds import StoredCatalogue, load_catalogue, read_definition
from headwater.store.store import Store
from headwater.times import DAY

FIRST_STEP, LAST_STEP = 64, 1024  # items of the first step of a run and of its longest ones
LEAST_STEP = 16  # items of a step that needs few more
MAX_ITEMS = 200_000  # items that a preview looks at
FindItems = Callable[[Connection, list[int]], list[Item]]


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
    run = await start_run(store, creates, now - days * DAY, detect, reader_id, shown=latest)
    looked_at = await _count_offered(store, run, now - days * DAY)
    since = {name: await store.read(find_first_arrival, run.name_feeds(name)) for name in run.wanted}
    while True:
        await run.step(store)
        yield [
            QueryPreview(
                name,
                run.count_found(name),
                looked_at[name],
                days,
                run.count_by_label(name),
                tuple(run.list_found(name, latest)),
                min(days, (now - (since[name] or now)) / DAY),
                run.done,
            )
            for name in run.wanted
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

    def __init__(self, past: _Past, detect: LanguageDetector | None, find: FindItems) -> None:
        queries = [create.query for create in past.needed.values()]
        self.wanted = past.wanted
        self.feeds = past.feeds
        self.latest_first = past.latest_first
        self._past = past
        self._ids = past.ids[::-1] if self.latest_first else past.ids
        self._rest_follows = past.list_rest is not None
        self._next = 0
        self._size = past.first_step
        self._origins = past.origins
        self._find = find
        self._changes, self._stories = any(map(uses_changes, queries)), any(map(uses_stories, queries))
        self._found: dict[str, dict[int, Item]] = {name: {} for name in past.wanted}
        self._counts: dict[str, Counter[int]] = {name: Counter() for name in past.wanted}  # by feed
        self._filter: ItemFilter | None = None
        if past.filters:
            self._filter = ItemFilter(queries[0], past.origins, detect)
            return
        self._engine = Engine(detect)
        for feed, origin in past.origins.items():
            self._engine.set_origin(feed, origin)
        for create in sort_by_dependency(past.needed.values()):
            self._engine.add_query(create)

    @property
    def done(self) -> float:
        """The share of the items that have been evaluated, by their ids if not all are listed."""
        if not self._rest_follows:
            return self._next / len(self._ids) if self._ids else 1.0
        oldest, newest = self._past.id_range
        return (newest - self._ids[self._next - 1]) / (newest - oldest + 1) if self._next else 0.0

    @property
    def evaluated(self) -> int:
        """The number of items evaluated so far."""
        return self._next

    @property
    def last_id(self) -> int | None:
        """The id of the item that was evaluated last."""
        return self._ids[self._next - 1] if self._next else None

    @property
    def filters(self) -> bool:
        """Whether `filter_more` runs this query: it judges each item by itself and publishes it as it is."""
        return self._filter is not None

    async def step(self, store: Store) -> None:
        """Evaluate some more items, in each step twice as many as in the one before."""
        if self.filters:
            await store.read(self.filter_more)
            return
        ids = await store.read(self._take_ids)
        items = await store.read(find_items, ids)
        placed = await store.read(find_placements, ids) if self._stories else {}
        versions = await store.read(find_earlier_versions, ids) if self._changes else {}
        found = await asyncio.to_thread(_match_versions, self._engine, expand_versions(items, versions), placed)
        self._end_step(found, len(ids))

    def filter_more(self, connection: Connection) -> None:
        """Evaluate some more items, as `step` does, of a query that only filters."""
        assert self._filter is not None
        ids = self._take_ids(connection)
        items = self._find(connection, ids)
        if new := {item.feed_id for item in items} - self._origins.keys():
            self._origins |= load_item_origins(connection, new, self._past.readers)
        (name,) = self._found
        self._end_step([(name, item) for item in items if self._filter.keeps(item)], len(ids))

    def _take_ids(self, connection: Connection) -> list[int]:
        if self._rest_follows and self._next and self._past.list_rest is not None:
            more = self._past.list_rest(connection, limit=self._size, before_id=self.last_id)
            self._ids += more[::-1]
            self._rest_follows = len(more) == self._size and len(self._ids) < MAX_ITEMS
        return self._ids[self._next : self._next + self._size]

    def _end_step(self, found: list[tuple[str, Item]], evaluated: int) -> None:
        if self.latest_first:
            found.sort(key=lambda one: -(one[1].id or 0))
        for name, item in found:
            if name not in self._found:
                continue
            known, id = self._found[name], item.id or 0
            self._counts[name][item.feed_id] += id not in known
            if not self.latest_first or len(known) < self._past.shown:
                known[id] = item  # a story is published once and then changed
        self._next += evaluated
        self._size = min(2 * self._size, LAST_STEP)
        if self._past.enough is not None and (kept := sum(map(self.count_found, self.wanted))):
            missing = (self._past.enough - kept) * self._next // kept  # at the rate of the items so far
            self._size = min(self._size, max(LEAST_STEP, 2 * missing))

    def name_feeds(self, name: str) -> Collection[int] | None:
        """Return the feeds that a query reads; None stands for all."""
        return None if len(self.wanted[name]) == self._past.all_feeds else self.wanted[name]

    def list_found(self, name: str, most: int | None = None) -> list[Item]:
        """List the items found, or the latest of them; the latest arrival first."""
        found = self._found[name].values()
        return list(islice(found if self.latest_first else reversed(found), most))

    def count_found(self, name: str) -> int:
        return self._counts[name].total()

    def count_by_label(self, name: str) -> dict[str, int]:
        """Count the items found of each feed, by its label; the most first."""
        found: Counter[str] = Counter()
        for feed, count in self._counts[name].items():
            found[self._origins[feed].label] += count
        return dict(found.most_common())


class _Past(NamedTuple):
    """The definitions of a run, the feeds of each query and of all, and the stored items that it must look at.
    `filters` says that it is one query that judges each item by itself and publishes it as it is, and `latest_first`
    that all judge each item by itself: then `list_rest` lists the items before the given ones, and `shown` items of
    each are kept. `origins` of a filter has what its items need. All ids are within `id_range`. A caller stops when
    `enough` items are found."""

    needed: dict[str, CreateFeed]
    origins: dict[int, Origin]
    readers: tuple[int, ...]
    wanted: Mapping[str, Collection[int]]
    feeds: set[int]
    all_feeds: int
    ids: list[int]
    id_range: tuple[int, int]
    filters: bool
    latest_first: bool
    list_rest: Callable[..., list[int]] | None
    first_step: int
    shown: int
    enough: int | None


async def start_run(
    store: Store,
    creates: list[CreateFeed],
    since: float,
    detect: LanguageDetector | None = None,
    reader_id: int | None = None,
    shown: int = MAX_ITEMS,
) -> PastRun:
    """Start a run over the items since a time. It counts all that it finds and keeps the latest `shown`."""
    return await store.read(open_run, creates, since, detect, reader_id, shown=shown)


def open_run(
    connection: Connection,
    creates: list[CreateFeed],
    since: float,
    detect: LanguageDetector | None = None,
    reader_id: int | None = None,
    before_id: int | None = None,
    enough: int | None = None,
    shown: int = MAX_ITEMS,
    find: FindItems = find_items,
) -> PastRun:
    """Start a run over the items since a time; with `before_id`, only over items that arrived before that one. If the
    caller stops when it has found `enough` items, the steps have as many as these seem to need. It counts all that it
    finds and keeps the latest `shown`. A query that only filters gets its items from `find`."""
    return PastRun(_load_past(connection, creates, since, reader_id, before_id, enough, shown), detect, find)


def _load_past(
    connection: Connection,
    creates: list[CreateFeed],
    since: float,
    reader_id: int | None,
    before_id: int | None,
    enough: int | None,
    shown: int,
) -> _Past:
    limited = [limit_to_reader(create, reader_id) for create in creates]
    reads = any(list_read_feeds(create.query) for create in creates)
    needed = collect_definitions(limited, load_catalogue(connection, reader_id) if reads else StoredCatalogue())
    filters = len(needed) == 1 and _only_filters(creates[0].query)
    readers = () if reader_id is None else (reader_id,)
    origins: dict[int, Origin] = {}
    wanted: dict[str, set[int]]
    if filters and all(isinstance(one.source, AllSources) for one in list_sources(creates[0].query)):
        every = list_feeds_of_all(connection, reader_id)  # the items that it looks at tell whose names it needs
        wanted, all_feeds = {creates[0].name.name: every}, count_feeds(connection)
    else:
        origins = load_item_origins(connection, readers=readers)
        scope = SourceScope(origins, {key: one.query for key, one in needed.items()})
        wanted = {create.name.name: scope.find_feeds(create.query) for create in limited}
        every = {feed for create in limited for feed in scope.find_feeds(create.query, joined=True)}
        all_feeds = len(origins)
    seen = None if len(every) == all_feeds or any(weighs_words(one.query) for one in needed.values()) else every
    # Readers may see less of the feeds of others than the index has; how far a run is must not tell them its words.
    words = None if reads and reader_id is not None else _narrow(limited, needed)
    list_items: Callable[..., list[int]] = partial(list_past_items, since=since, feed_ids=seen)
    if words is not None:
        list_items = partial(list_narrowed_items, narrowing=words, since=since, feed_ids=seen)
    latest_first = all(is_stateless(one.query) and not weighs_words(one.query) for one in needed.values())
    step = enough or FIRST_STEP
    ids = list_items(connection, limit=step if latest_first else MAX_ITEMS, before_id=before_id)
    rest = list_items if latest_first and len(ids) == step else None
    ends = (
        (find_first_id(connection, since), ids[-1])
        if rest is not None and enough is None
        else (0, ids[-1] if ids else 0)
    )
    return _Past(
        needed, origins, readers, wanted, every, all_feeds, ids, ends, filters, latest_first, rest, step, shown, enough
    )


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
