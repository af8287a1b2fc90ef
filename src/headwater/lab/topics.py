"""Which subjects the feeds of a trace publish on, by lists of keywords (thesis 6.1), and simple standing queries.

A feed publishes on a subject if one of the subject's words is in its name or in the categories of one of its items.
`Keywords` is a query in the plainest sense: an item matches if its title or categories have one of the words. Whatever
turns a title and categories into True or False can take its place (`Predicate`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from headwater.errors import TraceError
from headwater.estimate.base import Bools, Floats
from headwater.lab.traces import Trace

ItemTest = Callable[[str, str], bool]  # title, categories → wanted?

SUBJECTS: dict[str, str] = {
    "economy": "economy business trade transaction deal operation commercial finance market sale auction euro money "
    "budget crisis",
    "politics": "politics political government election parliament president minister vote law policy nation world",
    "sport": "sport sports football soccer tennis basketball cricket rugby olympic league match",
    "culture": "culture art arts music film cinema theatre book books literature entertainment television",
    "science": "science research physics biology chemistry astronomy space study university",
    "technology": "technology tech computer software internet web mobile data code programming security release "
    "version",
    "health": "health medicine medical hospital disease doctor virus covid vaccine",
    "society": "society people general life family education school religion justice",
    "environment": "environment climate weather energy nature ecology animal",
    "travel": "travel tourism hotel flight holiday city",
}

_WORD = re.compile(r"\w+")


def fold_words(text: str | None) -> set[str]:
    """The words of a text, folded.

    >>> sorted(fold_words("Money; the EURO!"))
    ['euro', 'money', 'the']
    """
    return {word.casefold() for word in _WORD.findall(text or "")}


def find_subjects(trace: Trace) -> dict[str, Bools]:
    """For every subject, which feeds publish on it."""
    keys = {subject: frozenset(text.split()) for subject, text in SUBJECTS.items()}
    found = {subject: np.zeros(trace.feeds, dtype=bool) for subject in keys}
    memory: dict[str, frozenset[str]] = {}

    def named(text: str) -> frozenset[str]:
        if text not in memory:
            here = fold_words(text)
            memory[text] = frozenset(subject for subject, key in keys.items() if here & key)
        return memory[text]

    for feed, name in enumerate(trace.names):
        for subject in named(name):
            found[subject][feed] = True
    if trace.categories is not None:
        owner = trace.item_feeds()
        for feed, text in {(int(owner[k]), text) for k, text in enumerate(trace.categories) if text}:
            for subject in named(text):
                found[subject][feed] = True
    return found


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """Items that have at least one of these words in their title or categories."""

    any_of: frozenset[str]

    @classmethod
    def from_words(cls, *any_of: str) -> KeywordQuery:
        folded = frozenset(word.casefold() for word in any_of if word.strip())
        if not folded:
            raise TraceError("A query without words keeps nothing; give at least one.")
        return cls(folded)

    def __call__(self, title: str, categories: str) -> bool:
        return not self.any_of.isdisjoint(fold_words(title) | fold_words(categories))


def match_items(trace: Trace, query: ItemTest) -> Bools:
    """Which items a standing query keeps."""
    if trace.titles is None and trace.categories is None:
        raise TraceError("The trace has neither titles nor categories, so a query cannot be asked; give one that has.")
    count = len(trace.times)
    titles: Iterable[str | None] = trace.titles if trace.titles is not None else (None for _ in range(count))
    categories: Iterable[str] = trace.categories if trace.categories is not None else ("" for _ in range(count))
    return np.fromiter((query(t or "", c) for t, c in zip(titles, categories, strict=True)), dtype=bool, count=count)


def share_matched(trace: Trace, kept: Bools) -> Floats:
    """The share of each feed's items that a query keeps; 0 for a feed without items."""
    hits = np.bincount(trace.item_feeds()[kept], minlength=trace.feeds)
    return np.asarray(hits / np.maximum(trace.counts, 1))
