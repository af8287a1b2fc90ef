"""Replays stored items through a query feed and compares the result with its published document."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model import Item, QueryFeed
from headwater.node.queries import backfill
from headwater.node.queries.backfill import ArrivedVersion, expand_versions, select_window
from headwater.node.queries.preview import MAX_ITEMS, collect_definitions
from headwater.query import Engine
from headwater.query.index.narrowing import weighs_words
from headwater.query.items.analysed_item import LanguageDetector
from headwater.query.source_scope import SourceScope, sort_by_dependency
from headwater.query.stories.story_placer import PlacedItem
from headwater.store.content.items import find_earlier_versions, find_items
from headwater.store.content.outbox import read_checkpoint
from headwater.store.content.stories import find_placements
from headwater.store.queries.document_hits import list_document_hits, load_item_origins
from headwater.store.queries.hits import NewHit, complete_stories, list_past_items
from headwater.store.queries.query_feeds import find_query_feed, load_catalogue, read_running_definition
from headwater.store.store import Store

CONSUMER = "queries"  # the checkpoint of the query processor
COMPARED = ("title", "link", "summary", "content", "categories", "authors")


@dataclass(frozen=True, slots=True)
class Difference:
    """An item that only the replay gives (missing), only the document has (unexpected), or that differs (changed)."""

    kind: str
    item: int
    title: str | None


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of a document of `published` items with a replay of `replayed` versions of items."""

    name: str
    published: int
    replayed: int
    differences: tuple[Difference, ...]


async def verify_query(store: Store, name: str, now: float, detect: LanguageDetector | None = None) -> Verification:
    """Compare the document of a query feed with a replay of the stored items, in the order of their arrival.

    Items that arrived before the query are replayed as they were when it was created, like its past.
    """
    query = await store.read(find_query_feed, name)
    create = read_running_definition(query)
    needed = collect_definitions([create], await store.read(load_catalogue, query.reader_id))
    origins = await store.read(load_item_origins, readers=() if query.reader_id is None else (query.reader_id,))
    scope = SourceScope(origins, {key: one.query for key, one in needed.items()})
    weighing = any(weighs_words(one.query) for one in needed.values())
    feeds = None if weighing else scope.find_feeds(create.query, joined=True)
    engine = Engine(detect, remember=MAX_ITEMS)
    for feed, origin in origins.items():
        engine.set_origin(feed, origin)
    for one in sort_by_dependency(needed.values()):
        engine.add_query(one)
    done = await store.read(read_checkpoint, CONSUMER)
    past = await store.read(list_past_items, limit=backfill.MAX_ITEMS, upto=query.position, feed_ids=feeds)
    known = set(await store.read(list_past_items, limit=MAX_ITEMS, upto=query.position, feed_ids=feeds))
    later = await store.read(list_past_items, limit=MAX_ITEMS, upto=done, feed_ids=feeds)
    ids = [*past, *(id for id in later if id not in known)]
    placed = await store.read(find_placements, ids)
    versions = expand_versions(await store.read(find_items, ids), await store.read(find_earlier_versions, ids))
    arrived = _forget_versions(versions, query)
    matched = await asyncio.to_thread(_replay_versions, engine, query, arrived, placed)
    matched = await store.read(complete_stories, matched)
    hits = await store.read(list_document_hits, query, now)
    expected = {one.hit.item.id or 0: one.hit.item for one in select_window(create.query, matched, now)}
    shown = {hit.item.id or 0: hit.item for hit in hits}
    labels = {feed: origin.label for feed, origin in origins.items()}
    return Verification(query.name, len(shown), len(arrived), tuple(_compare_documents(expected, shown, labels)))


def _forget_versions(versions: Sequence[ArrivedVersion], query: QueryFeed) -> list[ArrivedVersion]:
    """Return the versions that the query has met: of those before its definition, the last of each item."""
    since = query.replaced or query.created
    before = {one.item.id: one for one in versions if one.arrived <= since}
    first = {one.item.id: one.item.first_seen for one in before.values()}
    kept = [ArrivedVersion(one.item, first[one.item.id], one.previous) for one in before.values()]
    kept += [one for one in versions if one.arrived > since]
    return sorted(kept, key=lambda one: (one.arrived, one.item.id or 0))


def _replay_versions(
    engine: Engine, query: QueryFeed, arrived: Sequence[ArrivedVersion], placed: Mapping[int, PlacedItem]
) -> list[NewHit]:
    found: list[NewHit] = []
    for one in arrived:
        known = placed.get(one.item.id or 0)
        story = None if known is None else known.story
        hits = engine.match(one.item, None, one.arrived, story=story, previous=one.previous)
        found += [NewHit(query.id, hit, one.arrived) for hit in hits if hit.query == query.name]
    return found


def _compare_documents(
    expected: Mapping[int, Item], shown: Mapping[int, Item], labels: Mapping[int, str]
) -> list[Difference]:
    found = []
    for id in sorted(expected.keys() | shown.keys()):
        if id not in shown:
            found.append(Difference("missing", id, expected[id].title))
        elif id not in expected:
            found.append(Difference("unexpected", id, shown[id].title))
        elif not _reads_alike(expected[id], shown[id], labels.get(shown[id].feed_id, "")):
            found.append(Difference("changed", id, shown[id].title))
    return found


def _reads_alike(expected: Item, shown: Item, label: str) -> bool:
    """Return whether two versions are equal, but for the name of their feed: an item keeps the name that its feed had
    when SET wrote it, and a replay knows only the name of today."""
    one, other = ("\0".join(str(getattr(item, field)) for field in COMPARED) for item in (expected, shown))
    if one == other or not label:
        return one == other
    first, *rest = map(re.escape, html.unescape(one).split(label))
    if not rest:
        return False
    pattern = first + "([^\0]+?)" + r"\1".join(rest)
    return re.fullmatch(pattern, html.unescape(other), re.DOTALL) is not None
