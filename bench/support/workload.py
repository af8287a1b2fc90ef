"""The workload of the matching benchmarks: items of 160 words from a Zipf vocabulary, and queries on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from headwater.language.ast import (
    AllSources,
    And,
    Branch,
    Condition,
    Contains,
    CreateFeed,
    FeedName,
    Field,
    Not,
    Query,
)
from headwater.model import Item, SafeHtml
from headwater.query.items.origin import Origin

VOCABULARY = 50_000
WORDS = 160
TITLE = 10
NEWS = Origin("news", "http://news.example/rss")

CONSONANTS, VOWELS = "bcdfghklmnprstvz", "aeiou"


def spell_word(rank: int) -> str:
    """Return a pronounceable word for a rank; commoner words are shorter, as in languages."""
    letters = []
    while True:
        rank, letter = divmod(rank, len(CONSONANTS) * len(VOWELS))
        letters.append(CONSONANTS[letter // len(VOWELS)] + VOWELS[letter % len(VOWELS)])
        if rank == 0:
            return "".join(letters)
        rank -= 1


@dataclass
class Workload:
    """Draws items and queries. Queries use words from rank `commonest` on, common ones more often."""

    seed: int = 7
    commonest: int = 500

    def __post_init__(self) -> None:
        self.words = [spell_word(rank) for rank in range(VOCABULARY)]
        shares = 1 / np.arange(1, VOCABULARY + 1)
        self._items = np.cumsum(shares / shares.sum())
        asked = shares[self.commonest :]
        self._asked = np.cumsum(asked / asked.sum())

    def items(self, count: int, seed: int = 1) -> list[Item]:
        rng = np.random.default_rng((self.seed, seed))
        ranks = np.searchsorted(self._items, rng.random((count, WORDS)))
        made = []
        for number, row in enumerate(ranks):
            words = [self.words[min(rank, VOCABULARY - 1)] for rank in row]
            title, content = " ".join(words[:TITLE]).capitalize(), " ".join(words[TITLE:]) + "."
            identity = f"{seed}-{number}"
            link = f"http://news.example/{identity}"
            made.append(Item(1, identity, identity, title, link, 0.0, True, None, 0.0, content=SafeHtml(content)))
        return made

    def queries(self, count: int, start: int = 0) -> Iterator[CreateFeed]:
        """Draw queries: four in ten have one word, three two words, and one each either of two, a phrase, one without
        another."""
        random = Random(self.seed + start)
        rng = np.random.default_rng((self.seed, start))
        for first in range(0, count, 1000):
            ranks = self.commonest + np.searchsorted(self._asked, rng.random((1000, 2)))
            for number in range(first, min(first + 1000, count)):
                one, two = (self.words[min(rank, VOCABULARY - 1)] for rank in ranks[number - first])
                yield create(f"q{start + number}", condition(random.random(), one, two))


def condition(kind: float, one: str, two: str) -> Condition:
    if kind < 0.4:
        return Contains(Field.ITEM, (one,))
    if kind < 0.7:
        return Contains(Field.ITEM, (one, two), all=True)
    if kind < 0.8:
        return Contains(Field.ITEM, (one, two))
    if kind < 0.9:
        return Contains(Field.ITEM, (f"{one} {two}",))
    return And((Contains(Field.ITEM, (one,)), Not(Contains(Field.ITEM, (two,)))))


def create(name: str, pred: Condition) -> CreateFeed:
    query = Query((Branch(AllSources()),), where=pred)
    return CreateFeed(FeedName(name), query, text=f"CREATE FEED {name} AS RETURN ALL WHERE {format_condition(pred)};")


def format_condition(pred: Condition) -> str:
    match pred:
        case Contains(_, values, every):
            joined = (" AND " if every else " OR ").join(f'"{value}"' for value in values)
            return f"ITEM CONTAINS {joined}"
        case And(parts):
            return " AND ".join(map(format_condition, parts))
        case Not(part):
            return f"NOT {format_condition(part)}"
        case _:
            raise TypeError(f"the workload has no {type(pred).__name__}")
