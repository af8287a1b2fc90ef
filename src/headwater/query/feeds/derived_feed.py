"""Evaluates a query feed that joins, deduplicates or rewrites items, or that other query feeds read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.language.ast import DEFAULT_DISTINCT_WINDOW, JoinKind, Query
from headwater.query.feeds.compared_texts import ComparedFields
from headwater.query.feeds.look_back_window import LookBackWindow
from headwater.query.feeds.templates import rewrite_item
from headwater.query.hits import Hit
from headwater.query.index.features import ItemFeatures
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.related_item import Related
from headwater.query.items.similarity import WordFrequencies
from headwater.query.query_document import ItemKey
from headwater.query.stories.story_items import ItemId
from headwater.query.stories.story_views import MAX_RELATED, StoryFacts, StoryView


def query_feed_feature(name: str) -> str:
    """Return the feature of the items that a query feed publishes."""
    return f"@q{name.casefold()}"


@dataclass(slots=True, eq=False)
class DerivedFeed:
    """A query feed that is evaluated after the feeds it reads, with its windows.

    `compared` holds the values in the windows of all feeds. `level` is 0 if it reads source feeds only. `rewrites` says
    that it may change items. `readers` are the keys of the query feeds that read it. `secondaries` are the windows of
    its joins, `firsts` is the window of DISTINCT. `view` counts the items of stories, `stories` are those that EACH
    STORY has published. `feature` is that of the items it publishes.
    """

    name: str
    query: Query
    compared: ComparedFields = field(default_factory=ComparedFields)
    level: int = 0
    rewrites: bool = False
    readers: set[str] = field(default_factory=set)
    secondaries: list[LookBackWindow] = field(default_factory=list)
    firsts: LookBackWindow | None = None
    view: StoryView | None = None
    stories: set[ItemId] = field(default_factory=set)
    feature: str = ""

    def __post_init__(self) -> None:
        self.feature = query_feed_feature(self.name)
        self.secondaries = [
            LookBackWindow(join.within, join.other, join.field, join.at, self.compared) for join in self.query.joins
        ]
        distinct = self.query.distinct
        if distinct is not None:
            within, field = distinct.within or DEFAULT_DISTINCT_WINDOW, distinct.field
            self.firsts = LookBackWindow(within, field, field, distinct.at, self.compared)

    def emit_item(
        self, matched: Mapping[int, ItemFeatures], before: bool, frequencies: WordFrequencies
    ) -> DerivedItem | None:
        """Return the item as the feed emits it, or None if a join or DISTINCT excludes it.

        `matched` are the branches that the item matched. An item emitted `before` is not joined or compared again.
        """
        if not matched:
            return None
        analysed = matched[min(matched)].analysed
        related: tuple[Related, ...] | None = None
        if not before:
            found = self._find_joined(analysed, frequencies)
            if found is None or self._is_repeat(analysed, frequencies):
                return None
            related = found if self.secondaries else None
        facts = self.find_facts(matched[min(matched)])
        values = {} if facts is None else facts.template_values()
        return DerivedItem(rewrite_item(analysed, self.query.settings, values), frozenset(matched), related)

    def clear_windows(self) -> None:
        """Drop the entries of all windows, because the feed or its definition is gone."""
        for window in (*self.secondaries, *([] if self.firsts is None else [self.firsts])):
            window.clear()

    def find_facts(self, item_features: ItemFeatures) -> StoryFacts | None:
        """Return the story of the item, as this feed counts it."""
        stories = item_features.stories
        return None if stories is None or self.view is None else stories.find_facts(self.view)

    def emit_story(self, story: ItemId, facts: StoryFacts, branches: Collection[int], fresh: bool) -> Hit | None:
        """Return the story as the feed publishes it: its first item, with the later ones as related items.

        A story is published when an item meets the conditions (`branches`), and changed by every later item.
        """
        first, *later = facts.members
        update = story in self.stories
        if first.outline is None or not (update or branches):
            return None
        self.stories.add(story)
        item, origin = first.outline
        analysed = rewrite_item(AnalysedItem(item, origin, first.at), self.query.settings, facts.template_values())
        related = tuple(member.related for member in later[-MAX_RELATED:] if member.related is not None)
        fresh = fresh and not update
        return Hit(self.name, analysed.item, item, frozenset(branches), related, update, fresh, origin)

    def remember_secondary(self, number: int, item_features: ItemFeatures) -> None:
        """Add an item of the secondary side of a join to its window."""
        self.secondaries[number].add_item(item_features.analysed)

    def _find_joined(self, analysed: AnalysedItem, frequencies: WordFrequencies) -> tuple[Related, ...] | None:
        """Return the related items of all joins in order of arrival, or None if a join excludes the item."""
        if not self.secondaries:
            return ()
        related: dict[ItemKey, Related] = {}
        for join, window in zip(self.query.joins, self.secondaries, strict=True):
            matches = window.find_matches(analysed, frequencies.field_weights(join.field))
            found = [other for other in matches if other.key != analysed.key]  # not an earlier version of itself
            if bool(found) is (join.kind is JoinKind.ANTI) and join.kind is not JoinKind.LEFT:
                return None
            related |= {other.key: other for other in found}
        return tuple(sorted(related.values(), key=lambda other: other.first_seen))

    def _is_repeat(self, analysed: AnalysedItem, frequencies: WordFrequencies) -> bool:
        """Return whether DISTINCT suppresses the item; if not, add it to the window."""
        if self.firsts is None:
            return False
        matches = self.firsts.find_matches(analysed, frequencies.field_weights(self.firsts.other))
        if any(other.key != analysed.key for other in matches):  # its own entry is left from a failed attempt
            return True
        self.firsts.add_item(analysed)
        return False


class DerivedItem(NamedTuple):
    """An item as a derived feed emits it: rewritten, with matched branches and related items."""

    analysed: AnalysedItem
    branches: frozenset[int]
    related: tuple[Related, ...] | None
