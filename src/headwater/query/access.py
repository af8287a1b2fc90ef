"""Through which words a query finds its items, in words: the engine's choice, for those who ask why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.language.ast import Query
from headwater.language.fmt import format_source
from headwater.language.normal import leaves
from headwater.query import features
from headwater.query.nodes import access, node
from headwater.query.shares import Shares
from headwater.query.similar import Frequencies
from headwater.query.text import Analysed
from headwater.query.words import SEPARATOR

_MARKS = {":": "", "!": "exactly ", "=": "is ", "*": "starting with ", "^": "starting exactly with ", "~": "matching "}


@dataclass(frozen=True, slots=True)
class Way:
    """One source of a query: the terms of which an item must have one to be looked at, and what share of items does.

    Without terms every item of the source is looked at.
    """

    source: str
    terms: tuple[str, ...]
    share: float


def shares(items: Iterable[Analysed]) -> Shares:
    """How common words are, counted on some items."""
    counted = Shares()
    for seen in items:
        words: set[str] = set()
        for field in features.CODES:
            for word in seen.joined(field).split():
                if word != SEPARATOR.strip():
                    words.add(features.word(field, word))
        counted.observe(words)
    return counted


def ways(query: Query, counted: Shares) -> list[Way]:
    """How the items of each source are found.

    >>> from headwater.language import parse
    >>> text = 'CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "ash cloud" AND NOT CATEGORY = "art"'
    >>> (create,) = parse(text).queries
    >>> ways(create.query, Shares())[0].terms
    ('TITLE cloud',)
    """
    found = []
    for leaf in leaves(query):
        way = access(node(leaf.condition, Frequencies()), counted.cost)
        terms = () if way is None else tuple(map(_said, way.keys))
        found.append(Way(format_source(leaf.source), terms, 1.0 if way is None else min(way.cost, 1.0)))
    return found


def _said(feature: str) -> str:
    if features.channel(feature) == features.PLAIN and not feature.startswith(features.PLAIN):
        return f"ITEM {feature}"
    return f"{features.FIELDS[feature[0]]} {_MARKS[feature[1]]}{feature[2:]}"
