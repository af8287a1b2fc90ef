"""Passes one item, new or past, through the query feeds: level by level, each feed after the feeds it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headwater.model import Item
from headwater.query.feeds.derived_feed import DerivedFeed, query_feed_feature
from headwater.query.feeds.query_registry import PART_BITS, PART_MASK, QueryFeeds, track_compared_fields
from headwater.query.feeds.recent_items import ItemMemory
from headwater.query.hits import Hit, MatchFailure
from headwater.query.index.condition_index import ConditionIndex
from headwater.query.index.condition_tree import ConditionRule, condition_holds, match_sources
from headwater.query.index.features import ItemFeatures
from headwater.query.items.similarity import WordFrequencies
from headwater.query.query_document import ItemKey
from headwater.query.stories.story_items import ItemStory
from headwater.query.stories.story_views import StoryFacts, StoryView

NOWHERE: Sequence[tuple[int, ItemFeatures]] = ()
"""The result of a condition that the item meets through no source."""

MatchedBranches = dict[int, ItemFeatures]
"""The matched branches of a query, each with the item as that source provides it."""


class StoryPass:
    """The story of the item that is passed through the query feeds. A view counts the item when it is first asked.

    `find_rules` gives the rules by which the sources of a view let items through.
    """

    def __init__(
        self,
        story: ItemStory,
        item_features: ItemFeatures,
        rewritten: Mapping[str, ItemFeatures],
        find_rules: Callable[[StoryView], Iterable[ConditionRule]],
    ) -> None:
        self.story = story
        self._item_features = item_features
        self._rewritten = rewritten
        self._find_rules = find_rules
        self._facts: dict[str, StoryFacts] = {}

    def find_facts(self, view: StoryView) -> StoryFacts | None:
        """Return the story as the view counts it; None if its sources do not let the item through."""
        facts = self._facts.get(view.key)
        if facts is None and self._is_let_through(view):
            facts = self._facts[view.key] = view.add_item(self.story, self._item_features.analysed)
        return facts

    def _is_let_through(self, view: StoryView) -> bool:
        return any(
            True for rule in self._find_rules(view) for _ in match_sources(rule, self._item_features, self._rewritten)
        )


class ItemPass:
    """Evaluates the candidate rules of a new item and collects the results.

    `plain` are the numbers of queries with a single source that emit the item unchanged. `hits` and `numbers` belong
    to all other queries. `failures` are queries whose evaluation raised an exception.
    """

    def __init__(
        self,
        item_features: ItemFeatures,
        query_feeds: QueryFeeds,
        index: ConditionIndex,
        frequencies: WordFrequencies,
        memory: ItemMemory,
        stamp: int,
        story: ItemStory | None = None,
    ) -> None:
        self.plain: list[int] = []
        self.hits: list[Hit] = []
        self.numbers: list[int] = []
        self.failures: list[MatchFailure] = []
        self._item_features = item_features
        self._query_feeds = query_feeds
        self._index = index
        self._frequencies = frequencies
        self._memory = memory
        self._stamp = stamp
        self._rewritten: dict[str, ItemFeatures] = {}  # source feature → the item as that query feed rewrote it
        self._matched: dict[int, MatchedBranches] = {}  # query → branches of its main sources
        self._joined: dict[int, tuple[int, ItemFeatures]] = {}  # owner of a join's sources → its first matched branch
        self._waiting_rules: dict[int, list[ConditionRule]] = {}
        self._ready_feeds: dict[int, list[tuple[int, DerivedFeed]]] = {}
        self._published_stories: set[int] = set()
        self._stories: StoryPass | None = None
        if story is not None:
            self._stories = StoryPass(story, item_features, self._rewritten, query_feeds.list_view_rules)
            item_features.stories = self._stories

    def run(self, rules: Iterable[ConditionRule]) -> None:
        for rule in rules:
            if rule.level:
                self._waiting_rules.setdefault(rule.level, []).append(rule)
            elif rule.stamp != self._stamp:  # most rules, so they are not queued first
                rule.stamp = self._stamp
                self._try_rule(rule)
        while self._waiting_rules or self._ready_feeds:
            level = min([*self._waiting_rules, *self._ready_feeds])
            for rule in self._waiting_rules.pop(level, ()):
                self._try_once(rule)
            for number, derived in self._ready_feeds.pop(level, ()):
                try:
                    self._emit_derived(number, derived)
                except Exception as error:  # as in `_try_rule`
                    self._add_failures((number,), error)
        for number, branches in self._matched.items():
            self._emit_filtered(number, branches)
        self._remember_joined()
        if self._stories is not None:
            self._update_stories(self._stories)

    def _queue_rules(self, rules: Iterable[ConditionRule]) -> None:
        for rule in rules:
            self._waiting_rules.setdefault(rule.level, []).append(rule)

    def _try_once(self, rule: ConditionRule) -> None:
        if rule.stamp != self._stamp:
            rule.stamp = self._stamp
            self._try_rule(rule)

    def _try_rule(self, rule: ConditionRule) -> None:
        item_features, tree, reached = self._item_features, rule.tree, NOWHERE
        try:
            if len(rule.sources) > 1 or self._rewritten:
                reached = list(match_sources(rule, item_features, self._rewritten))
            elif rule.sources[0] in item_features.features and condition_holds(tree, item_features):
                reached = ((0, item_features),)
        except Exception as error:  # a bug in one condition must not hide the item from all other queries
            self._add_failures({*rule.plain, *(owner >> PART_BITS for owner in rule.owners)}, error)
            return
        if not reached:
            return
        self.plain += rule.plain
        for owner, numbers in zip(rule.owners, rule.numbers, strict=True):
            if owner & PART_MASK:
                for position, through in reached:
                    found = (numbers[position][0], through)
                    if found[0] <= self._joined.setdefault(owner, found)[0]:
                        self._joined[owner] = found
                continue
            query = owner >> PART_BITS
            branches = self._matched.get(query)
            if branches is None:
                branches = self._matched[query] = {}
                entry = self._query_feeds.entries[query]
                if entry is not None and entry.derived is not None:
                    self._ready_feeds.setdefault(entry.derived.level, []).append((query, entry.derived))
            for position, through in reached:
                for number in numbers[position]:
                    branches[number] = through

    def _remember_joined(self) -> None:
        """Add the item to the windows of joins, after the main sources, so that it is not joined with itself."""
        for owner, (_, through) in self._joined.items():
            number = owner >> PART_BITS
            try:
                self._query_feeds.find_derived(number).remember_secondary((owner & PART_MASK) - 1, through)
            except Exception as error:  # as in `_try_rule`
                self._add_failures((number,), error)

    def _add_failures(self, numbers: Iterable[int], error: Exception) -> None:
        named = [entry.name for number in sorted(numbers) if (entry := self._query_feeds.entries[number]) is not None]
        self.failures += [MatchFailure(name, error) for name in named]

    def _emit_filtered(self, number: int, branches: MatchedBranches) -> None:
        """Add the hit of a query feed that only filters."""
        entry = self._query_feeds.entries[number]
        assert entry is not None
        item, original, memory = branches[min(branches)].analysed.item, self._item_features.analysed.item, self._memory
        update = memory is not None and memory.has_emitted(number, entry)
        fresh = not update and (memory is None or not memory.has_delivered(number, entry))
        self.hits.append(Hit(entry.name, item, original, frozenset(branches), None, update, fresh))
        self.numbers.append(number)

    def _update_stories(self, stories: StoryPass) -> None:
        """Count the item in all views of stories, and change the published stories that it has joined."""
        arrived = self._item_features.analysed.arrived
        for entry in self._query_feeds.views.values():
            ended = entry.view.drop_ended(arrived)
            facts = stories.find_facts(entry.view)
            for number in sorted(entry.numbers) if entry.view.keeps_items else ():
                derived = self._query_feeds.find_derived(number)
                derived.stories.difference_update(ended)
                if facts is not None and number not in self._published_stories:
                    hit = derived.emit_story(stories.story.story, facts, (), fresh=False)
                    self.hits += [] if hit is None else [hit]

    def _emit_story(self, number: int, derived: DerivedFeed, branches: MatchedBranches) -> None:
        facts = derived.find_facts(self._item_features)
        if self._stories is not None and facts is not None:
            hit = derived.emit_story(self._stories.story.story, facts, branches, fresh=True)
            self.hits += [] if hit is None else [hit]
            self._published_stories.add(number)

    def _emit_derived(self, number: int, derived: DerivedFeed) -> None:
        branches = self._matched.pop(number)
        if derived.query.each_story:
            self._emit_story(number, derived, branches)
            return
        entry = self._query_feeds.entries[number]
        assert entry is not None
        memory = self._memory
        update = memory is not None and memory.has_emitted(number, entry)
        emitted = derived.emit_item(branches, update, self._frequencies)
        if emitted is None:
            return
        fresh = not update and (memory is None or not memory.has_delivered(number, entry))
        original = self._item_features.analysed
        hit = Hit(entry.name, emitted.analysed.item, original.item, emitted.branches, emitted.related, update, fresh)
        self.hits.append(hit)
        self.numbers.append(number)
        if derived.readers:
            self._item_features.features.add(derived.feature)
            if emitted.analysed is not original:
                rewritten = self._index.make_item_features(emitted.analysed, self._item_features.source_features())
                rewritten.stories = self._stories
                self._rewritten[derived.feature] = rewritten
            self._queue_rules(self._index.list_rules(derived.feature))


class BackfillPass:
    """Passes past items through one query feed, to fill its document and windows without delivery.

    Words weigh what they would have weighed if the query had existed when the items arrived: `frequencies` count the
    past items.
    """

    def __init__(self, query_feeds: QueryFeeds, index: ConditionIndex, name: str) -> None:
        entry = query_feeds.find_entry(name)
        query = query_feeds.read_query(entry)
        self.number = query_feeds.find_number(name)
        self._name = entry.name
        self._derived_feed = entry.derived or DerivedFeed(entry.name, query)
        self._view: StoryView | None = None
        self._view_rules: list[ConditionRule] = []
        shared = self._derived_feed.view
        if shared is not None:  # it has met these items already, so a new one counts them in their order
            self._view = self._derived_feed.view = StoryView(shared.key, shared.keeps_items)
            self._view_rules = query_feeds.build_view_rules(query_feeds.views[shared.key].sources, unfold=False)
        self._shared_view = shared
        self.frequencies = WordFrequencies()
        track_compared_fields(query, self.frequencies)
        self._rules = list(query_feeds.build_rules(query, self._view, self.frequencies, unfold=False))
        self._index = index
        self._met: set[ItemKey] = set()
        self._emitted: set[ItemKey] = set()

    def finish(self) -> None:
        """Let the query count on from the past: the view of its sources takes the stories, if it is new."""
        if self._shared_view is not None and self._view is not None:
            if not len(self._shared_view):
                self._shared_view.restore(self._view.export_stories())
            self._derived_feed.view = self._shared_view

    def pass_item(
        self, item_features: ItemFeatures, emitted: Mapping[str, Item], story: ItemStory | None = None
    ) -> Hit | None:
        """Pass the next past item. `emitted` holds it as published by the query feeds that this feed reads."""
        key = item_features.analysed.key
        if key not in self._met:
            self._met.add(key)
            self.frequencies.count_item(item_features.analysed)
        rewritten: dict[str, ItemFeatures] = {}
        if story is not None and self._view is not None:
            item_features.stories = StoryPass(story, item_features, rewritten, lambda _: self._view_rules)
        for name, item in emitted.items():
            feature = query_feed_feature(name)
            if item != item_features.analysed.item:
                analysed = item_features.analysed.with_item(item)
                rewritten[feature] = self._index.make_item_features(analysed, item_features.source_features())
                rewritten[feature].stories = item_features.stories
            item_features.features.add(feature)
        parts: dict[int, MatchedBranches] = {}
        for part, rule, numbers in self._rules:
            for position, reached in match_sources(rule, item_features, rewritten):
                parts.setdefault(part, {}).update(dict.fromkeys(numbers[position], reached))
        if self._view is not None:
            self._view.drop_ended(item_features.analysed.arrived)
        facts = self._derived_feed.find_facts(item_features)
        if self._derived_feed.query.each_story:
            branches = parts.get(0, {})
            return (
                None
                if story is None or facts is None
                else self._derived_feed.emit_story(story.story, facts, branches, fresh=False)
            )
        update = key in self._emitted
        found = self._derived_feed.emit_item(parts.pop(0, {}), update, self.frequencies)
        for part, branches in parts.items():
            self._derived_feed.remember_secondary(part - 1, branches[min(branches)])
        if found is None:
            return None
        self._emitted.add(key)
        return Hit(
            self._name,
            found.analysed.item,
            item_features.analysed.item,
            found.branches,
            found.related,
            update,
            fresh=False,
        )
