"""Bounds how many wanted items any policy can obtain in a world of cycles, given what it knows.

Each bound is Lagrangian. With a price ν per refresh the feeds are independent, and the best gain of each is computed
exactly; Σ gain + ν·b is then an upper bound for b refreshes per cycle, whatever ν is. The least over ν is returned, in
wanted items per cycle.

- `bound_open_loop`: rates are known, nothing is seen between refreshes. A fixed interval per feed is best.
- `bound_seen`: every window is seen at every cycle (2^(W+1) − 1 states per feed, by value iteration).
- `bound_clairvoyant`: all future items are known (dynamic programming over the cycles).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.estimate.poisson import expect_shown, poisson_pmf
from headwater.lab.simulation.cycles import CycleWorld

MAX_PAUSE = 120  # cycles between two refreshes of a feed
PRECISION = 2e-3  # value iteration ends when the gain per cycle is known to this many items


def minimise_bound(gain: Callable[[float], float], budget: float, top: float) -> float:
    """Minimise gain(ν) + ν·budget, a convex function, over ν in [0, top] by golden section."""
    ratio = (5**0.5 - 1) / 2
    low, high = 0.0, top
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    fa, fb = gain(a) + a * budget, gain(b) + b * budget
    for _ in range(24):
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = gain(a) + a * budget
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = gain(b) + b * budget
    return min(fa, fb, gain(0.0))


def bound_open_loop(rates: Floats, selectivity: Floats, window: int, budget: float) -> float:
    """Return the most wanted items per cycle that are possible with known rates.

    >>> bound_open_loop(np.array([1.0]), np.array([1.0]), 10, 1.0) <= 1.0 + 1e-9  # refreshed every cycle: nearly all
    True
    """
    pauses = np.arange(1, MAX_PAUSE + 1)
    brings = selectivity[:, None] * expect_shown(np.array(float(window)), rates[:, None] * pauses)

    def gain(price: float) -> float:
        return float(np.maximum(((brings - price) / pauses).max(1), 0.0).sum())

    return minimise_bound(gain, budget, float(window))


def bound_clairvoyant(world: CycleWorld, budget: float) -> float:
    """Return the most wanted items per measured cycle that are possible with everything known in advance."""
    settings = world.settings
    first, cycles, width = settings.warmup, settings.cycles, settings.window
    positions = world.published[first:cycles]
    total = np.array([world.count_relevant(row) for row in positions])
    edge = np.array([world.count_relevant(row - width) for row in positions])
    whole = (total - edge).astype(np.float64)
    span = cycles - first

    def gain(price: float) -> float:
        best = np.zeros((span, settings.feeds))  # the best gain up to a refresh at this cycle
        reached = np.zeros(settings.feeds)  # the best gain over all refreshes so far
        for j in range(span):
            value = whole[j].copy()  # earlier items may still be unread
            for i in range(max(j - MAX_PAUSE, 0), j):
                np.maximum(value, best[i] + np.minimum(total[j] - total[i], whole[j]), out=value)
            best[j] = value - price
            np.maximum(reached, best[j], out=reached)
        return float(reached.sum()) / span

    return minimise_bound(gain, budget, float(width))


def bound_seen(rates: Floats, selectivity: Floats, window: int, budget: float, price: float | None = None) -> float:
    """Return the most wanted items per cycle that are possible when every window is seen and rates are known.

    A state is the relevance of the unread items in the window, newest last: d ≤ W bits. Any price gives a bound;
    without one, a few are tried on coarser states (how many unread, how many wanted) and the best is used.
    """
    if price is None:
        prices = np.linspace(0.05, 0.7, 8) * window * float(selectivity.max(initial=0.1))
        coarse = [
            float(_bound_gains(rates, selectivity, *_count_states(window), float(p), 30).sum()) + p * budget
            for p in prices
        ]
        price = float(prices[int(np.argmin(coarse))])
    return float(_bound_gains(rates, selectivity, *_window_states(window), price).sum()) + price * budget


States = tuple[Floats, NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], Floats]


def _window_states(window: int) -> States:
    """List every pattern of unread items: its worth, and the next state after a wanted or an unwanted item."""
    sizes = np.concatenate([np.full(2**d, d) for d in range(window + 1)])
    bits = np.concatenate([np.arange(2**d) for d in range(window + 1)])
    start = 2 ** np.arange(window + 2) - 1
    worth = np.array([int(b).bit_count() for b in bits], dtype=np.float64)
    size = np.minimum(sizes + 1, window)
    kept = (bits << 1) & (2**size - 1)  # the oldest falls out where the window is full
    none = np.zeros(len(bits))
    return worth, start[size] + kept + 1, start[size] + kept, start[size] + kept, none


def _count_states(window: int) -> States:
    """List states by numbers of unread and wanted items; in a full window each item is equally likely to drop out."""
    pairs = [(d, a) for d in range(window + 1) for a in range(d + 1)]
    place = {pair: k for k, pair in enumerate(pairs)}
    worth = np.array([float(a) for _, a in pairs])
    more = np.array([place[(min(d + 1, window), min(a + 1, min(d + 1, window)))] for d, a in pairs])
    same = np.array([place[(min(d + 1, window), a)] for d, a in pairs])
    fewer = np.array(
        [place[(window, a - 1)] if d == window and a else place[(min(d + 1, window), a)] for d, a in pairs]
    )
    falls = np.array([a / window if d == window else 0.0 for d, a in pairs])
    return worth, more, same, fewer, falls


def _bound_gains(
    rates: Floats,
    selectivity: Floats,
    worth: Floats,
    more: NDArray[np.intp],
    same: NDArray[np.intp],
    fewer: NDArray[np.intp],
    falls: Floats,
    price: float,
    rounds: int = 80,
) -> Floats:
    """Bound each feed's gain per cycle, less the price of its refreshes, by value iteration."""
    most = int(rates.max() + 5 * np.sqrt(rates.max()) + 4)
    chance = np.array([poisson_pmf(np.array(float(k)), rates) for k in range(most + 1)])
    chance[-1] += 1 - chance.sum(0)
    s = selectivity[:, None]

    def published(value: Floats) -> Floats:
        mixed, added = chance[0][:, None] * value, value
        for k in range(1, most + 1):
            unwanted = (1 - falls) * added[:, same] + falls * added[:, fewer]
            wanted = (1 - falls) * added[:, more] + falls * added[:, same]
            added = s * wanted + (1 - s) * unwanted
            mixed = mixed + chance[k][:, None] * added
        return np.asarray(mixed)

    value = np.zeros((len(rates), len(worth)))
    upper = np.full(len(rates), np.inf)
    for _ in range(rounds):
        # A cycle: items are published, then the feed is refreshed or not.
        decided = np.maximum(value, worth - price + value[:, :1])
        after = published(decided)
        change = after - value
        upper = np.minimum(upper, change.max(1))
        if (change.max(1) - change.min(1)).max() < PRECISION:
            break
        value = after - after[:, :1]
    return np.asarray(np.maximum(upper, 0.0))
