"""Urbansky et al., eq. 1–2: the mean gap between items, learned once or as a moving average."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows
from headwater.estimate.estimator import Estimator, FirstRefreshEstimator, spread_undated_items
from headwater.estimate.feed_columns import Column
from headwater.estimate.recent_dates import merge_dates
from headwater.times import HOUR

USUAL_WINDOW = 20  # items of a document whose size nobody has told
MAX_DATES = 50  # dates kept per feed; of a larger window the newest count


def compute_mean_gap(published: Ragged | None, count: int) -> Floats:
    """Return u = 1/(w − 1)·Σ(i_{n+1} − i_n) (Urbansky et al., eq. 1); NaN with fewer than two dates.

    The sum telescopes: only the first and the last date matter.

    >>> compute_mean_gap(Ragged(np.array([0, 3]), np.array([0.0, 10.0, 40.0])), 1).tolist()
    [20.0]
    """
    gap = np.full(count, np.nan)
    if published is not None:
        some = published.counts >= 2
        first, last = published.offsets[:-1][some], published.offsets[1:][some] - 1
        gap[some] = (published.times[last] - published.times[first]) / (published.counts[some] - 1)
    return gap


class LearnedOnce(Estimator):
    """Expect one item every u seconds, u from the dates of the first window, else 1 h (“Fix Learned”, eq. 1).

    >>> e, row = LearnedOnce(1), np.array([0])
    >>> dates = Ragged(np.array([0, 3]), np.array([0.0, 100.0, 400.0]))
    >>> e.observe(row, np.array([-np.inf]), np.array([500.0]), np.array([3.0]), np.array([False]), dates)
    >>> e.expected(row, np.array([0.0]), np.array([400.0])).tolist()  # u = 400/2
    [2.0]
    """

    name = "learned_once"

    def layout(self) -> Mapping[str, Column]:
        return {"gap": Column(HOUR), "learned": Column(0, dtype=np.int8)}

    def observe(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None = None
    ) -> None:
        first = self._columns["learned"][rows] == 0
        gap = compute_mean_gap(published, len(rows))
        known = first & ~np.isnan(gap)
        self._columns["gap"][rows[known]] = np.maximum(gap[known], 1.0)
        self._columns["learned"][rows] = 1

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(np.maximum(end - start, 0.0) / self._columns["gap"][rows])

    def time_until(self, rows: Rows, at: Floats, items: float, longest: float) -> Floats:
        return np.minimum(self._columns["gap"][rows].astype(np.float64) * items, longest)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(np.maximum(end - start, 0.0) ** 2 / (2 * self._columns["gap"][rows]))


class MovingAverage(FirstRefreshEstimator):
    """Expect one item every u seconds, u the mean gap of the last w items (Urbansky et al., eq. 1).

    w is the feed's own window: `set_windows` tells it, at most 50. `window` fixes one w for all feeds instead.

    A refresh at p that brings nothing puts a virtual item at p and drops the oldest (eq. 2):

        u = u₁ − (i₁ − i₀)/(w − 1) + (p − i_{w−1})/(w − 1)

    u₁ and the items are those of the real window. So u grows as long as the silence lasts and returns with the first
    real item.

    >>> e, row, no = MovingAverage(1), np.array([0]), np.array([False])
    >>> dates = Ragged(np.array([0, 3]), np.array([0.0, 100.0, 200.0]))
    >>> e.observe(row, np.array([-np.inf]), np.array([200.0]), np.array([3.0]), no, dates)
    >>> e.gap(row).tolist()  # two gaps of 100
    [100.0]
    >>> e.observe(row, np.array([200.0]), np.array([600.0]), np.array([0.0]), no)
    >>> e.gap(row).tolist()  # 100 − 100/2 + (600 − 200)/2
    [250.0]
    """

    name = "moving_average"
    version = 3

    def __init__(self, feeds: int = 0, *, window: int | None = None) -> None:
        self.window, self._kept = window, MAX_DATES if window is None else window
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {
            "dates": Column(-np.inf, (self._kept,), np.float64),
            "window": Column(USUAL_WINDOW if self.window is None else self.window, dtype=np.int16),
            "gap": Column(HOUR),
            "since": Column(np.inf, dtype=np.float64),  # the first refresh: silence counts from here
        }

    def gap(self, rows: Rows) -> Floats:
        """Return the predicted interval u."""
        return self._columns["gap"][rows].astype(np.float64)

    def set_windows(self, rows: Rows, sizes: Floats) -> None:
        """Tell how many items the feeds' documents show; 0 (an answer without a document) changes nothing."""
        if self.window is None:
            told = sizes > 0
            self._columns["window"][rows[told]] = np.clip(sizes[told], 2, self._kept)

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        if published is not None:
            merge_dates(self._columns["dates"], rows, published)
        self._columns["since"][rows] = end
        self._predict_gap(rows, end, np.zeros(len(rows), bool))

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        merge_dates(self._columns["dates"], rows, spread_undated_items(start, end, new, published, self._kept))
        self._predict_gap(rows, end, new <= 0)

    def _predict_gap(self, rows: Rows, end: Floats, quiet: Bools) -> None:
        dates = self._columns["dates"][rows]
        count = np.minimum(np.isfinite(dates).sum(axis=1), self._columns["window"][rows])
        line, first = np.arange(len(rows)), np.minimum(self._kept - count, self._kept - 1)
        newest = np.where(count > 0, dates[:, -1], np.minimum(self._columns["since"][rows], end))
        # The sum of gaps telescopes; a virtual item at the refresh drops the oldest and takes the newest place.
        opens = np.where(quiet, dates[line, np.minimum(first + 1, self._kept - 1)], dates[line, first])
        closes = np.where(quiet, np.maximum(end, newest), newest)
        enough = count >= 2
        # Eq. 1 needs two items; with fewer, take an hour, as Fix Learned does, or the silence so far.
        gap = np.where(quiet, np.maximum(end - newest, HOUR), HOUR)
        gap[enough] = (closes[enough] - opens[enough]) / (count[enough] - 1)
        self._columns["gap"][rows] = np.maximum(gap, 1.0)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(np.maximum(end - start, 0.0) / self._columns["gap"][rows])

    def time_until(self, rows: Rows, at: Floats, items: float, longest: float) -> Floats:
        return np.minimum(self._columns["gap"][rows].astype(np.float64) * items, longest)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(np.maximum(end - start, 0.0) ** 2 / (2 * self._columns["gap"][rows]))
