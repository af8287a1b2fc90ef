"""Finds the refreshes of an oracle that knows every item to come: at equal cost no strategy has less delay.

Such an oracle refreshes only at the moment of an item. Between two refreshes it lets at most a window of items gather,
so it loses none. For a price of a refresh, the best refreshes of a feed follow from a recursion over its items.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats
from headwater.lab.simulation.equal_cost import TOLERANCE, FittedReplay
from headwater.lab.simulation.replay import Replay, ReplaySettings, window_sizes
from headwater.lab.traces.trace import Trace
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba
from headwater.times import DAY

MAX_STEPS = 40  # of the search for the price


def choose_refreshes(trace: Trace, price: float, window: int) -> Bools:
    """Return at which items to refresh, so that waiting and refreshes, `price` item-days each, cost least in all.

    >>> trace = Trace.from_lists([[0.0, DAY / 100, DAY, 5 * DAY]])
    >>> choose_refreshes(trace, 0.1, 20).tolist()  # the first item waits for the second
    [False, True, True, True]
    """
    chosen = np.zeros(len(trace.times), bool)
    fill = compile_with_numba(_choose_kernel) if NUMBA_AVAILABLE else _choose_kernel
    fill(trace.times / DAY, trace.offsets, price, window_sizes(trace, window), chosen)
    return chosen


def _choose_kernel(days: Any, offsets: Any, price: float, windows: Any, chosen: Any) -> None:
    """Go through the items of each feed: the cost up to one is that up to an earlier one, the price and the waiting."""
    for feed in range(len(offsets) - 1):
        first, count = offsets[feed], offsets[feed + 1] - offsets[feed]
        cost, before = np.zeros(count + 1), np.zeros(count + 1, np.int64)
        for upto in range(1, count + 1):
            now, waiting, least = days[first + upto - 1], 0.0, math.inf
            for start in range(upto - 1, max(upto - windows[feed], 0) - 1, -1):
                waiting += now - days[first + start]
                total = cost[start] + price + waiting
                if total < least:
                    least = total
                    before[upto] = start
            cost[upto] = least
        at = count
        while at > 0:
            chosen[first + at - 1] = True
            at = before[at]


def replay_clairvoyant(trace: Trace, protocol: ReplaySettings, per_day: float) -> FittedReplay:
    """Replay the oracle at the price at which it makes `per_day` refreshes per feed and day.

    Where a refresh at every item costs less than that, it makes fewer, and no item waits.
    """
    begin, measured, end = protocol.time_span(trace)
    later = trace.times > begin
    known = trace.select_period(np.nextafter(begin, np.inf), np.inf)
    feeds, days = known.item_feeds(), (end - measured) / DAY
    low, high = math.log(1e-9), math.log(1e5)
    for _ in range(MAX_STEPS):
        price = math.exp((low + high) / 2)
        chosen = choose_refreshes(known, price, protocol.window)
        polls = np.bincount(feeds[chosen & (known.times >= measured)], minlength=trace.feeds)
        off = float(polls.sum()) / trace.feeds / days / per_day - 1
        if abs(off) <= TOLERANCE / 5:
            break
        low, high = (math.log(price), high) if off > 0 else (low, math.log(price))
    obtained = np.full(len(trace.times), begin)  # the first refresh of each feed finds what was published before
    obtained[later] = _next_refresh(known.times, chosen)
    return FittedReplay(
        Replay(trace, protocol.window, begin, measured, end, obtained, polls.astype(np.int64), 0.0), price, off
    )


def _next_refresh(times: Floats, chosen: Bools) -> Floats:
    """Return when each item is obtained: at the next chosen item; a feed's last one is always chosen."""
    place = np.where(chosen, np.arange(len(times)), len(times))
    return times[np.minimum.accumulate(place[::-1])[::-1]]
