"""Runs query feeds that do not exist yet over stored items."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.language.ast import CreateFeed
from headwater.language.normal_form import list_read_feeds, uses_changes, uses_stories
from headwater.model import Item
from headwater.node.queries.backfill import ArrivedVersion, expand_versions
from headwater.query import Engine
from headwater.query.items.analysed_item import LanguageDetector
from headwater.query.reader_scope import limit_to_reader
from headwater.query.source_scope import SourceScope, sort_by_dependency
from headwater.query.stories.story_placer import PlacedItem
from headwater.store.content.earlier_versions import find_earlier_versions
from headwater.store.content.items import find_items
from headwater.store.content.outbox import find_last_position
from headwater.store.content.stories import find_placements
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import list_past_items
from headwater.store.queries.query_feeds import StoredCatalogue, load_catalogue, read_definition
from headwater.store.store import Store
from headwater.times import DAY

CHUNK = 500
MAX_ITEMS = 200_000  # items that a preview looks at


@dataclass(frozen=True, slots=True)
class QueryPreview:
    """The result of a preview: the query keeps `kept` of `looked_at` items of its feeds in `days`. `sources` counts
    them by feed, `latest` has the newest."""

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
    reader_id: int | None = None,
) -> list[QueryPreview]:
    """Run query feeds that do not exist yet over the stored items of some days, as those of a reader or the server."""
    creates = [limit_to_reader(create, reader_id) for create in creates]
    needed = _collect_definitions(creates, await store.read(load_catalogue, reader_id))
    origins = await store.read(load_item_origins, readers=() if reader_id is None else (reader_id,))
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
    found: dict[str, dict[int, Item]] = {name: {} for name in wanted}
    changes = any(uses_changes(create.query) for create in needed.values())
    stories = any(uses_stories(create.query) for create in needed.values())
    offered: Counter[int] = Counter()
    for start in range(0, len(ids), CHUNK):
        items = await store.read(find_items, ids[start : start + CHUNK])
        offered.update(item.feed_id for item in items)
        placed = await store.read(find_placements, ids[start : start + CHUNK]) if stories else {}
        versions = await store.read(find_earlier_versions, ids[start : start + CHUNK]) if changes else {}
        arrived = expand_versions(items, versions)
        for name, item in await asyncio.to_thread(_match_versions, engine, arrived, placed):
            if name in found:
                found[name][item.id or 0] = item  # a story is published once and then changed
    return [
        QueryPreview(
            name,
            len(items),
            sum(offered[feed] for feed in wanted[name]),
            days,
            dict(Counter(origins[item.feed_id].label for item in items).most_common()),
            tuple(reversed(items[-latest:])) if latest else (),
        )
        for name, items in ((name, list(kept.values())) for name, kept in found.items())
    ]


def _collect_definitions(creates: list[CreateFeed], catalogue: StoredCatalogue) -> dict[str, CreateFeed]:
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
