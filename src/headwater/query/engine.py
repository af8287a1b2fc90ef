"""Standing queries over a stream of items: queries come and go, each item is told the query feeds it comes out of.

An item is cut into words once and becomes a set of features (`features`). Through the index (`index`) it meets only
conditions of which it has the rarest feature. Feeds that do more than filter (`layers`) are evaluated after the feeds
they read. The answers are those of `meaning`, the reference; what is remembered is bounded.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from headwater.language import parse
from headwater.language.ast import CreateFeed, DropFeed, RegisterFeed, Statement
from headwater.model import Item
from headwater.query.feeds import engine_snapshot
from headwater.query.feeds.item_pass import BackfillPass, ItemPass
from headwater.query.feeds.query_feeds import QueryFeeds
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

RETUNE_INTERVAL = 256  # items between two looks at where conditions are posted
CACHED_ORIGINS = 10_000  # origins whose features are kept ready


class Engine:
    """The query feeds that exist, and what must be remembered to match items against them."""

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
        """Tell where the items of a feed come from; told again, its new names and tags count from then on."""
        self._origins[feed_id] = origin

    def remove_origin(self, feed_id: int) -> None:
        """The feed is no more."""
        self._origins.pop(feed_id, None)

    def use_compiled(self, wanted: bool) -> None:
        """Look up with compiled code always, or never; as it is, where numba is installed and queries are many."""
        self._index.use_compiled(wanted)

    def query_names(self) -> list[str]:
        return self._query_feeds.feed_names()

    def __len__(self) -> int:
        return len(self._query_feeds)

    def __contains__(self, name: str) -> bool:
        return self._query_feeds.get_number(name.casefold()) is not None

    def add_query(self, query: CreateFeed | str) -> None:
        """Take in a query feed, or all that a script creates, registers and drops.

        A query that replaces another (`OR REPLACE`) does not deliver again what that has delivered.
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
        """Take a query feed away, with `cascade` those that read it too; the names of all that went."""
        return tuple(self._query_feeds.drop_feed(name, cascade))

    # items

    def match(
        self,
        item: Item,
        origin: Origin | None = None,
        arrived: float | None = None,
        emitted: Collection[str] | None = None,
        delivered: Collection[str] = (),
    ) -> Hits:
        """An item, or a new version of one, has come: the query feeds it comes out of.

        `emitted` names the query feeds that hold an earlier version, `delivered` those that have delivered it. Where
        `emitted` is not given the engine's own memory of recent items says, and the same version again is no hit.
        """
        place = self._find_origin_features(origin or self._find_origin(item.feed_id))
        seen = AnalysedItem(item, place.origin, arrived, self.detect)
        key = seen.key
        known = self._recent.get(key)
        if known is not None and known.content_hash == item.content_hash and emitted is None:
            return Hits(item, ())
        if known is not None and emitted is None:
            item = replace(item, version=max(item.version, known.version + 1))
            seen = seen.with_item(item)
        elif known is None and not emitted:
            self._frequencies.count_item(seen)
        view = self._index.make_item_features(seen, place.features)
        self._shares.observe_item(view.features)
        before: ItemMemory = None
        if emitted is not None:
            before = CallerMemory(emitted, delivered) if emitted or delivered else None
        elif known is not None:
            before = EngineMemory(known)
        met, rules = self._index.find_candidates(view)
        self._event_count += 1
        if self._event_count % RETUNE_INTERVAL == 0:
            for owner, feature in self._index.retune(view):
                self._query_feeds.note_move(owner, feature)
        numbers = met
        made: Sequence[Hit] = ()
        failures: Sequence[MatchFailure] = ()
        if rules:
            passing = ItemPass(view, self._query_feeds, self._index, self._frequencies, before, self._event_count)
            passing.run(rules)
            met.extend(passing.plain)
            numbers, made, failures = met + array("I", passing.numbers), passing.hits, passing.failures
        records = self._query_feeds.records
        if known is None:
            self._recent.put(key, RecentItem(item.content_hash, item.version, numbers))
        else:
            every = [*{*known.emitted, *numbers}]
            self._recent.put(key, RecentItem(item.content_hash, item.version, every, known.silent))
        if before is None:
            return Hits(item, records, met, made, failures=failures)
        mine = [(number, record) for number in met if (record := records[number]) is not None]
        updates = frozenset(number for number, record in mine if before.has_emitted(number, record))
        delivered_before = frozenset(number for number, record in mine if before.has_delivered(number, record))
        return Hits(item, records, met, made, updates, delivered_before, failures)

    def count_candidates(self, item: Item, origin: Origin | None = None) -> int:
        """How many owners and rules the index looks at for an item: what `match` works on."""
        place = self._find_origin_features(origin or self._find_origin(item.feed_id))
        return self._index.count_candidates(
            self._index.make_item_features(AnalysedItem(item, place.origin), place.features)
        )

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
        """What a query feed makes of items that came before it, in the order of their arrival; nothing is fresh.

        Its windows are filled on the way: this is also how they come back after a restart without a saved state.
        """
        filling = BackfillPass(self._query_feeds, self._index, self._frequencies, name)
        found: list[tuple[Arrival, Hit]] = []
        for each in past:
            place = self._find_origin_features(each.origin or self._find_origin(each.item.feed_id))
            seen = AnalysedItem(each.item, place.origin, each.arrived, self.detect)
            hit = filling.pass_item(self._index.make_item_features(seen, place.features), each.emitted)
            if hit is not None:
                self._recent.note_backfilled(seen.key, each.item, filling.number)
                found.append((each, hit))
        return found

    # surviving

    def save(self) -> bytes:
        """What must survive a restart besides the queries: windows of joins and DISTINCT, frequencies of words, recent
        items. Its size is bounded by the windows."""
        return engine_snapshot.save_snapshot(self._query_feeds, self._recent, self._frequencies, self._shares)

    def load(self, saved: bytes) -> None:
        """Take up what `save` gave, after the queries have been added; a query that changed since starts afresh."""
        engine_snapshot.load_snapshot(saved, self._query_feeds, self._recent, self._frequencies, self._shares)
