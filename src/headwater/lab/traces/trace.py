"""Defines a trace: the publication times of many sources in flat arrays, read from files.

A file has the columns `source`, `published_at`, and optionally `title`, `categories` and `feed_categories`
(`trace_files`), with the items of one source in order of time. In memory a trace is two arrays: all times, source by
source, and where each begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.errors import TraceError
from headwater.lab.traces.trace_files import encode_sources, parse_times, read_columns, read_strings
from headwater.lab.traces.tudcs import FeedHistory, read_histories
from headwater.schedule.strategy import Table
from headwater.times import DAY


@dataclass(frozen=True, slots=True)
class Trace:
    """Items of several sources: source k published at `times[offsets[k]:offsets[k + 1]]`, ascending.

    `windows` are the sizes of the sources' documents where they differ from the replay's, and `dated` marks the sources
    that give dates. Synthetic worlds have both, TUDCS1 has windows. `readers` are the numbers of subscribers and
    `costs` those of a refresh relative to an ordinary one, where they are known. `feed_categories` are those of the
    sources themselves, beside those of their items.
    """

    names: tuple[str, ...]
    offsets: Rows
    times: Floats
    titles: tuple[str | None, ...] | None = field(default=None, repr=False)
    categories: tuple[str, ...] | None = field(default=None, repr=False)
    windows: NDArray[np.int64] | None = field(default=None, repr=False)
    dated: Bools | None = field(default=None, repr=False)
    readers: Floats | None = field(default=None, repr=False)
    costs: Floats | None = field(default=None, repr=False)
    feed_categories: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not len(self.times):
            raise TraceError("The trace has no items; give one with at least one row.")

    @property
    def feeds(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Rows:
        return np.diff(self.offsets)

    @property
    def start(self) -> float:
        return float(self.times.min())

    @property
    def end(self) -> float:
        return float(self.times.max())

    @property
    def days(self) -> float:
        return (self.end - self.start) / DAY

    def item_feeds(self) -> Rows:
        """Return the feed of each item."""
        return np.repeat(np.arange(self.feeds), self.counts)

    def feed_times(self, feed: int) -> Floats:
        """Return the times of one feed."""
        return self.times[self.offsets[feed] : self.offsets[feed + 1]]

    def select_feeds(self, feeds: Rows) -> Trace:
        """Return a trace of only these feeds, in this order."""
        counts = self.counts[feeds]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        items = np.repeat(self.offsets[feeds] - offsets[:-1], counts) + np.arange(offsets[-1])
        return Trace(
            tuple(self.names[k] for k in feeds),
            offsets,
            self.times[items],
            None if self.titles is None else tuple(self.titles[k] for k in items),
            None if self.categories is None else tuple(self.categories[k] for k in items),
            None if self.windows is None else self.windows[feeds],
            None if self.dated is None else self.dated[feeds],
            None if self.readers is None else self.readers[feeds],
            None if self.costs is None else self.costs[feeds],
            None if self.feed_categories is None else tuple(self.feed_categories[k] for k in feeds),
        )

    def select_period(self, start: float, end: float) -> Trace:
        """Return a trace of the items published in [start, end); feeds without any stay, empty."""
        keep = np.flatnonzero((self.times >= start) & (self.times < end))
        counts = np.bincount(self.item_feeds()[keep], minlength=self.feeds)
        return Trace(
            self.names,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.intp),
            self.times[keep],
            None if self.titles is None else tuple(self.titles[k] for k in keep),
            None if self.categories is None else tuple(self.categories[k] for k in keep),
            self.windows,
            self.dated,
            self.readers,
            self.costs,
            self.feed_categories,
        )

    def fill_table(self, table: Table) -> None:
        """Set the readers and costs that the strategies see; feeds weigh by their readers, 1 on average."""
        if self.readers is not None:
            table.subscribers[:] = self.readers
            known = np.maximum(self.readers, 1.0)
            table.weight[:] = known / known.mean()
        if self.costs is not None:
            table.cost[:] = self.costs

    @classmethod
    def from_lists(cls, sources: list[list[float]]) -> Trace:
        """Make a small trace from lists of times.

        >>> Trace.from_lists([[0.0, 5.0], [], [2.0]]).counts.tolist()
        [2, 0, 1]
        """
        offsets = np.concatenate([[0], np.cumsum([len(times) for times in sources])]).astype(np.intp)
        times = np.array([t for times in sources for t in times], dtype=np.float64)
        return cls(tuple(f"feed {k}" for k in range(len(sources))), offsets, times)


def load_trace(path: str | Path, text: bool = False) -> Trace:
    """Read a Parquet, CSV or JSON lines file, or the folder of TUDCS1; `text` keeps titles and categories.

    Files of `headwater export` are sorted first.
    """
    path = Path(path)
    if path.is_dir():
        return _join_histories(read_histories(path), text)
    table, exported = read_columns(path, text)
    times = parse_times(table["published_at"], path.name)
    codes, names = encode_sources(table["source"], path.name)
    order = np.lexsort((times, codes)) if exported else np.argsort(codes, kind="stable")
    codes, times = codes[order], times[order]
    _check_order(codes, times, order, names, path.name)
    counts = np.bincount(codes, minlength=len(names))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    trace = Trace(
        names, offsets, times, read_strings(table, "title", order, None), read_strings(table, "categories", order, "")
    )
    of_feeds = read_strings(table, "feed_categories", order, "")
    return trace if of_feeds is None else replace(trace, feed_categories=_gather_by_feed(trace, of_feeds))


def _gather_by_feed(trace: Trace, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the different texts of each feed's rows, joined with semicolons."""
    found: list[dict[str, None]] = [{} for _ in range(trace.feeds)]
    for feed, text in zip(trace.item_feeds().tolist(), texts, strict=True):
        if text:
            found[feed][text] = None
    return tuple("; ".join(each) for each in found)


def _join_histories(feeds: list[FeedHistory], text: bool) -> Trace:
    return Trace(
        tuple(feed.name for feed in feeds),
        np.concatenate([[0], np.cumsum([len(feed.times) for feed in feeds])]).astype(np.intp),
        np.array([at for feed in feeds for at in feed.times], dtype=np.float64),
        tuple(title for feed in feeds for title in feed.titles) if text else None,
        windows=np.array([feed.window for feed in feeds], dtype=np.int64),
    )


def _check_order(codes: Any, times: Floats, order: Any, names: tuple[str, ...], name: str) -> None:
    back = np.flatnonzero((np.diff(codes) == 0) & (np.diff(times) < 0))
    if len(back):
        k = int(back[0]) + 1
        raise TraceError(
            f"The trace {name} is not sorted: row {int(order[k]) + 1} of “{names[codes[k]]}” is earlier than the "
            "row of the same source before it; sort the file by published_at."
        )
