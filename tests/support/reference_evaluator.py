"""Evaluates queries item by item and query by query, without any index: the reference for the engine.

It is slow and simple on purpose. It defines the semantics of the language; the engine must give the same results. Each
item is tested on every source of every query feed: WHERE, then the joins, then DISTINCT. SET then rewrites it, and it
is appended to the feed's stream, which other query feeds read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import msgspec

from headwater.errors import NotFound
from headwater.formats.values.links import normalise_url
from headwater.language.ast import (
    DEFAULT_DISTINCT_WINDOW,
    AllSources,
    CreateFeed,
    DropFeed,
    FeedAddress,
    FeedName,
    Join,
    JoinKind,
    LastWindow,
    Query,
    RegisterFeed,
    Script,
    Statement,
    TaggedSources,
)
from headwater.language.normal_form import QuerySource, list_join_sources, list_read_feeds, list_sources
from headwater.model import Item
from headwater.query.feeds.templates import rewrite_item
from headwater.query.index.matchers import Matcher, compile_matcher
from headwater.query.items.analysed_item import AnalysedItem, LanguageDetector
from headwater.query.items.origin import Origin, apply_registrations
from headwater.query.items.similarity import WordFrequencies, fields_match
from headwater.query.query_document import Emission, ItemKey, select_items


@dataclass(slots=True)
class _ReferenceWindow:
    """Items in order of arrival, for the windows of JOIN and DISTINCT."""

    entries: list[tuple[float, AnalysedItem]] = field(default_factory=list)

    def add_item(self, at: float, analysed: AnalysedItem) -> None:
        """Add the item. A new version replaces the earlier one and keeps its age."""
        for number, (since, known) in enumerate(self.entries):
            if known.key == analysed.key:
                self.entries[number] = (since, analysed)
                return
        self.entries.append((at, analysed))

    def list_within(self, window: LastWindow, now: float) -> Iterator[AnalysedItem]:
        if window.seconds is None:
            yield from (analysed for _, analysed in self.entries[-window.count :])
        else:
            yield from (analysed for at, analysed in self.entries if at >= now - window.seconds)


@dataclass(slots=True)
class _JoinWindow:
    join: Join
    leaves: list[tuple[QuerySource, Matcher]]
    past: _ReferenceWindow = field(default_factory=_ReferenceWindow)


@dataclass(slots=True)
class _ReferenceFeed:
    """A query feed and its memory."""

    name: str
    query: Query
    leaves: list[tuple[QuerySource, Matcher]]
    secondaries: list[_JoinWindow]
    emitted: dict[ItemKey, Emission] = field(default_factory=dict)
    log: dict[int, Emission] = field(default_factory=dict)  # event → emission; the stream
    firsts: _ReferenceWindow = field(default_factory=_ReferenceWindow)  # the window of DISTINCT
    delivered: set[ItemKey] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _ReferenceEvent:
    number: int
    analysed: AnalysedItem
    past: bool = False  # replayed to fill a new feed's window


class ReferenceEvaluator:
    """Evaluates all query feeds on every arrival and keeps the whole history."""

    def __init__(self, detect: LanguageDetector | None = None) -> None:
        self._detect = detect
        self._feeds: dict[str, _ReferenceFeed] = {}
        self._registered: dict[str, RegisterFeed] = {}
        self._frequencies = WordFrequencies()
        self._history: list[AnalysedItem] = []
        self._versions: dict[ItemKey, AnalysedItem] = {}  # the last version

    # statements

    def run_script(self, script: Script) -> None:
        for statement in script.statements:
            self.execute(statement)

    def execute(self, statement: Statement) -> None:
        """Execute a statement that has passed `language.parse` with a catalogue."""
        match statement:
            case CreateFeed():
                self._create_feed(statement)
            case RegisterFeed():
                self._registered[statement.name.key] = statement
            case DropFeed():
                self._drop_feed(statement)

    def _create_feed(self, statement: CreateFeed) -> None:
        """Create a feed and fill it from history without deliveries. A replaced feed does not deliver an item again."""
        query, counted = statement.query, self._frequencies
        self._frequencies = WordFrequencies()  # words weigh what they weighed when the items of the past arrived
        self._track_fields(query)
        feed = _ReferenceFeed(
            statement.name.name,
            query,
            self._compile_sources(list_sources(query)),
            [_JoinWindow(join, self._compile_sources(list_join_sources(query, join))) for join in query.joins],
        )
        replaced = self._feeds.get(statement.name.key)
        if replaced is not None:
            feed.delivered = replaced.delivered
        self._feeds[statement.name.key] = feed
        met: set[ItemKey] = set()
        for number, analysed in enumerate(self._history):
            if analysed.key not in met:
                met.add(analysed.key)
                self._frequencies.count_item(analysed)
            self._evaluate_feed(feed, _ReferenceEvent(number, analysed, past=True), {})
        counted.adopt_counts(self._frequencies)
        self._frequencies = counted
        self._track_fields(query)
        feed.leaves = self._compile_sources(list_sources(query))
        for secondary in feed.secondaries:
            secondary.leaves = self._compile_sources(list_join_sources(query, secondary.join))

    def _track_fields(self, query: Query) -> None:
        for part in (query.distinct, *query.joins):
            if part is not None and part.at is not None:
                self._frequencies.track_field(part.field)

    def _compile_sources(self, found: tuple[QuerySource, ...]) -> list[tuple[QuerySource, Matcher]]:
        return [(leaf, compile_matcher(leaf.condition, self._frequencies)) for leaf in found]

    def _drop_feed(self, statement: DropFeed) -> None:
        gone = {statement.name.key}
        self._registered.pop(statement.name.key, None)
        while statement.cascade:
            users = {
                name
                for name, feed in self._feeds.items()
                if name not in gone and any(read.key in gone for read in list_read_feeds(feed.query))
            }
            if not users:
                break
            gone |= users
        for name in gone:
            self._feeds.pop(name, None)

    # items

    def add_arrival(self, item: Item, origin: Origin, arrived: float | None = None) -> dict[str, Emission]:
        """Add a new item, or a new version of one, and return the emission of each query feed.

        A repeated version changes nothing.
        """
        known = self._versions.get((normalise_url(origin.url), item.identity))
        here = apply_registrations(origin, self._registered.values())
        analysed = AnalysedItem(item, here, arrived, self._detect, known)
        if known is None:
            self._frequencies.count_item(analysed)
        elif known.item.content_hash == item.content_hash:
            return {}
        else:
            version = max(item.version, known.item.version + 1)
            analysed = analysed.with_item(msgspec.structs.replace(item, version=version))
        self._versions[analysed.key] = analysed
        event = _ReferenceEvent(len(self._history), analysed)
        self._history.append(analysed)
        done: dict[str, Emission | None] = {}
        for key in list(self._feeds):
            self._find_emission(key, event, done)
        return {self._feeds[key].name: emission for key, emission in done.items() if emission is not None}

    def _find_emission(self, key: str, event: _ReferenceEvent, done: dict[str, Emission | None]) -> Emission | None:
        """Return the emission of a query feed at this event, after evaluating the feeds it reads."""
        if key not in done:
            feed = self._feeds[key]
            if event.past:
                done[key] = feed.log.get(event.number)
            else:
                done[key] = self._evaluate_feed(feed, event, done)
        return done[key]

    def _evaluate_feed(
        self, feed: _ReferenceFeed, event: _ReferenceEvent, done: dict[str, Emission | None]
    ) -> Emission | None:
        emission = self._match_main(feed, event, done)
        for secondary in feed.secondaries:  # after the main sources, so that an item is not joined with itself
            matched = self._match_sources(secondary.leaves, event, done)
            if matched:
                secondary.past.add_item(event.analysed.arrived, next(iter(matched.values())))
        if emission is not None:
            feed.log[event.number] = emission
        return emission

    def _match_sources(
        self, compiled: list[tuple[QuerySource, Matcher]], event: _ReferenceEvent, done: dict[str, Emission | None]
    ) -> dict[int, AnalysedItem]:
        """Return the matching sources with the item as each provides it."""
        found: dict[int, AnalysedItem] = {}
        for number, (leaf, test) in enumerate(compiled):
            analysed = self._emitted_item(leaf, event, done)
            if analysed is not None and test(analysed):
                found[number] = analysed
        return found

    def _emitted_item(
        self, leaf: QuerySource, event: _ReferenceEvent, done: dict[str, Emission | None]
    ) -> AnalysedItem | None:
        analysed, source = event.analysed, leaf.source
        match source:
            case FeedAddress(url):
                here = analysed.source == normalise_url(url)
            case TaggedSources(tag):
                here = analysed.origin.has_tag(tag)
            case AllSources():
                here = analysed.origin.registered
            case FeedName():
                if source.key in self._feeds:
                    emission = self._find_emission(source.key, event, done)
                    return emission.analysed if emission is not None else None
                here = analysed.origin.has_name(source.name)
        return analysed if here else None

    def _match_main(
        self, feed: _ReferenceFeed, event: _ReferenceEvent, done: dict[str, Emission | None]
    ) -> Emission | None:
        matched = self._match_sources(feed.leaves, event, done)
        if not matched:
            return None  # the published version stays
        analysed = next(iter(matched.values()))
        before = feed.emitted.get(event.analysed.key)
        if before is None:
            emission = self._first_emission(feed, event, analysed, frozenset(matched))
            if emission is None:
                return None
        else:
            emission = replace(
                before,
                analysed=rewrite_item(analysed, feed.query.settings),
                original=event.analysed,
                branches=before.branches | frozenset(matched),
                fresh=False,
                update=True,
            )
        feed.emitted[event.analysed.key] = emission
        return emission

    def _first_emission(
        self, feed: _ReferenceFeed, event: _ReferenceEvent, analysed: AnalysedItem, branches: frozenset[int]
    ) -> Emission | None:
        """Return the first emission of an item, or None if a join or DISTINCT excludes it."""
        related = self._find_joined(feed, analysed)
        if related is None or self._is_repeat(feed, analysed):
            return None
        fresh = not event.past and event.analysed.key not in feed.delivered
        if fresh:
            feed.delivered.add(event.analysed.key)
        return Emission(
            rewrite_item(analysed, feed.query.settings),
            branches,
            related if feed.secondaries else None,
            analysed.arrived,
            event.number,
            fresh,
            original=event.analysed,
        )

    def _find_joined(self, feed: _ReferenceFeed, analysed: AnalysedItem) -> tuple[AnalysedItem, ...] | None:
        """Return the related items of all joins in order of arrival, or None if a join excludes the item."""
        related: dict[ItemKey, AnalysedItem] = {}
        for secondary in feed.secondaries:
            join = secondary.join
            weight = self._frequencies.field_weights(join.field)
            found = [
                other
                for other in secondary.past.list_within(join.within, analysed.arrived)
                if other.key != analysed.key and fields_match(analysed, join.field, other, join.other, join.at, weight)
            ]
            if bool(found) is (join.kind is JoinKind.ANTI) and join.kind is not JoinKind.LEFT:
                return None
            related |= {other.key: other for other in found}
        return tuple(sorted(related.values(), key=lambda other: other.item.first_seen))

    def _is_repeat(self, feed: _ReferenceFeed, analysed: AnalysedItem) -> bool:
        """Return whether DISTINCT suppresses the item; if not, add it to the window."""
        distinct = feed.query.distinct
        if distinct is None:
            return False
        weight = self._frequencies.field_weights(distinct.field)
        window = distinct.within or DEFAULT_DISTINCT_WINDOW
        for first in feed.firsts.list_within(window, analysed.arrived):
            if fields_match(analysed, distinct.field, first, distinct.field, distinct.at, weight):
                return True
        feed.firsts.add_item(analysed.arrived, analysed)
        return False

    # results

    def _find_feed(self, name: str) -> _ReferenceFeed:
        feed = self._feeds.get(name.casefold())
        if feed is None:
            raise NotFound(f"There is no query feed {name}.")
        return feed

    def query_names(self) -> list[str]:
        return [feed.name for feed in self._feeds.values()]

    def select_items(self, name: str, now: float | None = None) -> list[Emission]:
        """Return the feed's document at `now` (default: the last arrival)."""
        feed = self._find_feed(name)
        if now is None:
            now = max((analysed.arrived for analysed in self._history), default=0.0)
        return select_items(feed.query, feed.emitted.values(), now)

    def list_emissions(self, name: str) -> list[Emission]:
        """Return all emissions of the feed in order of arrival, including updates."""
        return list(self._find_feed(name).log.values())
