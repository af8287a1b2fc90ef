"""Through which words a query finds its items, in words: the engine's choice, for those who ask why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.language.ast import Query
from headwater.language.fmt import format_source
from headwater.language.normal import list_sources
from headwater.query import features
from headwater.query.nodes import build_tree, find_access_path
from headwater.query.shares import FeatureShares
from headwater.query.similar import WordFrequencies
from headwater.query.text import AnalysedItem
from headwater.query.words import SEPARATOR

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
