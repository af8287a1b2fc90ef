"""Runs query feeds that do not exist yet over stored items."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from headwater.language.ast import CreateFeed
from headwater.language.normal_form import list_read_feeds, uses_changes, uses_stories
from headwater.model import Item
from headwater.node.queries.backfill import ArrivedVersion, expand_versions, is_stateless
from headwater.query import Engine
from headwater.query.index.narrowing import narrow_query, weighs_words
from headwater.query.items.analysed_item import LanguageDetector
from headwater.query.items.origin import Origin
from headwater.query.items.required_words import Narrowing
from headwater.query.reader_scope import limit_to_reader
from headwater.query.source_scope import SourceScope, sort_by_dependency
from headwater.query.stories.story_placer import PlacedItem
from headwater.store.content.earlier_versions import find_earlier_versions
from headwater.store.content.items import find_items
from headwater.store.content.outbox import find_last_position
from headwater.store.content.stories import find_placements
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import count_past_items, list_past_items
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
    past = await store.read(_load_past, creates, now - days * DAY, reader_id)
    origins, wanted = past.origins, past.wanted
    engine = Engine(detect)
    for feed, origin in origins.items():
        engine.set_origin(feed, origin)
    for create in sort_by_dependency(past.needed.values()):
        engine.add_query(create)
    ids, offered = past.ids, past.offered
    found: dict[str, dict[int, Item]] = {name: {} for name in wanted}
    changes = any(uses_changes(create.query) for create in past.needed.values())
    stories = any(uses_stories(create.query) for create in past.needed.values())
    for start in range(0, len(ids), CHUNK):
        items = await store.read(find_items, ids[start : start + CHUNK])
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
            sum(offered.get(feed, 0) for feed in wanted[name]),
            days,
            dict(Counter(origins[item.feed_id].label for item in items).most_common()),
            tuple(reversed(items[-latest:])) if latest else (),
        )
        for name, items in ((name, list(kept.values())) for name, kept in found.items())
    ]


class _Past(NamedTuple):
    """The definitions of a preview, the feeds of each query, and the stored items that it must look at."""

    needed: dict[str, CreateFeed]
    origins: dict[int, Origin]
    wanted: Mapping[str, Collection[int]]
    ids: list[int]
    offered: dict[int, int]


def _load_past(connection: Connection, creates: list[CreateFeed], since: float, reader_id: int | None) -> _Past:
    needed = _collect_definitions(creates, load_catalogue(connection, reader_id))
    origins = load_item_origins(connection, readers=() if reader_id is None else (reader_id,))
    scope = SourceScope(origins, {key: one.query for key, one in needed.items()})
    wanted = {create.name.name: scope.find_feeds(create.query) for create in creates}
    every = {feed for create in creates for feed in scope.find_feeds(create.query, joined=True)}
    upto, words = find_last_position(connection), _narrow(creates, needed)
    ids = list_past_items(connection, since=since, most=MAX_ITEMS, upto=upto, feed_ids=every, narrowing=words)
    return _Past(needed, origins, wanted, ids, count_past_items(connection, since=since, upto=upto, feed_ids=every))


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
