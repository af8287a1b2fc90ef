"""One item on its way through the rules it could meet, level by level: query feeds after those they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headwater.model import Item
from headwater.query.feeds.derived_feed import DerivedFeed
from headwater.query.feeds.query_feeds import PART_BITS, PART_MASK, QueryFeeds
from headwater.query.feeds.recent_items import ItemMemory
from headwater.query.hits import Hit, MatchFailure
from headwater.query.index.condition_index import ConditionIndex
from headwater.query.index.condition_tree import ConditionRule, condition_holds
from headwater.query.index.features import ItemFeatures
from headwater.query.items.similarity import WordFrequencies
from headwater.query.query_document import ItemKey

MatchedBranches = dict[int, ItemFeatures]
"""The sources of a query through which the item came, each with the item as it came through."""


class ItemPass:
    """What grows as it goes on: `plain`, the queries it comes out of unchanged through their only source; `hits` and
    `numbers`, of all others; `failures`, those that could not be tried."""

    def __init__(
        self,
        view: ItemFeatures,
        standing: QueryFeeds,
        index: ConditionIndex,
        frequencies: WordFrequencies,
        before: ItemMemory,
        stamp: int,
    ) -> None:
        self.plain: list[int] = []
        self.hits: list[Hit] = []
        self.numbers: list[int] = []
        self.failures: list[MatchFailure] = []
        self._view = view
        self._query_feeds = standing
        self._index = index
        self._frequencies = frequencies
        self._memory = before
        self._stamp = stamp
        self._rewritten: dict[str, ItemFeatures] = {}  # by feature, what query feeds that rewrite have made of the item
        self._matched_parts: dict[int, dict[int, MatchedBranches]] = {}  # query → its part → branches
        self._waiting_rules: dict[int, list[ConditionRule]] = {}
        self._ready_feeds: dict[int, list[tuple[int, DerivedFeed]]] = {}

    def run(self, rules: Iterable[ConditionRule]) -> None:
        stamp = self._stamp
        for rule in rules:
            if rule.level:
                self._waiting_rules.setdefault(rule.level, []).append(rule)
            elif rule.stamp != stamp:
                rule.stamp = stamp
                self._try_rule(rule)
        while self._waiting_rules or self._ready_feeds:
            level = (
                min(*self._waiting_rules, *self._ready_feeds)
                if self._waiting_rules and self._ready_feeds
                else min(self._waiting_rules or self._ready_feeds)
            )
            for rule in self._waiting_rules.pop(level, ()):
                if rule.stamp != self._stamp:
                    rule.stamp = self._stamp
                    self._try_rule(rule)
            for number, layer in self._ready_feeds.pop(level, ()):
                try:
                    self._emit_derived(number, layer)
                except Exception as error:  # as in `_try`
                    self._add_failures((number,), error)
        for number, parts in self._matched_parts.items():
            self._emit_filtered(number, parts[0])

    def _queue_rules(self, rules: Iterable[ConditionRule]) -> None:
        for rule in rules:
            self._waiting_rules.setdefault(rule.level, []).append(rule)

    def _try_rule(self, rule: ConditionRule) -> None:
        try:
            came = list(match_sources(rule, self._view, self._rewritten))
        except Exception as error:  # a defect of one condition must not keep the item from all others
            self._add_failures({*rule.plain, *(owner >> PART_BITS for owner in rule.owners)}, error)
            return
        if not came:
            return
        self.plain += rule.plain
        for owner, numbers in zip(rule.owners, rule.numbers, strict=True):
            query, part = owner >> PART_BITS, owner & PART_MASK
            parts = self._matched_parts.get(query)
            if parts is None:
                parts = self._matched_parts[query] = {}
                record = self._query_feeds.records[query]
                if record is not None and record.layer is not None:
                    self._ready_feeds.setdefault(record.layer.level, []).append((query, record.layer))
            branches = parts.setdefault(part, {})
            for at, view in came:
                for number in numbers[at]:
                    branches[number] = view

    def _add_failures(self, numbers: Iterable[int], error: Exception) -> None:
        named = [record.name for number in sorted(numbers) if (record := self._query_feeds.records[number]) is not None]
        self.failures += [MatchFailure(name, error) for name in named]

    def _emit_filtered(self, number: int, branches: MatchedBranches) -> None:
        """A feed that only filters."""
        record = self._query_feeds.records[number]
        assert record is not None
        item, before = self._view.seen.item, self._memory
        update = before is not None and before.has_emitted(number, record)
        fresh = not update and (before is None or not before.has_delivered(number, record))
        self.hits.append(Hit(record.name, item, item, frozenset(branches), None, update, fresh))
        self.numbers.append(number)

    def _emit_derived(self, number: int, layer: DerivedFeed) -> None:
        parts = self._matched_parts.pop(number)
        record = self._query_feeds.records[number]
        assert record is not None
        before = self._memory
        update = before is not None and before.has_emitted(number, record)
        emitted = layer.emit_item(parts.pop(0, {}), update, self._frequencies)
        for part, branches in parts.items():  # after the main side: an item is not joined with itself
            layer.remember_secondary(part - 1, branches)
        if emitted is None:
            return
        fresh = not update and (before is None or not before.has_delivered(number, record))
        original = self._view.seen
        hit = Hit(record.name, emitted.seen.item, original.item, emitted.branches, emitted.related, update, fresh)
        self.hits.append(hit)
        self.numbers.append(number)
        if layer.readers:
            self._view.features.add(layer.feature)
            if emitted.seen is not original:
                self._rewritten[layer.feature] = self._index.make_item_features(
                    emitted.seen, self._view.source_features()
                )
            self._queue_rules(self._index.list_rules(layer.feature))


def match_sources(
    rule: ConditionRule, view: ItemFeatures, changed: dict[str, ItemFeatures]
) -> Iterator[tuple[int, ItemFeatures]]:
    """The sources of the rule through which the item meets its condition, by their places in it."""
    features, tree = view.features, rule.tree
    verdict: bool | None = None  # on the item as it arrived, asked once
    for at, source in enumerate(rule.sources):
        if source in features:
            if source in changed:
                if condition_holds(tree, changed[source]):
                    yield at, changed[source]
                continue
            if verdict is None:
                verdict = condition_holds(tree, view)
            if verdict:
                yield at, view


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
