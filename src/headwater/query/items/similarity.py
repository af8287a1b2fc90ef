"""How alike two texts are: the cosine of their words, each weighing the more the fewer recent items have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from headwater.language.ast import Field
from headwater.query.items.analysed_item import AnalysedItem, list_language_prefixes

WordBag = Mapping[str, int]
TermWeight = Callable[[str], float]

COUNTED_ITEMS = 100_000  # items; when so many are counted, all counts are halved: old items fade
TOLERANCE = 1e-9  # equal texts have the cosine 1 in spite of rounding


class WordFrequencies:
    """In how many of the recent items each word stands, per field; only fields that some query compares are counted."""

    def __init__(self, remembered: int = COUNTED_ITEMS) -> None:
        self._remembered = remembered
        self._items: dict[Field, float] = {}
        self._counts: dict[Field, Counter[str]] = {}

    def track_field(self, field: Field) -> None:
        self._items.setdefault(field, 0.0)
        self._counts.setdefault(field, Counter())

    def count_item(self, seen: AnalysedItem) -> None:
        """Count an item, once, when it arrives and before it is compared."""
        for field, counts in self._counts.items():
            terms = _list_field_terms(seen, field)
            if not terms:
                continue
            self._items[field] += 1
            counts.update(terms)
            if self._items[field] >= self._remembered:
                self._items[field] /= 2
                self._counts[field] = Counter({term: count / 2 for term, count in counts.items() if count >= 1})

    def export_counts(self) -> dict[Field, tuple[float, dict[str, float]]]:
        """Everything that was counted, to be kept; `restore` takes it up again."""
        return {field: (self._items[field], dict(counts)) for field, counts in self._counts.items()}

    def restore(self, counted: Mapping[Field, tuple[float, Mapping[str, float]]]) -> None:
        for field, (items, counts) in counted.items():
            self._items[field] = items
            self._counts[field] = Counter(counts)

    def field_weights(self, field: Field) -> WordWeights:
        """The inverse document frequency of words in the field: ln((1 + items) / (1 + items with it)) + 1.

        >>> WordFrequencies().field_weights(Field.TITLE)("volcano")
        1.0
        """
        return WordWeights(self._items.get(field, 0.0), self._counts.get(field, Counter()))


class WordWeights:
    """What words weigh at this moment."""

    def __init__(self, items: float, counts: Counter[str]) -> None:
        self._items = items
        self._counts = counts

    def __call__(self, term: str) -> float:
        return log((1 + self._items) / (1 + self._counts.get(term, 0.0))) + 1

    def square_weights(self, terms: Collection[str]) -> NDArray[np.float64]:
        """The squares of the weights of many words, but for the last bit."""
        counts = np.fromiter(map(self._counts.__getitem__, terms), np.float64, len(terms))
        weights: NDArray[np.float64] = np.log((1 + self._items) / (1 + counts)) + 1
        return weights * weights


def cosine_similarity(one: WordBag, other: WordBag, weight: TermWeight) -> float:
    """The cosine of two bags of words under tf-idf; 0 when they share nothing.

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


def _list_field_terms(seen: AnalysedItem, field: Field) -> Collection[str]:
    """The different words of the field. What is counted is compared as well, so that its bags are made anyway, but for
    ITEM, which is compared as one text."""
    if field is Field.ITEM:
        return seen.distinct_words(field)
    bags = seen.word_bags(field)
    return bags[0].keys() if len(bags) == 1 else {term for bag in bags for term in bag}


def equality_keys(seen: AnalysedItem, field: Field) -> frozenset[Hashable]:
    """What must meet for two items to be equal in this field; empty where the field is missing, which equals nothing.

    A field of several values meets in one of them. ITEM is compared as a whole: sharing a category makes no copy.
    """
    if field is Field.ITEM:
        return frozenset(filter(None, (seen.joined_words(Field.ITEM),)))
    if field is Field.LANGUAGE:
        return frozenset(list_language_prefixes(tag)[-1] for tag in seen.field_texts(field))
    if field.is_text:
        return seen.comparable_values(field)
    if field.is_date:
        date = seen.field_date(field)
        return frozenset() if date is None else frozenset({date})
    if field is Field.SIZE:
        return frozenset({seen.size}) if seen.size else frozenset()
    return frozenset({seen.source})


def list_word_bags(seen: AnalysedItem, field: Field) -> tuple[WordBag, ...]:
    """The words to compare by similarity, per value; ITEM is one text."""
    if field is Field.ITEM:
        words = seen.joined_words(Field.ITEM).split()
        return (Counter(words),) if words else ()
    return seen.word_bags(field)


def fields_match(
    one: AnalysedItem, field: Field, other: AnalysedItem, other_field: Field, at: float | None, weight: TermWeight
) -> bool:
    """Whether the fields are equal or, where `at` is given, alike to that degree."""
    if at is None:
        return not equality_keys(one, field).isdisjoint(equality_keys(other, other_field))
    return any(
        is_similar(mine, theirs, weight, at)
        for mine in list_word_bags(one, field)
        for theirs in list_word_bags(other, other_field)
    )
