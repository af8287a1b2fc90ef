"""Holds the texts that windows compare by similarity, once for all windows, and finds those that are like a new one.

Thousands of queries compare an item with the items that they have met before, and mostly the same ones. The texts of a
field have one index here, and an item is looked up once, for all windows that ask with about the same cosine.

Similar texts are found through their rarest words: once the remaining words of a text carry less of its squared length
than the required cosine allows, a text that shares only those cannot be similar enough (Cauchy–Schwarz). Only the first
few words need a look-up, and nothing is missed.

A text has a number, under which the index lists it for each of its words. Texts that no window holds any more stay in
the index until a quarter of all texts are unused: removing them one by one would cost more than skipping them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import floor

import numpy as np

from headwater.language.ast import Field
from headwater.query.items.similarity import TOLERANCE, WeighedBag, WordBag, WordWeights
from headwater.query.query_document import ItemKey

FEW_HOLDERS = 256  # texts with a word of the new one; below, adding them up one by one is faster than arrays
SEEN_SHARE = 0.75  # of the share that a text must have in common; beyond it, candidates are tested one by one
LEVELS = 10  # required cosines between two tenths share one look-up
LEAST_UNUSED = 64  # unused texts before the index is swept
NO_TEXTS = array("I")  # read-only

Bags = tuple[WordBag, ...]
"""The bags of words of a text: one for each value of its field."""


class ComparedTexts:
    """The texts of one field, for the windows of all queries."""

    def __init__(self) -> None:
        self.keys: list[ItemKey] = []  # by number: the item that has the text
        self._bags: list[Bags] = []  # by number
        self._uses = array("I")  # by number: windows that hold the text
        self._numbers: dict[ItemKey, int] = {}  # the latest text of each item
        self._index = _TextNumbers()
        self._unused: list[int] = []
        self._free: list[int] = []
        self._search: _Search | None = None

    def __len__(self) -> int:
        return len(self._bags) - len(self._unused) - len(self._free)

    def hold_text(self, key: ItemKey, bags: Bags) -> int:
        """Hold the text of an item for a window, and return its number."""
        number = self._numbers.get(key)
        if number is not None and self._bags[number] == bags:
            self._uses[number] += 1
            return number
        if self._free:
            number = self._free.pop()
            self.keys[number], self._bags[number], self._uses[number] = key, bags, 1
        else:
            number = len(self._bags)
            self.keys.append(key)
            self._bags.append(bags)
            self._uses.append(1)
        self._numbers[key] = number
        for word in _list_words(bags):
            self._index[word].append(number)
        return number

    def release_text(self, number: int) -> None:
        """Note that a window does not hold the text any more."""
        self._uses[number] -= 1
        if self._uses[number]:
            return
        key = self.keys[number]
        if self._numbers.get(key) == number:
            del self._numbers[key]
        self._unused.append(number)
        if len(self._unused) > max(LEAST_UNUSED, len(self) // 3):
            self._sweep()

    def _sweep(self) -> None:
        """Remove the unused texts from the index; their numbers become free."""
        unused = set(self._unused)
        for word in {word for number in self._unused for word in _list_words(self._bags[number])}:
            kept = array("I", [number for number in self._index[word] if number not in unused])
            if kept:
                self._index[word] = kept
            else:
                del self._index[word]
        for number in self._unused:
            self._bags[number] = ()
        self._free += self._unused
        self._unused = []
        self._search = None  # it may name numbers that are free now

    def find_similar(self, bag: WordBag, weights: WordWeights, at: float) -> Sequence[int]:
        """Return the numbers of the texts with at least this cosine to a text of the current item.

        A second window that asks about the same text gets the texts of the first look-up: meanwhile windows can only
        have added texts of the same item, which is never compared with itself.
        """
        weighed, search = weights.weigh_bag(bag), self._search
        if search is None or search.weighed is not weighed:
            search = self._search = _Search(weighed)
        found = search.found.get(at)
        if found is None:
            level = floor(at * LEVELS) / LEVELS
            candidates = search.candidates.get(level)
            if candidates is None:
                candidates = search.candidates[level] = self._find_candidates(weighed, level)
            found = search.found[at] = [
                number for number in candidates if any(weighed.is_similar(other, at) for other in self._bags[number])
            ]
        return found

    def _find_candidates(self, weighed: WeighedBag, at: float) -> list[int]:
        """Return all texts that can be similar enough, and few others.

        The rarest words are looked up until the remaining ones contribute so little to the squared length of the text
        that a candidate must have several of the words looked up. The remaining words are then tested on the
        candidates. If few texts have any of the words, all words are looked up.
        """
        if at <= TOLERANCE:
            return [number for number, bags in enumerate(self._bags) if bags]
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
        bags = self._bags[number]
        if len(bags) == 1:
            (bag,) = bags
            return sum([share for word, share in shares if word in bag])
        return sum(share for word, share in shares if any(word in bag for bag in bags))


class ComparedFields(dict[Field, ComparedTexts]):
    """The compared texts of each field."""

    def __missing__(self, field: Field) -> ComparedTexts:
        found = self[field] = ComparedTexts()
        return found


class _Search:
    """The findings for the text of the current item: candidates by level, and texts by the required cosine."""

    __slots__ = ("candidates", "found", "weighed")

    def __init__(self, weighed: WeighedBag) -> None:
        self.weighed = weighed
        self.candidates: dict[float, list[int]] = {}
        self.found: dict[float, list[int]] = {}


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
