"""Detects a saturated window and estimates the items lost.

As long as a fetched window reaches back to a known item, nothing was lost. If it does not, the window was saturated,
and the number of items between the last known one and the window is estimated from the dates in the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from headwater.model import Entry, Markup

ENOUGH_GAPS = 5.0  # between items, to tell the rate of a window from its dates alone


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

    `new` holds the plausible dates of those items, None where there is none. With dates: the rate within the window,
    continued over the gap before it; a window of fewer than six items says little of the rate, so the expected one
    stands in for its missing items. Without: the mean excess of a Poisson count over the window, at the expected rate,
    or at the least rate that fills a window.

    >>> ten = [1000.0 + 10 * k for k in range(10)]
    >>> estimate_lost_items(ten, last=900.0, now=2000.0, rate=None)  # one item per 10 s, 100 s not shown
    9.0
    >>> round(estimate_lost_items([990.0, 1000.0], last=0.0, now=1000.0, rate=0.01), 1)  # ten seconds apart by chance
    12.1
    """
    dates = sorted(date for date in new if date is not None)
    if len(dates) == len(new) and len(dates) > 1 and dates[-1] > dates[0]:
        gaps, span = float(len(dates) - 1), dates[-1] - dates[0]
        if rate and gaps < ENOUGH_GAPS:
            return max(0.0, ENOUGH_GAPS / (span + (ENOUGH_GAPS - gaps) / rate) * (dates[0] - last))
        rate_shown = gaps / span
        return max(0.0, rate_shown * (dates[0] - last) - 1.0)
    width = len(new)
    mean = max((rate or 0.0) * (now - last), float(width))
    return _expected_excess(mean, width)


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
