"""The mean gap of the last window, stretched by a virtual item while nothing comes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.estimate.base import HOUR, Bools, Column, Floats, Ragged, Rows
from headwater.estimate.learner import FirstRefreshEstimator, spread_undated_items
from headwater.estimate.recent import merge_dates


class MovingAverage(FirstRefreshEstimator):
    """One item every u seconds, u the mean gap of the last `window` items (Urbansky et al., eq. 1).

    A refresh at p that brings nothing puts a virtual item at p and drops the oldest (eq. 2):
    u = u₁ − (i₁ − i₀)/(w − 1) + (p − i_{w−1})/(w − 1), with u₁ and the items those of the real window. So u grows for
    as long as the silence lasts and is forgotten with the first real item.

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
    version = 2

    def __init__(self, feeds: int = 0, *, window: int = 20) -> None:
        self.window = window
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {
            "dates": Column(-np.inf, (self.window,), np.float64),
            "gap": Column(HOUR),
            "since": Column(np.inf, dtype=np.float64),  # the first refresh: what is silent from then on is silent
        }

    def gap(self, rows: Rows) -> Floats:
        """The predicted interval u."""
        return self._columns["gap"][rows].astype(np.float64)

    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        if published is not None:
            merge_dates(self._columns["dates"], rows, published)
        self._columns["since"][rows] = end
        self._predict_gap(rows, end, np.zeros(len(rows), bool))

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        merge_dates(self._columns["dates"], rows, spread_undated_items(start, end, new, published, self.window))
        self._predict_gap(rows, end, new <= 0)

    def _predict_gap(self, rows: Rows, end: Floats, quiet: Bools) -> None:
        dates = self._columns["dates"][rows]
        count = np.isfinite(dates).sum(axis=1)
        line, first = np.arange(len(rows)), np.minimum(self.window - count, self.window - 1)
        newest = np.where(count > 0, dates[:, -1], np.minimum(self._columns["since"][rows], end))
        # The sum of gaps telescopes; a virtual item at the refresh drops the oldest and takes the newest place.
        opens = np.where(quiet, dates[line, np.minimum(first + 1, self.window - 1)], dates[line, first])
        closes = np.where(quiet, np.maximum(end, newest), newest)
        enough = count >= 2
        # With fewer than two items eq. 1 has nothing to average: an hour, as for Fix Learned, or the silence so far.
        gap = np.where(quiet, np.maximum(end - newest, HOUR), HOUR)
        gap[enough] = (closes[enough] - opens[enough]) / (count[enough] - 1)
        self._columns["gap"][rows] = np.maximum(gap, 1.0)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(np.maximum(end - start, 0.0) / self._columns["gap"][rows])

    def time_until(self, rows: Rows, at: Floats, items: float, longest: float) -> Floats:
        return np.minimum(self._columns["gap"][rows].astype(np.float64) * items, longest)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(np.maximum(end - start, 0.0) ** 2 / (2 * self._columns["gap"][rows]))
