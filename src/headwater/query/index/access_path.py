"""Estimates the share of items that have a feature, and explains the access paths that the engine chooses."""

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

SAMPLE_INTERVAL = 8  # every eighth item is counted
REMEMBERED_ITEMS = 2_048  # counted items before all counts are halved
UNSEEN_SHARES = {"*": 0.02, "^": 0.02, "~": 0.05, "@": 0.01}
"""Default shares for features without counts: prefixes, patterns, sources without items so far."""


class FeatureShares:
    """Counts features on a fading sample of the recent items."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._items = 0.0
        self._observed = 0

    def observe_item(self, features: Iterable[str]) -> None:
        """Count every `SAMPLE_INTERVAL`-th item; count all of the first items."""
        self._observed += 1
        if self._observed % SAMPLE_INTERVAL and self._items >= 256:
            return
        self._counts.update(features)
        self._items += 1
        if self._items >= REMEMBERED_ITEMS:
            self._items /= 2
            # dropping words that occurred once keeps the table small
            self._counts = Counter({feature: count / 2 for feature, count in self._counts.items() if count > 1})

    def estimate_share(self, feature: str) -> float:
        """Return the share of items with the feature. An unseen word counts as the rarer, the longer it is."""
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
    """One source of a query with its search terms and the share of items that have one of them.

    Only items with one of the terms are tested; without terms, every item of the source is.
    """

    source: str
    terms: tuple[str, ...]
    share: float


def count_feature_shares(items: Iterable[AnalysedItem]) -> FeatureShares:
    """Count how common words are among the given items."""
    counted = FeatureShares()
    for analysed in items:
        words: set[str] = set()
        for field in features.FIELD_CODES:
            for word in analysed.joined_words(field).split():
                if word != SEPARATOR.strip():
                    words.add(features.word_feature(field, word))
        counted.observe_item(words)
    return counted


def explain_access(query: Query, counted: FeatureShares) -> list[AccessExplanation]:
    """Explain how the items of each source are found.

    >>> from headwater.language import parse
    >>> text = 'CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "ash cloud" AND NOT CATEGORY = "art"'
    >>> (create,) = parse(text).queries
    >>> explain_access(create.query, FeatureShares())[0].terms
    ('TITLE cloud',)
    """
    found = []
    for query_source in list_sources(query):
        path = find_access_path(build_tree(query_source.condition, WordFrequencies()), counted.estimate_share)
        terms = () if path is None else tuple(map(_describe_feature, path.keys))
        found.append(
            AccessExplanation(format_source(query_source.source), terms, 1.0 if path is None else min(path.cost, 1.0))
        )
    return found


def _describe_feature(feature: str) -> str:
    if features.find_channel(feature) == features.ITEM_WORDS and not feature.startswith(features.ITEM_WORDS):
        return f"ITEM {feature}"
    return f"{features.FIELDS_BY_CODE[feature[0]]} {_MARK_WORDS[feature[1]]}{feature[2:]}"
