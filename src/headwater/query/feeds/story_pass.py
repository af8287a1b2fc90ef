"""Finds the story of one item for the query feeds that count it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headwater.query.index.condition_tree import ConditionRule, match_sources
from headwater.query.index.features import ItemFeatures
from headwater.query.stories.story_items import ItemStory
from headwater.query.stories.story_views import StoryFacts, StoryView


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
