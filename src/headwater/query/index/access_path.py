"""Through which words a query finds its items, in words: the engine's choice, for those who ask why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.language.ast import Query
from headwater.language.formatter import format_source
from headwater.language.normal_form import list_sources
from headwater.query.index import features
from headwater.query.index.condition_tree import build_tree, find_access_path
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.similarity import WordFrequencies
from headwater.query.items.tokens import SEPARATOR

SAMPLE_INTERVAL = 8  # one item in so many is counted
REMEMBERED_ITEMS = 2_048  # counted items; then all counts are halved
UNSEEN_SHARES = {"*": 0.02, "^": 0.02, "~": 0.05, "@": 0.01}
"""Guesses for what is not counted: starts of words, patterns, sources of which nothing has come yet."""


class FeatureShares:
    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._items = 0.0
        self._observed = 0

    def observe_item(self, features: Iterable[str]) -> None:
        """An item has come; one in `SAMPLE` is counted, the first ones all."""
        self._observed += 1
        if self._observed % SAMPLE_INTERVAL and self._items >= 256:
            return
        self._counts.update(features)
        self._items += 1
        if self._items >= REMEMBERED_ITEMS:
            self._items /= 2
            # a word met once in so many items is as good as one never met: this keeps the table small
            self._counts = Counter({feature: count / 2 for feature, count in self._counts.items() if count > 1})

    def estimate_share(self, feature: str) -> float:
        """The share of items with the feature. What has never been met is the rarer the longer it is."""
        count = self._counts.get(feature)
        if count is not None:
            return count / self._items
        if feature == "@all":
            return 1.0
        guess = UNSEEN_SHARES.get(feature[0] if feature[0] == "@" else feature[1:2])
        return guess if guess is not None else 0.5 / (self._items + 1000) / (1 + len(feature))

    def export_counts(self) -> tuple[float, dict[str, float]]:
        return self._items, dict(self._counts)

    def restore(self, items: float, counts: dict[str, float]) -> None:
        self._items = items
        self._counts = Counter(counts)


_MARK_WORDS = {
    ":": "",
    "!": "exactly ",
    "=": "is ",
    "*": "starting with ",
    "^": "starting exactly with ",
    "~": "matching ",
}


@dataclass(frozen=True, slots=True)
class AccessExplanation:
    """One source of a query: the terms of which an item must have one to be looked at, and what share of items does.

    Without terms every item of the source is looked at.
    """

    source: str
    terms: tuple[str, ...]
    share: float


def count_feature_shares(items: Iterable[AnalysedItem]) -> FeatureShares:
    """How common words are, counted on some items."""
    counted = FeatureShares()
    for seen in items:
        words: set[str] = set()
        for field in features.FIELD_CODES:
            for word in seen.joined_words(field).split():
                if word != SEPARATOR.strip():
                    words.add(features.word_feature(field, word))
        counted.observe_item(words)
    return counted


def explain_access(query: Query, counted: FeatureShares) -> list[AccessExplanation]:
    """How the items of each source are found.

    >>> from headwater.language import parse
    >>> text = 'CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "ash cloud" AND NOT CATEGORY = "art"'
    >>> (create,) = parse(text).queries
    >>> explain_access(create.query, FeatureShares())[0].terms
    ('TITLE cloud',)
    """
    found = []
    for leaf in list_sources(query):
        way = find_access_path(build_tree(leaf.condition, WordFrequencies()), counted.estimate_share)
        terms = () if way is None else tuple(map(_describe_feature, way.keys))
        found.append(AccessExplanation(format_source(leaf.source), terms, 1.0 if way is None else min(way.cost, 1.0)))
    return found


def _describe_feature(feature: str) -> str:
    if features.find_channel(feature) == features.ITEM_WORDS and not feature.startswith(features.ITEM_WORDS):
        return f"ITEM {feature}"
    return f"{features.FIELDS_BY_CODE[feature[0]]} {_MARK_WORDS[feature[1]]}{feature[2:]}"
