"""Estimators that tell a feed's first refresh from the later ones.

At the first refresh nothing can be counted as new, but the dates of the first window give a rate; later ones bring a
count over an interval. `Learner.observe` separates the two, so that each estimator only says what it does with either.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from headwater.estimate.base import DAY, Bools, Estimator, Floats, Ragged, Rows

PRIOR_RATE = 1.0 / DAY  # one item a day, until something is known
LEAST_RATE = 1.0 / (1000 * DAY)  # a rate of nought would mean never looking again


class FirstRefreshEstimator(Estimator):
    """An estimator with a `begin` for first refreshes and a `learn` for all others."""

    @abstractmethod
    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        """First refreshes, with the rate that the window's dates give (NaN: no believable dates)."""

    @abstractmethod
    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        """All later refreshes; `end` is after `start`."""

    def observe(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None = None,
    ) -> None:
        first = np.isneginf(start)
        later = np.flatnonzero(end > np.where(first, np.inf, start))
        if first.any():
            at = np.flatnonzero(first)
            dates = published.take(at) if published is not None else None
            self.learn_first(rows[at], end[at], estimate_first_rate(dates, end[at]), dates)
        if len(later) == len(rows):
            self.learn(rows, start, end, new, saturated, published)
        elif len(later):
            dates = published.take(later) if published is not None else None
            self.learn(rows[later], start[later], end[later], new[later], saturated[later], dates)


def estimate_first_rate(published: Ragged | None, end: Floats) -> Floats:
    """Items per second that a first window's dates tell; NaN with fewer than two of them.

    The oldest item only opens the span, so n dates give n − 1 items between it and the refresh: silence since the
    newest item counts, which the mean gap alone would not see.

    >>> estimate_first_rate(Ragged(np.array([0, 3]), np.array([0.0, 10.0, 20.0])), np.array([100.0])).tolist()
    [0.02]
    """
    if published is None:
        return np.full(len(end), np.nan)
    counts = published.counts
    rate = np.full(len(end), np.nan)
    some = counts >= 2
    span = end[some] - published.times[published.offsets[:-1][some]]
    rate[some] = (counts[some] - 1) / np.maximum(span, 1.0)
    return rate


def spread_undated_items(start: Floats, end: Floats, new: Floats, published: Ragged | None, most: int = 500) -> Ragged:
    """When the new items came: their dates where there are any, else spread evenly over (start, end].

    >>> spread_undated_items(np.array([0.0]), np.array([10.0]), np.array([2.0]), None).times.tolist()
    [5.0, 10.0]
    """
    dated = published.counts if published is not None else np.zeros(len(end), np.intp)
    undated = dated == 0
    counts = np.where(undated, np.minimum(new, most).astype(np.intp), dated)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    owner = np.repeat(np.arange(len(end)), counts)
    within = np.arange(offsets[-1]) - offsets[:-1][owner]
    times = np.empty(offsets[-1])
    even = undated[owner]
    step = (within[even] + 1) / counts[owner[even]]
    times[even] = start[owner[even]] + step * (end[owner[even]] - start[owner[even]])
    if published is not None:
        times[~even] = published.times
    return Ragged(offsets, times)
