"""The mean gap of the first window, kept for ever."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.estimate.base import HOUR, Bools, Column, Estimator, Floats, Ragged, Rows


def compute_mean_gap(published: Ragged | None, count: int) -> Floats:
    """u = 1/(w − 1)·Σ(i_{n+1} − i_n), Urbansky et al., eq. 1; NaN with fewer than two dates.

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
    """One item every u seconds, u from the first window's dates (Urbansky et al., “Fix Learned”, eq. 1), else 1 h.

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
