"""Simulates the cycle world of the two-steps paper: feeds publish keywords, a strategy picks feeds for a query.

Each cycle runs publish → refresh → measure. An item carries max(1, round(.2·|profile|)) keywords of its feed's profile
and is relevant if the query has one of them. So the items of a feed are relevant independently of each other with one
probability, the feed's selectivity. The whole stream of a feed is drawn before the run and kept as running counts,
which makes every quantity of a cycle a difference of two looked-up numbers:

    Div_F = P − L            items published since the last refresh (P: published, L: P at the last refresh)
    Div_A = R[P] − R[max(L, P − W)]      those of them that are relevant and still in the window
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats
from headwater.errors import TraceError
from headwater.lab.traces.trace import Trace
from headwater.schedule.selection import Budget
from headwater.schedule.strategy import Observed, Strategy, Table

Knowledge = Literal["divergence", "nothing"]


@dataclass(frozen=True, slots=True)
class CycleSettings:
    """The settings of the paper's Table 1, and those it leaves open."""

    feeds: int = 100
    top_rate: float = 6.5
    window: int = 10
    words: int = 10
    profile: float = 0.5
    query: float = 0.4
    share: float = 0.2
    warmup: int = 300
    measured: int = 100
    seconds: float = 1.0  # length of a cycle, for estimators that know days and hours

    @property
    def cycles(self) -> int:
        return self.warmup + self.measured


@dataclass(frozen=True, slots=True)
class CycleWorld:
    """Feeds whose whole future is drawn.

    `published[c, i]` counts the items of feed i up to and including cycle c; `relevant[start[i] + n]` counts the
    relevant ones among its first n.
    """

    settings: CycleSettings
    selectivity: Floats
    published: NDArray[np.int64]
    relevant: NDArray[np.int64]
    start: NDArray[np.int64]

    def count_relevant(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the relevant items among each feed's first `positions` items."""
        return self.relevant[self.start + np.maximum(positions, 0)]


def match_probability(profile: int, shared: int, share: float) -> float:
    """Return the probability that an item of a profile has one of the `shared` keywords of the query.

    >>> match_probability(5, 2, .2)
    0.4
    >>> round(match_probability(10, 4, .2), 4)
    0.6667
    """
    if not profile:
        return 0.0
    carried = max(1, round(share * profile))
    return 1.0 - math.comb(profile - shared, carried) / math.comb(profile, carried)


def draw_cycle_world(settings: CycleSettings, rng: np.random.Generator, rates: Floats | None = None) -> CycleWorld:
    """Draw a world by the rules of the paper. `rates` (items per cycle) may be given per feed, or per cycle and
    feed."""
    feeds = settings.feeds
    if rates is None:
        rates = rng.uniform(0.0, settings.top_rate, feeds)
    wanted = rng.random(settings.words) < settings.query
    while not wanted.any():
        wanted = rng.random(settings.words) < settings.query
    profiles = rng.random((feeds, settings.words)) < settings.profile
    size, shared = profiles.sum(1), (profiles & wanted).sum(1)
    chance = np.array([match_probability(int(n), int(k), settings.share) for n, k in zip(size, shared, strict=True)])
    counts = rng.poisson(np.broadcast_to(rates, (settings.cycles, feeds)))
    return make_random_world(settings, counts, chance, rng)


def make_random_world(
    settings: CycleSettings, counts: NDArray[np.int64], chance: Floats, rng: np.random.Generator
) -> CycleWorld:
    """Make a world whose feeds publish `counts[cycle, feed]` items, each relevant with its feed's chance."""
    totals = counts.sum(0)
    return make_world(settings, counts, rng.random(int(totals.sum())) < np.repeat(chance, totals), chance)


def make_world(settings: CycleSettings, counts: NDArray[np.int64], relevant: Bools, chance: Floats) -> CycleWorld:
    """Make a world with the relevance of every item given, feed after feed and each feed in order of time."""
    published = counts.cumsum(0)
    totals = published[-1]
    first = np.cumsum(totals) - totals
    running = np.concatenate([[0], np.cumsum(relevant)])
    # Each feed's running count begins with a zero of its own.
    start = first + np.arange(settings.feeds)
    item = np.arange(int(totals.sum()) + settings.feeds) - np.repeat(np.arange(settings.feeds), totals + 1)
    own = running[item] - np.repeat(running[first], totals + 1)
    return CycleWorld(settings, chance, published, own, start)


def select_busiest(trace: Trace, feeds: int) -> Trace:
    """Return the most active feeds of a trace."""
    return trace.select_feeds(np.sort(np.argsort(-trace.counts, kind="stable")[:feeds]))


def fit_cycles(trace: Trace, settings: CycleSettings, path: Path) -> CycleSettings:
    """Fit the number and length of cycles to a trace: at most those of `settings`, a quarter or more of them measured.

    A feed publishes as much per cycle on average as in the paper's world. Raises TraceError for a trace that is too
    short.
    """
    seconds = settings.top_rate / 2 * trace.feeds * (trace.end - trace.start) / len(trace.times)
    available = int((trace.end - trace.start) / seconds) if seconds > 0 else 0
    warmup = min(settings.warmup, available * 3 // 4)
    if available - warmup < 10:
        raise TraceError(f"The trace {path.name} is too short: it has {available} cycles of {seconds:.0f} s.")
    measured = min(available - warmup, settings.measured)
    return dataclasses.replace(settings, feeds=trace.feeds, seconds=seconds, warmup=warmup, measured=measured)


def make_trace_world(trace: Trace, relevant: Bools, settings: CycleSettings) -> CycleWorld:
    """Make a world of the last cycles of a trace; `relevant` marks the items that a query wants."""
    begin = trace.end - settings.cycles * settings.seconds
    cycle = np.floor((trace.times - begin) / settings.seconds).astype(np.int64)
    # Items published exactly at the end belong to the last cycle.
    cycle = np.where(trace.times == trace.end, settings.cycles - 1, cycle)
    inside = (cycle >= 0) & (cycle < settings.cycles)
    counts = np.zeros((settings.cycles, trace.feeds), dtype=np.int64)
    np.add.at(counts, (cycle[inside], trace.item_feeds()[inside]), 1)
    hits = np.bincount(trace.item_feeds()[relevant], minlength=trace.feeds)
    return make_world(settings, counts, relevant[inside], hits / np.maximum(trace.counts, 1))


@dataclass(slots=True)
class CycleScores:
    """The scores of a run after its warm-up.

    `tau` is the price of a refresh after every cycle, warm-up included, for strategies that have one.
    """

    completeness: float
    freshness: float
    requests: int
    published: int
    obtained: int
    lost: int
    tau: Floats
    spent: NDArray[np.int64]


def run_cycles(
    world: CycleWorld,
    strategy: Strategy,
    budget: float,
    knowledge: Knowledge = "divergence",
    censored: bool = True,
    carried: bool = False,
) -> CycleScores:
    """Let a strategy refresh the feeds of a world, `budget` per cycle, and learn from its refreshes.

    With the knowledge "divergence" the table holds the true number of waiting items, as for the papers' offline
    strategies; otherwise it holds nothing. A refresh returns at most a window of items. With `censored=False` the
    strategy still observes the true number, as in the thesis' experiments with estimators (7.3.3). With `carried` a
    refresh that is owed and not used stays owed, up to one for every feed; otherwise it is forfeited.
    """
    settings = world.settings
    feeds, width = settings.feeds, settings.window
    table = Table.of(feeds, width)
    table.selectivity[:] = world.selectivity
    table.last[:] = 0.0  # all feeds count as refreshed before anything is published
    if knowledge == "divergence":
        table.relevant = np.zeros(feeds)
    strategy.resize(feeds)
    read = np.zeros(feeds, dtype=np.int64)  # L: items that each feed had published at its last refresh
    obtained = published = requests = 0
    freshness = 0.0
    taus, spent = np.full(settings.cycles, np.nan), np.zeros(settings.cycles, dtype=np.int64)
    before = np.zeros(feeds, dtype=np.int64)  # relevant items published before this cycle
    owed = 0.0
    for cycle in range(settings.cycles):
        now = (cycle + 1) * settings.seconds
        position = world.published[cycle]
        total = world.count_relevant(position)
        edge = np.maximum(position - width, 0)
        shown = world.count_relevant(np.maximum(read, edge))
        waiting = total - shown
        measured = cycle >= settings.warmup
        if measured:
            published += int((total - before).sum())
        before = total
        if table.relevant is not None:
            table.divergence[:] = position - read
            table.relevant[:] = waiting
        owed = min(owed + budget, max(feeds, budget))
        allowed = int(owed)
        rows = strategy.choose(table, now, Budget(allowed, budget / settings.seconds)).rows
        owed -= len(rows) if carried else allowed
        if len(rows):
            fresh = position[rows] - read[rows]
            seen = Observed(
                rows=rows,
                start=table.last[rows],
                end=np.full(len(rows), now),
                new=(np.minimum(fresh, width) if censored else fresh).astype(float),
                window=np.full(len(rows), float(width)),
                saturated=fresh >= width if censored else np.zeros(len(rows), dtype=bool),
            )
            if measured:
                requests += len(rows)
                obtained += int(waiting[rows].sum())
            strategy.observe(table, seen)
            read[rows] = position[rows]
            table.last[rows] = now
        spent[cycle] = len(rows)
        taus[cycle] = getattr(strategy, "price", np.nan)
        if measured:
            inside = total - world.count_relevant(edge)
            have = np.maximum(world.count_relevant(read) - world.count_relevant(edge), 0)
            freshness += float(np.where(inside > 0, have / np.maximum(inside, 1), 1.0).mean())
    pending = int((before - world.count_relevant(np.maximum(read, np.maximum(world.published[-1] - width, 0)))).sum())
    return CycleScores(
        completeness=min(
            obtained / max(published, 1), 1.0
        ),  # items that waited when measuring began may lift it above 1
        freshness=freshness / settings.measured,
        requests=requests,
        published=published,
        obtained=obtained,
        lost=max(published - obtained - pending, 0),
        tau=taus,
        spent=spent,
    )


def make_rng(*key: int) -> np.random.Generator:
    """Return a generator that depends on its key only: the same seed and stream give the same numbers anywhere."""
    return np.random.default_rng(np.random.SeedSequence(entropy=list(key)))
