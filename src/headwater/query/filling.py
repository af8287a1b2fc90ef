"""A query feed on its own, over items of the past: what its window would hold, without any delivery."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.model import Item
from headwater.query.document import ItemKey
from headwater.query.features import ItemFeatures
from headwater.query.hits import Hit
from headwater.query.index import ConditionIndex
from headwater.query.layers import DerivedFeed
from headwater.query.passing import MatchedBranches, match_sources
from headwater.query.similar import WordFrequencies
from headwater.query.standing import QueryFeeds


class BackfillPass:
    def __init__(self, standing: QueryFeeds, index: ConditionIndex, frequencies: WordFrequencies, name: str) -> None:
        record = standing.find_entry(name)
        query = standing.read_query(record)
        self.number = standing.find_number(name)
        self._name = record.name
        self._derived_feed = record.layer or DerivedFeed(record.name, query)
        self._rules = list(standing.build_rules(query))
        self._index = index
        self._frequencies = frequencies
        self._emitted: set[ItemKey] = set()

    def pass_item(self, view: ItemFeatures, emitted: Mapping[str, Item]) -> Hit | None:
        """The next item; `emitted` is what the query feeds that the feed reads had made of it."""
        changed: dict[str, ItemFeatures] = {}
        for name, item in emitted.items():
            feature = f"@q{name.casefold()}"
            if item != view.seen.item:
                changed[feature] = self._index.make_item_features(view.seen.with_item(item), view.source_features())
            view.features.add(feature)
        parts: dict[int, MatchedBranches] = {}
        for part, rule, numbers in self._rules:
            for at, came in match_sources(rule, view, changed):
                parts.setdefault(part, {}).update(dict.fromkeys(numbers[at], came))
        key = view.seen.key
        update = key in self._emitted
        found = self._derived_feed.emit_item(parts.pop(0, {}), update, self._frequencies)
        for part, branches in parts.items():
            self._derived_feed.remember_secondary(part - 1, branches)
        if found is None:
            return None
        self._emitted.add(key)
        return Hit(self._name, found.seen.item, view.seen.item, found.branches, found.related, update, fresh=False)
