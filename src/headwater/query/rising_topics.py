"""Finds words that are common in today's headlines and were rare in the days before."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.query.items.tokens import split_words

MIN_ITEMS, MIN_FEEDS = 3, 2
MIN_LETTERS = 4  # shorter words are mostly grammar
_COMMON_WORDS = frozenset({
    "about", "after", "again", "against", "also", "amid", "among", "another", "back", "been", "before", "being",
    "between", "both", "could", "does", "down", "during", "each", "first", "from", "have", "having", "here", "into",
    "just", "last", "like", "made", "make", "many", "more", "most", "much", "must", "near", "never", "next", "only",
    "other", "over", "part", "says", "same", "should", "since", "some", "still", "such", "than", "that", "their",
    "them", "then", "there", "these", "they", "this", "those", "three", "through", "time", "today", "under", "until",
    "very", "want", "week", "were", "what", "when", "where", "which", "while", "will", "with", "without", "would",
    "year", "years", "your", "dass", "eine", "einer", "einem", "einen", "nicht", "sich", "auch", "nach", "wird",
    "sind", "dans", "avec", "pour", "plus", "cette", "para", "como",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrendingTopic:
    """A word, or a pair of words, with today's items and feeds and its earlier frequency."""

    text: str
    items: tuple[int, ...]
    feeds: int
    before: float  # items per day

    @property
    def factor(self) -> float:
        """Return today's number of items relative to the usual one, which is at least one item per day."""
        return len(self.items) / max(self.before, 1.0)


def find_rising_topics(
    titles: Iterable[tuple[int, int, float, str]], now: float, days: float, limit: int = 10
) -> list[TrendingTopic]:
    """Find topics of the last day compared with the `days` before; `titles` are (item, feed, time, title).

    >>> day = 86_400.0
    >>> old = [(k, k, -k * day / 2, f"Budget talks number {k}") for k in range(3, 9)]
    >>> new = [(10 + k, k, -60.0, "Volcano erupts again") for k in range(3)]
    >>> [topic.text for topic in find_rising_topics([*old, *new], 0.0, 4.0)]
    ['volcano erupts']
    """
    today: dict[str, dict[int, int]] = defaultdict(dict)
    before: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    for item, feed, at, title in titles:
        for term in _list_title_terms(title):
            if at >= now - 86_400:
                today[term].setdefault(item, feed)
                shown[term] += 1
            else:
                before[term] += 1
    found = []
    for term, items in today.items():
        feeds = len(set(items.values()))
        usual = before[term] / max(days, 1.0)
        if len(items) >= MIN_ITEMS and feeds >= MIN_FEEDS and len(items) > 2 * usual + 1:
            score = len(items) * math.log(len(items) / (usual + 0.5))
            found.append((score + 0.01 * (" " in term), TrendingTopic(term, tuple(items), feeds, usual)))
    found.sort(key=lambda pair: (-pair[0], pair[1].text))
    return _drop_overlapping([topic for _, topic in found], limit)


def _list_title_terms(title: str) -> set[str]:
    cut = split_words(title)
    good = [len(word) >= MIN_LETTERS and word not in _COMMON_WORDS and not word.isdigit() for word in cut]
    pairs = {f"{cut[k]} {cut[k + 1]}" for k in range(len(cut) - 1) if good[k] and good[k + 1]}
    return {word for word, fits in zip(cut, good, strict=True) if fits} | pairs


def _drop_overlapping(topics: list[TrendingTopic], limit: int) -> list[TrendingTopic]:
    """Drop topics that share most of their items with a better topic."""
    kept: list[TrendingTopic] = []
    for topic in topics:
        mine = set(topic.items)
        if all(len(mine & set(other.items)) <= 0.6 * len(mine) for other in kept):
            kept.append(topic)
            if len(kept) == limit:
                break
    return kept
