"""Runs queries over the items of a trace, and finds the subjects and words of its feeds.

A query is a function of title and categories: `compile_condition` makes one from the query language by the engine's own
code, `KeywordQuery` from a list of words. A feed publishes on a subject if one of the subject's words is in its own
categories, in those of one of its items, or in its name, which may be its address (thesis 6.1).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats
from headwater.errors import TraceError
from headwater.lab.traces.trace import Trace, load_trace
from headwater.language import parse
from headwater.language.ast import CreateFeed
from headwater.model import Item
from headwater.query.index.matchers import compile_matcher
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.items.similarity import WordFrequencies
from headwater.times import DAY

ItemTest = Callable[[str, str], bool]  # (title, categories) → whether the item is wanted

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
    """Return the case-folded words of a text.

    >>> sorted(fold_words("Money; the EURO!"))
    ['euro', 'money', 'the']
    """
    return {word.casefold() for word in _WORD.findall(text or "")}


def find_subjects(trace: Trace) -> dict[str, Bools]:
    """Return for every subject which feeds publish on it."""
    keys = {subject: frozenset(text.split()) for subject, text in SUBJECTS.items()}
    found = {subject: np.zeros(trace.feeds, dtype=bool) for subject in keys}
    memory: dict[str, frozenset[str]] = {}

    def named(text: str) -> frozenset[str]:
        if text not in memory:
            here = fold_words(text)
            memory[text] = frozenset(subject for subject, key in keys.items() if here & key)
        return memory[text]

    for texts in (trace.feed_categories or (), trace.names):
        for feed, text in enumerate(texts):
            for subject in named(text):
                found[subject][feed] = True
    if trace.categories is not None:
        owner = trace.item_feeds()
        for feed, text in {(int(owner[k]), text) for k, text in enumerate(trace.categories) if text}:
            for subject in named(text):
                found[subject][feed] = True
    return found


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """Matches items that have at least one of these words in their title or categories."""

    any_of: frozenset[str]

    @classmethod
    def from_words(cls, *any_of: str) -> KeywordQuery:
        folded = frozenset(word.casefold() for word in any_of if word.strip())
        if not folded:
            raise TraceError("A query without words matches nothing; give at least one word.")
        return cls(folded)

    def __call__(self, title: str, categories: str) -> bool:
        return not self.any_of.isdisjoint(fold_words(title) | fold_words(categories))


def match_items(trace: Trace, query: ItemTest) -> Bools:
    """Return which items a query matches. Raises TraceError for a trace without text."""
    if trace.titles is None and trace.categories is None:
        raise TraceError(
            "The trace has neither titles nor categories, so it cannot be queried; give a trace with text."
        )
    count = len(trace.times)
    titles: Iterable[str | None] = trace.titles if trace.titles is not None else (None for _ in range(count))
    categories: Iterable[str] = trace.categories if trace.categories is not None else ("" for _ in range(count))
    return np.fromiter((query(t or "", c) for t, c in zip(titles, categories, strict=True)), dtype=bool, count=count)


def share_matched(trace: Trace, kept: Bools) -> Floats:
    """Return the share of each feed's items that a query matches; 0 for a feed without items."""
    hits = np.bincount(trace.item_feeds()[kept], minlength=trace.feeds)
    return np.asarray(hits / np.maximum(trace.counts, 1))


MIN_TEXTS = 100  # items with text; a cascade over fewer says nothing
_MIN_WORD_LENGTH = 4  # letters; shorter words are in every text


@lru_cache(maxsize=2)
def select_source(path: str, per_day: float, most: int) -> tuple[Floats, NDArray[np.int64]]:
    """Select the source that publishes most nearly `per_day` items with text a day; return its times and words.

    Times start at 0. The words are the `most` commonest in its titles and categories; an item's words are the bits of a
    number.
    """
    trace = load_trace(path, text=True)
    texts = _item_words(trace)
    written = np.array([bool(text) for text in texts])
    feed = _nearest_rate(trace, written, per_day)
    if feed is None:
        raise TraceError(
            f"The trace {Path(path).name} has no source with {MIN_TEXTS} titles or categories, so query feeds have "
            "nothing "
            "to choose from; give one that has."
        )
    first = int(trace.offsets[feed])
    textual = first + np.flatnonzero(written[first : trace.offsets[feed + 1]])
    items = np.arange(textual[0], textual[-1] + 1)  # items without text fill the window too
    common = Counter(word for k in items for word in texts[k] if len(word) >= _MIN_WORD_LENGTH)
    known = [word for word, _ in sorted(common.items(), key=lambda pair: (-pair[1], pair[0]))[:most]]
    bits = [sum(1 << place for place, word in enumerate(known) if word in texts[k]) for k in items]
    times: Floats = trace.times[items] - trace.times[items[0]]
    return times, np.array(bits, dtype=np.int64)


def _item_words(trace: Trace) -> list[set[str]]:
    nothing = (None,) * len(trace.times)
    pairs = zip(trace.titles or nothing, trace.categories or nothing, strict=True)
    return [fold_words(title) | fold_words(categories) for title, categories in pairs]


def _nearest_rate(trace: Trace, written: NDArray[np.bool_], per_day: float) -> int | None:
    best: tuple[float, int] | None = None
    for feed in range(trace.feeds):
        times = trace.feed_times(feed)[written[trace.offsets[feed] : trace.offsets[feed + 1]]]
        if len(times) < MIN_TEXTS or times[-1] <= times[0]:
            continue
        off = abs(float(np.log(len(times) / ((times[-1] - times[0]) / DAY) / per_day)))
        best = (off, feed) if best is None or off < best[0] else best
    return None if best is None else best[1]


TRACE_ORIGIN = Origin(None, "https://trace.invalid/feed")


def compile_condition(text: str) -> ItemTest:
    """Compile the condition after WHERE into a test of title and categories (separated by semicolons).

    >>> wanted = compile_condition('TITLE CONTAINS "volcano" OR CATEGORY = "geology"')
    >>> wanted("A volcano in Iceland", ""), wanted("Rocks", "geology;travel"), wanted("Rocks", "travel")
    (True, True, False)
    """
    (statement,) = parse(f"CREATE FEED Wanted AS RETURN ALL WHERE {text}").statements[:1]
    if not isinstance(statement, CreateFeed) or statement.query.where is None:
        raise TraceError('--query takes a condition, the part of a query after WHERE, such as ITEM CONTAINS "volcano".')
    test = compile_matcher(statement.query.where, WordFrequencies())

    def wanted(title: str, categories: str) -> bool:
        named = tuple(each.strip() for each in categories.split(";") if each.strip())
        item = Item(0, title, "", title or None, None, 0.0, True, None, 0.0, categories=named)
        return bool(test(AnalysedItem(item, TRACE_ORIGIN)))

    return wanted
