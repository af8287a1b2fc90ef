"""Joins the trees of several sources into a subscription graph and lets aggregators refresh by strategies (thesis 1.6).

`grow_by_profile` is repeated for each source over the same query feeds. A query feed then has one parent for every
source in whose radius it is, and may have several. Query feeds join widest interest first in every tree, so the graph
has no cycle. The level of a query feed is its longest path from a source; the query feeds of one level are one
aggregator, which reads all feeds above with one strategy and one budget. In a cycle all aggregators refresh at once, so
every hop takes a cycle at least. Aggregators may work together: query feeds tell their readers how much they have
published, or push their items, so that all requests go to sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.lab.simulation.query_network import grow_by_profile, measure_freshness
from headwater.schedule.selection import Budget
from headwater.schedule.strategy import Observed, Strategy, Table

Integers = NDArray[np.int64]
Teamwork = Literal["none", "told", "pushed"]  # how a query feed helps the aggregators that read it


@dataclass(frozen=True, slots=True)
class SubscriptionGraph:
    """Sources are nodes 0 … m−1, query feeds the nodes after them.

    `parents[n]` are the nodes that n reads. `hops[k, n]` counts the links from source k to n in the tree of k; −1 where
    n is outside the radius of k.
    """

    profiles: Bools
    sources: int
    parents: tuple[Integers, ...]
    hops: Integers
    levels: Integers


def join_trees(profiles: Bools, sources: int, alpha: float, radius: float) -> SubscriptionGraph:
    """Grow a tree for each source over the query feeds, and join them. The sources' profiles come first."""
    nodes = len(profiles)
    queries = np.arange(sources, nodes)
    read: list[set[int]] = [set() for _ in range(nodes)]
    hops = np.full((sources, nodes), -1, dtype=np.int64)
    for source in range(sources):
        own = np.concatenate([[source], queries])
        tree = grow_by_profile(profiles[own], alpha, radius)
        hops[source, own[tree.members]] = tree.hops[tree.members]
        for member in tree.order[1:]:
            read[own[member]].add(int(own[tree.parents[member]]))
    levels = np.zeros(nodes, dtype=np.int64)
    for node in queries[np.argsort(-profiles[queries].sum(1), kind="stable")]:  # parents joined before
        levels[node] = 1 + max((levels[parent] for parent in read[node]), default=-1)
    return SubscriptionGraph(profiles, sources, tuple(np.array(sorted(each), np.int64) for each in read), hops, levels)


@dataclass(frozen=True, slots=True)
class PublishedItems:
    """The items of all sources in order of time; each has its words as bits."""

    times: Floats
    sources: Integers
    words: Integers


class _Stream:
    """The items that a feed has published, in order."""

    def __init__(self, most: int) -> None:
        self.items = np.zeros(most, dtype=np.int64)
        self.count = 0

    def append(self, items: Integers) -> None:
        self.items[self.count : self.count + len(items)] = items
        self.count += len(items)


class _Aggregator:
    """Refreshes the feeds that the query feeds of one level read, and spends at most `budget` requests in a cycle."""

    def __init__(
        self, graph: SubscriptionGraph, level: int, strategy: Strategy, window: int, teamwork: Teamwork
    ) -> None:
        members = np.flatnonzero(graph.levels == level)
        self.feeds = np.unique(np.concatenate([graph.parents[node] for node in members]))
        self.readers = [[int(node) for node in members if feed in graph.parents[node]] for feed in self.feeds]
        self.strategy, self.table = strategy, Table.of(len(self.feeds), window)
        self.table.last[:] = 0.0
        for row, (feed, readers) in enumerate(zip(self.feeds, self.readers, strict=True)):
            wanted = graph.profiles[readers].any(0)
            self.table.selectivity[row] = (graph.profiles[feed] & wanted).sum() / max(graph.profiles[feed].sum(), 1)
        strategy.resize(len(self.feeds))
        self.read = np.zeros(len(self.feeds), dtype=np.int64)
        self.window, self.teamwork, self.is_source = window, teamwork, self.feeds < graph.sources
        self.budget, self.owed, self.requests = 0.0, 0.0, 0

    @property
    def polled(self) -> int:
        """Return the number of feeds that it has to ask."""
        return int(self.is_source.sum()) if self.teamwork == "pushed" else len(self.feeds)

    def refresh(
        self, streams: list[_Stream], counts: Integers, now: float, cycle: float, shown: dict[int, list[Integers]]
    ) -> None:
        """Add to `shown` the new items that each reader sees, of those that its feeds had when the cycle began."""
        unread = counts[self.feeds] - self.read
        if self.teamwork == "told":
            self.table.divergence[~self.is_source] = unread[~self.is_source]
        self.owed = min(self.owed + self.budget, max(len(self.feeds), self.budget))
        asked = self.is_source if self.teamwork == "pushed" else None
        rows = self.strategy.choose(self.table, now, Budget(int(self.owed), self.budget / cycle), asked).rows
        self.owed -= len(rows)
        self.requests += len(rows)
        self._show(rows, np.minimum(unread[rows], self.window), streams, counts, shown)
        if self.teamwork == "pushed":
            pushed = np.flatnonzero(~self.is_source & (unread > 0))
            self._show(pushed, unread[pushed], streams, counts, shown)
            self.read[pushed] = counts[self.feeds[pushed]]
        if not len(rows):
            return
        new = unread[rows]
        seen = Observed(
            rows=rows,
            start=self.table.last[rows],
            end=np.full(len(rows), now),
            new=np.minimum(new, self.window).astype(float),
            window=np.full(len(rows), float(self.window)),
            saturated=new >= self.window,
        )
        self.strategy.observe(self.table, seen)
        self.read[rows] = counts[self.feeds[rows]]
        self.table.last[rows] = now

    def _show(
        self, rows: Rows, fresh: Integers, streams: list[_Stream], counts: Integers, shown: dict[int, list[Integers]]
    ) -> None:
        """Add the latest `fresh` items of each row to those that its readers see."""
        for row, many in zip(rows.tolist(), fresh.tolist(), strict=True):
            end = int(counts[self.feeds[row]])
            for reader in self.readers[row]:
                shown.setdefault(reader, []).append(streams[self.feeds[row]].items[end - many : end])


@dataclass(frozen=True, slots=True)
class GraphRun:
    """The time at which each node got each item (inf: never), and the number of refreshes."""

    arrivals: Floats
    requests: int


def run_graph(
    graph: SubscriptionGraph,
    items: PublishedItems,
    make: Callable[[int], Strategy],
    window: int,
    cycle: float,
    share: float,
    teamwork: Teamwork = "none",
) -> GraphRun:
    """Run the items through the graph; `make(level)` makes the strategy of an aggregator.

    In every cycle of `cycle` seconds an aggregator may refresh a `share` of the feeds that it reads; an unused refresh
    stays owed. A feed shows its latest `window` items. An item that comes by several ways counts once. Where query
    feeds push their items, the requests of all aggregators together are spent on the sources that each reads.
    """
    nodes = len(graph.profiles)
    wants = np.array([sum(1 << int(k) for k in np.flatnonzero(profile)) for profile in graph.profiles], dtype=np.int64)
    streams = [_Stream(len(items.times)) for _ in range(nodes)]
    arrivals = np.full((nodes, len(items.times)), np.inf)
    levels = range(1, int(graph.levels.max()) + 1)
    aggregators = [_Aggregator(graph, level, make(level), window, teamwork) for level in levels]
    whole = share * sum(len(each.feeds) for each in aggregators) / sum(each.polled for each in aggregators)
    for each in aggregators:
        each.budget = whole * each.polled
    done = 0
    for number in range(1, int(np.ceil(items.times[-1] / cycle)) + 1):
        now = number * cycle
        until = int(np.searchsorted(items.times, now, side="right"))
        for source in range(graph.sources):
            streams[source].append(done + np.flatnonzero(items.sources[done:until] == source))
        done = until
        counts = np.array([stream.count for stream in streams])
        shown: dict[int, list[Integers]] = {}
        for aggregator in aggregators:
            aggregator.refresh(streams, counts, now, cycle, shown)
        for node, parts in shown.items():  # items of one cycle are published in the order of their dates
            seen = np.unique(np.concatenate(parts))
            kept = seen[(items.words[seen] & wants[node] != 0) & np.isinf(arrivals[node, seen])]
            arrivals[node, kept] = now
            streams[node].append(kept)
    return GraphRun(arrivals, sum(aggregator.requests for aggregator in aggregators))


@dataclass(frozen=True, slots=True)
class PairQuality:
    """The quality of one query feed with respect to one source in whose radius it is.

    `passed` are the lost items that a feed it reads had published: they left that feed's window unread.
    """

    level: int
    completeness: float
    freshness: float
    mean_delay: float
    got: int
    lost: int
    passed: int


def measure_pairs(
    graph: SubscriptionGraph, items: PublishedItems, run: GraphRun, window: int, since: float, until: float,
    samples: Floats,
) -> list[PairQuality]:  # fmt: skip
    """Measure completeness and delay of the wanted items published in [since, until), and freshness at `samples`."""
    found = []
    for source in range(graph.sources):
        mine = np.flatnonzero(items.sources == source)
        times = items.times[mine]
        counted = (times >= since) & (times < until)
        for node in np.flatnonzero(graph.hops[source] > 0):
            bits = sum(1 << int(k) for k in np.flatnonzero(graph.profiles[node]))
            wanted = (items.words[mine] & bits) != 0
            arrival = run.arrivals[node, mine]
            want = counted & wanted
            got = want & np.isfinite(arrival)
            if want.any():
                delay = float((arrival[got] - times[got]).mean()) if got.any() else float("nan")
                fresh = measure_freshness(times, wanted, arrival, window, samples)
                parents = graph.parents[node]
                reached = np.isfinite(run.arrivals[np.ix_(parents, mine)]).any(0) | (parents == source).any()
                counts = (int(each.sum()) for each in (got, want & ~got, want & ~got & reached))
                share = float(got.sum() / want.sum())
                found.append(PairQuality(int(graph.levels[node]), share, fresh, delay, *counts))
    return found
