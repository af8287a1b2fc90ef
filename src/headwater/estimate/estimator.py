"""Defines Estimator, and FirstRefreshEstimator, which separates first refreshes from later ones.

An estimator never sees a clock, a feed's name or a document. For some rows it gets the interval between two refreshes
and the number of new items, and it answers how many items to expect in another interval.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows
from headwater.estimate.feed_columns import FeedColumns
from headwater.times import DAY, MINUTE


class Estimator(FeedColumns, ABC):
    """Estimates how often feeds publish.

    Every constructor is `Name(feeds=0, *, option=default, …)`.
    """

    @abstractmethod
    def observe(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None = None
    ) -> None:
        """Learn that each row brought `new` items between its refreshes at `start` and `end`.

        Rows marked `saturated` came back all new, so `new` is only a lower bound (censored at the window). `published`
        holds the plausible dates of the new items; a row may have none. At a feed's first refresh `start` is −inf and
        the whole document counts as new. A row occurs at most once in a call.
        """

    @abstractmethod
    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """Return the items each row is expected to publish between `start` and `end`; never negative or NaN."""

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """Return ∫ λ(t)(end − t) dt: the summed waiting time, at `end`, of the items expected since `start`.

        This is Sia & Cho's Lemma 1, and the ∫Div of the thesis's utility (eq. 4.5). Estimators that know the integral
        exactly override this sum over 16 pieces.
        """
        total = np.zeros(len(rows))
        pieces = 16
        width = (end - start) / pieces
        for k in range(1, pieces):
            total += self.expected(rows, start, start + k * width)
        return (total + self.expected(rows, start, end) / 2) * width

    def time_until(self, rows: Rows, at: Floats, items: float, longest: float) -> Floats:
        """Return the seconds from `at` until `items` are expected, at most `longest`.

        Found by bisection; estimators with a closed form override it.
        """
        low, high = np.zeros(len(rows)), np.full(len(rows), longest)
        for _ in range(32):
            middle = (low + high) / 2
            enough = self.expected(rows, at, at + middle) >= items
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def rate(self, rows: Rows, at: Floats) -> Floats:
        """Return the items per second around `at`: the mean over the following minute."""
        return self.expected(rows, at, at + MINUTE) / MINUTE

    def past_rate(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """Return the mean items per second between two past times, by which lost items are estimated."""
        return self.expected(rows, start, end) / np.maximum(end - start, 1.0)

    def daily_rate(self, rows: Rows, at: Floats) -> Floats:
        """Return the items per second, averaged over the day that follows `at`."""
        return self.expected(rows, at, at + DAY) / DAY


PRIOR_RATE = 1.0 / DAY  # one item a day
MIN_RATE = 1.0 / (1000 * DAY)  # a rate of 0 would mean no refresh ever again


class FirstRefreshEstimator(Estimator):
    """Separates first refreshes (`learn_first`) from all others (`learn`).

    At the first refresh nothing can be counted as new, but the dates of the first window give a rate. Later refreshes
    bring a count over an interval.
    """

    @abstractmethod
    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        """Learn from first refreshes. `rate` is the rate that the window's dates give (NaN: no plausible dates)."""

    @abstractmethod
    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        """Learn from all later refreshes; `end` is after `start`."""

    def observe(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None = None
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
    """Return the items per second that the dates of a first window give; NaN with fewer than two dates.

    The oldest item only opens the interval, so n dates give n − 1 items between it and the refresh. The silence since
    the newest item counts, which the mean gap alone would miss.

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
    """Return the times of the new items: their dates where there are any, else evenly spaced over (start, end].

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
