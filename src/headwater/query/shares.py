"""Which share of recent items has a feature: what an index key costs. Counted on a sample that fades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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
