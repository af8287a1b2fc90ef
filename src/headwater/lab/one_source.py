"""One source of a trace with the words of its texts as bits: what a network of query feeds reads in the lab."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.errors import TraceError
from headwater.estimate.base import DAY, Floats
from headwater.lab.topics import fold_words
from headwater.lab.traces import Trace, load_trace

LEAST_TEXTS = 100  # items with text: of fewer, a cascade tells nothing
_SHORTEST_WORD = 4  # letters of a word that counts: shorter ones are everywhere


@lru_cache(maxsize=2)
def select_source(path: str, per_day: float, most: int) -> tuple[Floats, NDArray[np.int64]]:
    """Times (from 0) and words of the source that publishes most nearly `per_day` items with text a day.

    A word is one of the `most` commonest in its titles and categories; an item's words are the bits of its number.
    """
    trace = load_trace(path, text=True)
    texts = _item_words(trace)
    written = np.array([bool(text) for text in texts])
    feed = _nearest_rate(trace, written, per_day)
    if feed is None:
        raise TraceError(
            f"The trace {Path(path).name} has no source with {LEAST_TEXTS} titles or categories, so query feeds have nothing "
            "to choose from; give one that has."
        )
    first = int(trace.offsets[feed])
    told = first + np.flatnonzero(written[first : trace.offsets[feed + 1]])
    items = np.arange(told[0], told[-1] + 1)  # those without text stand in the window like the others
    common = Counter(word for k in items for word in texts[k] if len(word) >= _SHORTEST_WORD)
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
        if len(times) < LEAST_TEXTS or times[-1] <= times[0]:
            continue
        off = abs(float(np.log(len(times) / ((times[-1] - times[0]) / DAY) / per_day)))
        best = (off, feed) if best is None or off < best[0] else best
    return None if best is None else best[1]
