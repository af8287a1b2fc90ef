"""Matches a stream of items against standing queries, which can be added and dropped at any time.

An item is split into words once and becomes a set of features (`index.features`). The index finds the conditions of
which the item has the rarest feature (`index.condition_index`). Feeds that do more than filter are evaluated after the
feeds they read (`feeds.item_pass`). All memory is bounded.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from headwater.language import parse
from headwater.language.ast import CreateFeed, DropFeed, RegisterFeed, Statement
from headwater.model import Item
from headwater.query.feeds import engine_snapshot
from headwater.query.feeds.item_pass import BackfillPass, ItemPass
from headwater.query.feeds.query_registry import QueryFeeds
from headwater.query.feeds.recent_items import (
    MAX_ITEMS,
    CallerMemory,
    EngineMemory,
    ItemMemory,
    RecentItem,
    RecentItems,
)
from headwater.query.hits import Arrival, Hit, Hits, MatchFailure
from headwater.query.index import features
from headwater.query.index.access_path import FeatureShares
from headwater.query.index.condition_index import ConditionIndex
from headwater.query.index.features import OriginFeatures
from headwater.query.items.analysed_item import AnalysedItem, LanguageDetector
from headwater.query.items.origin import Origin, apply_registrations
from headwater.query.items.similarity import WordFrequencies
from headwater.query.stories.story_items import ItemStory

RETUNE_INTERVAL = 256  # items between two attempts to move conditions to rarer features
CACHED_ORIGINS = 10_000  # origins with cached features


class Engine:
    """Holds query feeds and the memory needed to match items against them."""

    def __init__(self, detect: LanguageDetector | None = None, remember: int = MAX_ITEMS) -> None:
        self.detect = detect
        self._origins: dict[int, Origin] = {}
        self._registered: dict[str, RegisterFeed] = {}
        self._origin_features: dict[Origin, OriginFeatures] = {}
        self._shares = FeatureShares()
        self._frequencies = WordFrequencies()
        self._index = ConditionIndex(self._shares)
        self._query_feeds = QueryFeeds(self._index, self._frequencies)
        self._recent = RecentItems(remember)
        self._event_count = 0

    # feeds and queries

    def set_origin(self, feed_id: int, origin: Origin) -> None:
        """Set the name, address and tags of a feed; call again when they change."""
        self._origins[feed_id] = origin

    def remove_origin(self, feed_id: int) -> None:
        """Remove the origin of a deleted feed."""
        self._origins.pop(feed_id, None)

    def use_compiled(self, wanted: bool) -> None:
        """Always or never use compiled code. By default it depends on numba and on the number of queries."""
        self._index.use_compiled(wanted)

    def query_names(self) -> list[str]:
        return self._query_feeds.feed_names()

    def __len__(self) -> int:
        return len(self._query_feeds)

    def __contains__(self, name: str) -> bool:
        return self._query_feeds.get_number(name.casefold()) is not None

    def add_query(self, query: CreateFeed | str) -> None:
        """Add a query feed, or run a script.

        A query that replaces another (`OR REPLACE`) does not deliver an item again.
        """
        if isinstance(query, str):
            for statement in parse(query).statements:
                self.execute(statement)
        else:
            self._query_feeds.add_feed(query)

    def execute(self, statement: Statement) -> None:
        match statement:
            case CreateFeed():
                self.add_query(statement)
            case RegisterFeed():
                self._registered[statement.name.key] = statement
                self._origin_features.clear()
            case DropFeed(name, cascade):
                if self._registered.pop(name.key, None) is not None:
                    self._origin_features.clear()
                else:
                    self.drop_query(name.name, cascade)

    def drop_query(self, name: str, cascade: bool = False) -> tuple[str, ...]:
        """Drop a query feed and, with `cascade`, its readers. Return the names of all dropped feeds."""
        return tuple(self._query_feeds.drop_feed(name, cascade))

    # items

    def match(
        self,
        item: Item,
        origin: Origin | None = None,
        arrived: float | None = None,
        emitted: Collection[str] | None = None,
        delivered: Collection[str] = (),
        story: ItemStory | None = None,
        previous: Item | None = None,
    ) -> Hits:
        """Return the query feeds that a new item, or a new version of one, belongs to.

        `emitted` names the query feeds that hold an earlier version, `delivered` those that have delivered it. Without
        `emitted`, the engine uses its memory of recent items, and a repeated version has no hits. `story` is the story
        of the item and `previous` the version before this one, for queries that ask for them.
        """
        origin_features = self._find_origin_features(origin or self._find_origin(item.feed_id))
        analysed = self._analyse_item(item, origin_features.origin, arrived, previous)
        known = self._recent.get(analysed.key)
        if known is not None and known.content_hash == item.content_hash and emitted is None:
            return Hits(item, ())
        if known is not None and emitted is None:
            item = replace(item, version=max(item.version, known.version + 1))
            analysed = analysed.with_item(item)
        elif known is None and not emitted:
            self._frequencies.count_item(analysed)
        story = story if self._query_feeds.views else None
        if story is not None:
            self._query_feeds.update_views()
        item_features = self._index.make_item_features(analysed, origin_features.features)
        self._shares.observe_item(item_features.features)
        memory: ItemMemory = None
        if emitted is not None:
            memory = CallerMemory(emitted, delivered) if emitted or delivered else None
        elif known is not None:
            memory = EngineMemory(known)
        plain, rules = self._index.find_candidates(item_features)
        self._event_count += 1
        if self._event_count % RETUNE_INTERVAL == 0:
            for owner, feature in self._index.retune(item_features):
                self._query_feeds.note_move(owner, feature)
        numbers = plain
        hits: Sequence[Hit] = ()
        failures: Sequence[MatchFailure] = ()
        if rules or story is not None:
            item_pass = ItemPass(
                item_features, self._query_feeds, self._index, self._frequencies, memory, self._event_count, story
            )
            item_pass.run(rules)
            plain.extend(item_pass.plain)
            numbers, hits, failures = plain + array("I", item_pass.numbers), item_pass.hits, item_pass.failures
        self._remember(analysed, known, numbers)
        entries = self._query_feeds.entries
        if memory is None:
            return Hits(item, entries, plain, hits, failures=failures)
        existing = [(number, entry) for number in plain if (entry := entries[number]) is not None]
        updates = frozenset(number for number, entry in existing if memory.has_emitted(number, entry))
        delivered_before = frozenset(number for number, entry in existing if memory.has_delivered(number, entry))
        return Hits(item, entries, plain, hits, updates, delivered_before, failures)

    def _analyse_item(self, item: Item, origin: Origin, arrived: float | None, previous: Item | None) -> AnalysedItem:
        before = None if previous is None else AnalysedItem(previous, origin, None, self.detect)
        return AnalysedItem(item, origin, arrived, self.detect, before)

    def _remember(self, analysed: AnalysedItem, known: RecentItem | None, numbers: Sequence[int]) -> None:
        item = analysed.item
        if known is None:
            recent = RecentItem(item.content_hash, item.version, numbers)
        else:
            recent = RecentItem(item.content_hash, item.version, [*{*known.emitted, *numbers}], known.silent)
        self._recent.put(analysed.key, recent)

    def count_candidates(self, item: Item, origin: Origin | None = None) -> int:
        """Count the owners and rules that the index tests for an item."""
        origin_features = self._find_origin_features(origin or self._find_origin(item.feed_id))
        analysed = AnalysedItem(item, origin_features.origin)
        return self._index.count_candidates(self._index.make_item_features(analysed, origin_features.features))

    def _find_origin(self, feed_id: int) -> Origin:
        return self._origins.get(feed_id) or Origin(None, f"feed:{feed_id}")

    def _find_origin_features(self, origin: Origin) -> OriginFeatures:
        found = self._origin_features.get(origin)
        if found is None:
            if len(self._origin_features) >= CACHED_ORIGINS:
                self._origin_features.clear()
            found = self._origin_features[origin] = features.make_origin_features(
                apply_registrations(origin, self._registered.values())
            )
        return found

    def backfill(self, name: str, past: Iterable[Arrival]) -> list[tuple[Arrival, Hit]]:
        """Match past items, in order of arrival, with one query feed; none of the hits is fresh.

        This also fills the windows of the feed, for example after a restart without a saved state.
        """
        self._query_feeds.update_views()
        backfill = BackfillPass(self._query_feeds, self._index, name)
        found: list[tuple[Arrival, Hit]] = []
        for arrival in past:
            origin = arrival.origin or self._find_origin(arrival.item.feed_id)
            origin_features = self._find_origin_features(origin)
            analysed = self._analyse_item(arrival.item, origin_features.origin, arrival.arrived, arrival.previous)
            item_features = self._index.make_item_features(analysed, origin_features.features)
            hit = backfill.pass_item(item_features, arrival.emitted, arrival.story)
            if hit is not None and hit.origin is not None:
                found.append((arrival, hit))
            elif hit is not None:
                self._recent.note_backfilled(analysed.key, arrival.item, backfill.number)
                found.append((arrival, hit))
        backfill.finish()
        self._frequencies.adopt_counts(backfill.frequencies)
        return found

    def adopt_word_counts(self, other: Engine) -> None:
        """Take over how often another engine has met words, in fields that this one has not counted yet."""
        self._frequencies.adopt_counts(other._frequencies)

    # snapshots

    def save(self) -> bytes:
        """Return the state that must survive a restart: windows, word frequencies and recent items."""
        return engine_snapshot.save_snapshot(self._query_feeds, self._recent, self._frequencies, self._shares)

    def load(self, saved: bytes) -> None:
        """Restore a saved state after the queries have been added. A changed query starts with empty windows."""
        engine_snapshot.load_snapshot(saved, self._query_feeds, self._recent, self._frequencies, self._shares)
