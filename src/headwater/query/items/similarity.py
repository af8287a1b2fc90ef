"""Compares texts by the cosine of tf-idf, and fields of two items by value or similarity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import cached_property
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from headwater.language.ast import Field
from headwater.query.items.analysed_item import AnalysedItem, list_language_prefixes

WordBag = Mapping[str, int]
TermWeight = Callable[[str], float]

COUNTED_ITEMS = 100_000  # when this many items are counted, all counts are halved, so that old items fade
TOLERANCE = 1e-9  # equal texts have the cosine 1 despite rounding
ROUNDING_MARGIN = 1e-12


class WordFrequencies:
    """Counts the recent items that contain each word, for the fields that some query compares."""

    def __init__(self, remembered: int = COUNTED_ITEMS) -> None:
        self._remembered = remembered
        self._items: dict[Field, float] = {}
        self._counts: dict[Field, Counter[str]] = {}
        self._weights: dict[Field, WordWeights] = {}  # until the next item is counted

    def track_field(self, field: Field) -> None:
        self._items.setdefault(field, 0.0)
        self._counts.setdefault(field, Counter())

    def count_item(self, analysed: AnalysedItem) -> None:
        """Count a new item, before it is compared."""
        self._weights.clear()
        for field, counts in self._counts.items():
            terms = _list_field_terms(analysed, field)
            if not terms:
                continue
            self._items[field] += 1
            counts.update(terms)
            if self._items[field] >= self._remembered:
                self._items[field] /= 2
                self._counts[field] = Counter({term: count / 2 for term, count in counts.items() if count >= 1})

    def export_counts(self) -> dict[Field, tuple[float, dict[str, float]]]:
        """Return all counts for `restore`."""
        return {field: (self._items[field], dict(counts)) for field, counts in self._counts.items()}

    def restore(self, counted: Mapping[Field, tuple[float, Mapping[str, float]]]) -> None:
        self._weights.clear()
        for field, (items, counts) in counted.items():
            self._items[field] = items
            self._counts[field] = Counter(counts)

    def adopt_counts(self, other: WordFrequencies) -> None:
        """Take the counts of fields for which no item has been counted yet."""
        self.restore({field: found for field, found in other.export_counts().items() if not self._items.get(field)})

    def field_weights(self, field: Field) -> WordWeights:
        """Return the inverse document frequencies of the field: ln((1 + items) / (1 + items with the word)) + 1.

        >>> WordFrequencies().field_weights(Field.TITLE)("volcano")
        1.0
        """
        found = self._weights.get(field)
        if found is None:
            found = self._weights[field] = WordWeights(self._items.get(field, 0.0), self._counts.get(field, Counter()))
        return found


class WordWeights:
    """The current weights of words in a field. Many queries compare one text, so the last one stays weighed."""

    def __init__(self, items: float, counts: Counter[str]) -> None:
        self._items = items
        self._counts = counts
        self._last: WeighedBag | None = None

    def __call__(self, term: str) -> float:
        return log((1 + self._items) / (1 + self._counts.get(term, 0.0))) + 1

    def square_weights(self, terms: Collection[str]) -> NDArray[np.float64]:
        """Return the squared weights of many words, up to rounding."""
        counts = np.fromiter(map(self._counts.__getitem__, terms), np.float64, len(terms))
        weights: NDArray[np.float64] = np.log((1 + self._items) / (1 + counts)) + 1
        return weights * weights

    def weigh_bag(self, bag: WordBag) -> WeighedBag:
        if self._last is None or self._last.bag is not bag:
            self._last = WeighedBag(bag, self)
        return self._last


class WeighedBag:
    """A bag of words with the contribution of each word to its squared length, in the order of the bag."""

    def __init__(self, bag: WordBag, weights: WordWeights) -> None:
        squares = weights.square_weights(bag)
        counts = np.fromiter(bag.values(), np.float64, len(bag))
        self.bag = bag
        self.shares: NDArray[np.float64] = counts * counts * squares
        self.length = float(self.shares.sum())
        self._weights = weights
        self._squares = _SquaredWeights(zip(bag, squares.tolist(), strict=True))
        self._squares.weights = weights

    @cached_property
    def share_list(self) -> list[float]:
        found: list[float] = self.shares.tolist()
        return found

    def count_needed(self, at: float) -> float:
        """Return the part of the squared length that a text must share to be similar, with a margin for rounding."""
        return self.length * max(0.0, at - TOLERANCE) ** 2 * (1 - TOLERANCE)

    def is_similar(self, other: WordBag, at: float) -> bool:
        """Return the same as the function `is_similar`, which it asks near the limit."""
        bag, squares = self.bag, self._squares
        shared = [term for term in other if term in bag]
        # by Cauchy-Schwarz, the shared words must carry enough of the squared length
        if sum([bag[term] ** 2 * squares[term] for term in shared]) < self.count_needed(at):
            return False
        dot = sum([bag[term] * other[term] * squares[term] for term in shared])
        if not dot:
            return at <= TOLERANCE
        found = dot / sqrt(self.length * sum([count * count * squares[term] for term, count in other.items()]))
        if abs(found - at + TOLERANCE) < ROUNDING_MARGIN:
            return is_similar(bag, other, self._weights, at)
        return found >= at - TOLERANCE


class _SquaredWeights(dict[str, float]):
    """Caches the squared weights of words."""

    weights: WordWeights

    def __missing__(self, term: str) -> float:
        found = self[term] = self.weights(term) ** 2
        return found


def cosine_similarity(one: WordBag, other: WordBag, weight: TermWeight) -> float:
    """Return the cosine of two bags of words under tf-idf; 0 without a common word.

    >>> round(cosine_similarity({"ash": 1, "cloud": 1}, {"ash": 1}, lambda term: 1.0), 3)
    0.707
    """
    shared = one.keys() & other.keys()
    if not shared:
        return 0.0
    weights = {term: weight(term) ** 2 for term in one.keys() | other.keys()}
    dot = sum(one[term] * other[term] * weights[term] for term in sorted(shared))
    return dot / (_vector_length(one, weights) * _vector_length(other, weights))


def _vector_length(bag: WordBag, weights: Mapping[str, float]) -> float:
    return sqrt(sum(count * count * weights[term] for term, count in sorted(bag.items())))


def is_similar(one: WordBag, other: WordBag, weight: TermWeight, at: float) -> bool:
    return cosine_similarity(one, other, weight) >= at - TOLERANCE


def _list_field_terms(analysed: AnalysedItem, field: Field) -> Collection[str]:
    """Return the set of words of the field. It uses the bags of words, which are needed for the comparison anyway,
    except for ITEM, which is compared as one text."""
    if field is Field.ITEM:
        return analysed.distinct_words(field)
    bags = analysed.word_bags(field)
    return bags[0].keys() if len(bags) == 1 else {term for bag in bags for term in bag}


def equality_keys(analysed: AnalysedItem, field: Field, other: Field) -> frozenset[Hashable]:
    """Return the values of which an item must share one with the field `other` of another item to be equal to it;
    empty if the field is missing.

    Two ITEMs are compared as a whole: two items with a common category are not copies.
    """
    if field is other is Field.ITEM:
        return frozenset(filter(None, (analysed.joined_words(Field.ITEM),)))
    if field is Field.LANGUAGE:
        return frozenset(list_language_prefixes(tag)[-1] for tag in analysed.field_texts(field))
    if field.is_text:
        return analysed.comparable_values(field)
    if field.is_date:
        date = analysed.field_date(field)
        return frozenset() if date is None else frozenset({date})
    if field is Field.SIZE:
        return frozenset({analysed.size}) if analysed.size else frozenset()
    return frozenset({analysed.source})


def list_word_bags(analysed: AnalysedItem, field: Field) -> tuple[WordBag, ...]:
    """Return the bags of words to compare, one per value; ITEM is one text."""
    return analysed.whole_bag if field is Field.ITEM else analysed.word_bags(field)


def fields_match(
    one: AnalysedItem, field: Field, other: AnalysedItem, other_field: Field, at: float | None, weight: TermWeight
) -> bool:
    """Return whether the fields are equal or, with `at`, at least that similar."""
    if at is None:
        return not equality_keys(one, field, other_field).isdisjoint(equality_keys(other, other_field, field))
    return any(
        is_similar(mine, theirs, weight, at)
        for mine in list_word_bags(one, field)
        for theirs in list_word_bags(other, other_field)
    )
