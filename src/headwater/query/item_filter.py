"""Judges items by one query that needs nothing but the item, at a fraction of the cost of the engine."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.formats.values.links import normalise_url
from headwater.language.ast import AllSources, FeedAddress, FeedName, Query, TaggedSources
from headwater.language.normal_form import list_sources
from headwater.model import Item
from headwater.query.index.matchers import Matcher, compile_matcher
from headwater.query.items.analysed_item import AnalysedItem, LanguageDetector
from headwater.query.items.origin import Origin
from headwater.query.items.similarity import WordFrequencies


class ItemFilter:
    """A query over source feeds, without joins, DISTINCT, SIMILAR, SET, stories and changes.

    It searches each text for what the query asks for. The engine first splits the text into words, to find those of
    many queries that may match.
    """

    def __init__(self, query: Query, origins: Mapping[int, Origin], detect: LanguageDetector | None = None) -> None:
        self._origins = origins
        self._detect = detect
        self._sources = [(one.source, compile_matcher(one.condition, WordFrequencies())) for one in list_sources(query)]
        self._matchers: dict[int, list[Matcher]] = {}

    def keeps(self, item: Item) -> bool:
        """Return whether the item belongs to the query."""
        matchers = self._matchers.get(item.feed_id)
        if matchers is None:
            matchers = self._matchers[item.feed_id] = self._list_matchers(item.feed_id)
        if not matchers:
            return False
        analysed = AnalysedItem(item, self._origins[item.feed_id], None, self._detect)
        return any(holds(analysed) for holds in matchers)

    def _list_matchers(self, feed_id: int) -> list[Matcher]:
        """List the conditions on the items of a feed; none if the feed has just been deleted."""
        origin = self._origins.get(feed_id)
        return [] if origin is None else [holds for source, holds in self._sources if _includes(source, origin)]


def _includes(source: FeedAddress | FeedName | TaggedSources | AllSources, origin: Origin) -> bool:
    match source:
        case AllSources():
            return origin.registered
        case TaggedSources(tag):
            return origin.has_tag(tag)
        case FeedName(name):
            return origin.has_name(name)
        case FeedAddress(url):
            return normalise_url(url) == normalise_url(origin.url)
