"""Finds the texts in windows that are similar to a new one.

Similar texts are found through their rarest words: once the remaining words of a text carry less of its squared length
than the required cosine allows, a text that shares only those cannot be similar enough (Cauchy–Schwarz). Only the first
few words need a look-up, and nothing is missed.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Set
from math import floor

import numpy as np

from headwater.language.ast import Field
from headwater.query.feeds.held_values import EqualValues, HeldValues
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.similarity import TOLERANCE, WeighedBag, WordBag, WordWeights, list_word_bags

FEW_HOLDERS = 256  # texts with a word of the new one; below, adding them up one by one is faster than arrays
SEEN_SHARE = 0.75  # of the share that a text must have in common; beyond it, candidates are tested one by one
LEVELS = 10  # required cosines between two tenths share one look-up
NO_TEXTS = array("I")  # read-only

Bags = tuple[WordBag, ...]
"""The bags of words of a text: one for each value of its field."""


class ComparedTexts(HeldValues[Bags]):
    """The texts of one field, for the windows of all queries. The index lists their numbers for each word."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._index = _TextNumbers()
        self._search: _Search | None = None

    def read_values(self, analysed: AnalysedItem) -> Bags:
        return list_word_bags(analysed, self.field)

    def find(
        self, analysed: AnalysedItem, other: Field, at: float | None, weights: WordWeights, among: Set[int]
    ) -> Set[int]:
        search = self._search
        if (
            search is None
            or search.analysed is not analysed
            or search.other is not other
            or search.weights is not weights
        ):
            search = self._search = _Search(analysed, other, weights)
        assert at is not None
        level = floor(at * LEVELS) / LEVELS
        candidates = search.candidates.get(level)
        if candidates is None:
            found = (self._find_candidates(weighed, level) for weighed in search.weighed)
            candidates = search.candidates[level] = set().union(*found)
        return {number for number in among & candidates if self._is_similar(search, number, at)}

    def _is_similar(self, search: _Search, number: int, at: float) -> bool:
        known = search.similar.get((number, at))
        if known is None:
            bags = self.values[number] or ()
            known = any(weighed.is_similar(bag, at) for weighed in search.weighed for bag in bags)
            search.similar[number, at] = known
        return known

    def _add_to_index(self, number: int, values: Bags) -> None:
        for word in _list_words(values):
            self._index[word].append(number)

    def _remove_from_index(self, unused: Sequence[int]) -> None:
        gone = set(unused)
        for word in {word for number in unused for word in _list_words(self.values[number] or ())}:
            kept = array("I", [number for number in self._index[word] if number not in gone])
            if kept:
                self._index[word] = kept
            else:
                del self._index[word]
        self._search = None  # it may name numbers that are free now

    def _find_candidates(self, weighed: WeighedBag, at: float) -> list[int]:
        """Return all texts that can be similar enough, and few others.

        The rarest words are looked up until the remaining ones contribute so little to the squared length of the text
        that a candidate must have several of the words looked up. The remaining words are then tested on the
        candidates. If few texts have any of the words, all words are looked up.
        """
        if at <= TOLERANCE:
            return [number for number, bags in enumerate(self.values) if bags]
        shares, length = weighed.shares, weighed.length
        wanted = weighed.count_needed(at)
        words = list(weighed.bag)
        get = self._index.get
        holders = [get(word, NO_TEXTS) for word in words]
        if sum(map(len, holders)) < FEW_HOLDERS:
            return _add_shares(holders, weighed.share_list, wanted)
        many = np.fromiter(map(len, holders), np.int64, len(holders))
        order = np.argsort(many)
        covered = shares[order].cumsum()
        place = int(np.searchsorted(covered, length - wanted * SEEN_SHARE)) + 1
        first, rest = order[:place], order[place:]
        found = b"".join([holders[at] for at in first.tolist()])
        shared = np.bincount(np.frombuffer(found, np.uint32), np.repeat(shares[first], many[first]))
        remaining = shares[rest]
        possible = np.flatnonzero(shared >= wanted - float(remaining.sum()) * (1 + TOLERANCE))
        others = list(zip([words[at] for at in rest.tolist()], remaining.tolist(), strict=True))
        return [
            number
            for number, known in zip(possible.tolist(), shared[possible].tolist(), strict=True)
            if known + self._sum_shared(number, others) >= wanted
        ]

    def _sum_shared(self, number: int, shares: list[tuple[str, float]]) -> float:
        """Return the sum of the shares of the words that a text contains."""
        bags = self.values[number] or ()
        if len(bags) == 1:
            (bag,) = bags
            return sum([share for word, share in shares if word in bag])
        return sum(share for word, share in shares if any(word in bag for bag in bags))


class ComparedFields:
    """The values in all windows, by field and by how it is compared."""

    def __init__(self) -> None:
        self._texts: dict[Field, ComparedTexts] = {}
        self._equal: dict[tuple[Field, Field], EqualValues] = {}

    def find_texts(self, field: Field) -> ComparedTexts:
        """Return the texts of a field that are compared by similarity."""
        found = self._texts.get(field)
        if found is None:
            found = self._texts[field] = ComparedTexts(field)
        return found

    def find_equal(self, field: Field, other: Field) -> EqualValues:
        """Return the values of a field that must equal those of the field `other` of a new item."""
        found = self._equal.get((field, other))
        if found is None:
            found = self._equal[field, other] = EqualValues(field, other)
        return found


class _Search:
    """The findings for the current item: its candidates by level, and whether each is as similar as a query requires.

    A candidate is compared when a window that holds it asks: most windows hold few of the texts.
    """

    __slots__ = ("analysed", "candidates", "other", "similar", "weighed", "weights")

    def __init__(self, analysed: AnalysedItem, other: Field, weights: WordWeights) -> None:
        self.analysed, self.other, self.weights = analysed, other, weights
        self.weighed = [WeighedBag(bag, weights) for bag in list_word_bags(analysed, other)]
        self.candidates: dict[float, set[int]] = {}
        self.similar: dict[tuple[int, float], bool] = {}


class _TextNumbers(dict[str, "array[int]"]):
    """Maps a word to the numbers of the texts that have it."""

    def __missing__(self, word: str) -> array[int]:
        found = self[word] = array("I")
        return found


def _add_shares(holders: list[array[int]], shares: list[float], wanted: float) -> list[int]:
    """Return the texts whose shared words contribute enough."""
    shared: dict[int, float] = {}
    for numbers, share in zip(holders, shares, strict=True):
        for number in numbers:
            shared[number] = shared.get(number, 0.0) + share
    return [number for number, found in shared.items() if found >= wanted]


def _list_words(bags: Bags) -> Sequence[str]:
    return list(bags[0]) if len(bags) == 1 else list({word for bag in bags for word in bag})
