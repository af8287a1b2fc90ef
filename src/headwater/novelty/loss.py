"""Detects a saturated window and estimates the items lost.

As long as a fetched window reaches back to a known item, nothing was lost. If it does not, the window was saturated,
and the number of items between the last known one and the window is estimated from the dates in the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from headwater.model import Entry, Markup

EXPECTED_GAPS = 5.0  # between items, for which the expected rate stands beside the dates of a window
BATCH_GAP = 0.1  # of the usual gap: items closer together are a batch


def overlaps_known(new: Sequence[float | None], old: Sequence[Entry[Markup]]) -> bool:
    """Whether the document shows a known item behind its new ones.

    An item pinned to the top is known too but proves nothing: if all items have dates, a known item must be as old as
    the oldest new one.
    """
    if not old:
        return False
    old_dates = [entry.published for entry in old if entry.published is not None]
    new_dates = [date for date in new if date is not None]
    if len(old_dates) < len(old) or len(new_dates) < len(new):
        return True
    return min(old_dates) <= min(new_dates)


def estimate_lost_items(new: Sequence[float | None], last: float, now: float, rate: float | None) -> float:
    """Estimate the items lost before a window of only new items, after the last refresh at `last`.

    `new` holds the plausible dates of those items, None where there is none; `rate` is the expected one. With dates:
    the rate of the window until now, drawn to the expected one, continued over the gap before it, and the rest of a
    batch that the window cuts. Without: the mean excess of a Poisson count over the window, at the expected rate, or at
    the least rate that fills a window.

    >>> ten = [1000.0 + 10 * k for k in range(10)]
    >>> round(estimate_lost_items(ten, last=900.0, now=1100.0, rate=None), 1)  # one item per 10 s, 100 s not shown
    9.0
    >>> round(estimate_lost_items(ten, last=900.0, now=90_000.0, rate=1e-3), 1)  # one batch in a day, cut by the window
    4.5
    """
    dates = sorted(date for date in new if date is not None)
    if len(dates) == len(new) and len(dates) > 1 and dates[-1] > dates[0]:
        return _continue_window(dates, last, max(now, dates[-1]), rate)
    width = len(new)
    mean = max((rate or 0.0) * (now - last), float(width))
    return _expected_excess(mean, width)


def _continue_window(dates: Sequence[float], last: float, now: float, rate: float | None) -> float:
    """Estimate the items between `last` and the first of `dates`, all that are shown since then.

    Items closer together than a tenth of the usual gap are a batch. A batch is one event, however many items it has:
    otherwise forty items of one minute would stand for as many in each minute before. Of a batch that the window cuts,
    half as many items as are shown are missing; two items may be as close by chance.
    """
    hidden = dates[0] - last
    if hidden <= 0:
        return 0.0
    gaps, span = len(dates) - 1, now - dates[0]
    doubt, usual = (EXPECTED_GAPS, EXPECTED_GAPS / rate) if rate else (0.0, 0.0)
    near = BATCH_GAP * (usual + span) / (doubt + gaps)
    batches = [1]
    for before, after in pairwise(dates):
        if after - before < near:
            batches[-1] += 1
        else:
            batches.append(1)
    together = sum(size**2 for size in batches) / len(dates)  # mean size of an item's batch
    rate_before = (doubt + gaps / together) / (usual + span / together)
    rest = (batches[0] - 1) / 2 if batches[0] > 2 else 0.0
    return rate_before * hidden + rest


def _expected_excess(mean: float, width: int) -> float:
    """Return E[N − width | N ≥ width] for N ~ Poisson(mean)."""
    if mean > 50 * width:
        return mean - width
    term = total = 1.0  # P(N = width + k) relative to P(N = width)
    weighted = 0.0
    k = 0
    while k < 10 or term > 1e-9 * total:
        k += 1
        term *= mean / (width + k)
        total += term
        weighted += k * term
        if not math.isfinite(total):
            return mean - width
    return weighted / total
