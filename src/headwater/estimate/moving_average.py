"""The mean gap of the last window, stretched by a virtual item while nothing comes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.estimate.base import HOUR, Bools, Column, Floats, Ragged, Rows
from headwater.estimate.learner import Learner, spread


class MovingAverage(Learner):
    """One item every u seconds, u the mean gap of the last `window` items (Urbansky et al., eq. 1).

    A refresh at p that brings nothing puts a virtual item at p and drops the oldest (eq. 2):
    u = u₁ − (i₁ − i₀)/(w − 1) + (p − i_{w−1})/(w − 1), with u₁ and the items those of the real window. So u grows for
    as long as the silence lasts and is forgotten with the first real item. Gaps are kept, not dates: they fit float32.

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

    def __init__(self, feeds: int = 0, *, window: int = 20) -> None:
        self.window = window
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {
            "gaps": Column(0.0, (self.window - 1,)),  # the newest at the end
            "count": Column(0, dtype=np.int16),
            "newest": Column(np.nan, dtype=np.float64),
            "gap": Column(HOUR),
        }

    def gap(self, rows: Rows) -> Floats:
        """The predicted interval u."""
        return self._columns["gap"][rows].astype(np.float64)

    def begin(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        if published is not None:
            self._push(rows, published)
        self._predict(rows, end, np.zeros(len(rows), bool))

    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        self._push(rows, spread(start, end, new, published, self.window))
        self._predict(rows, end, new <= 0)

    def _push(self, rows: Rows, came: Ragged) -> None:
        """Append the gaps that new items make; a row's oldest gaps fall out on the left."""
        counts, owner = came.counts, came.owner()
        previous = np.empty(len(came.times))
        previous[1:] = came.times[:-1]
        opens = came.offsets[:-1][counts > 0]
        previous[opens] = self._columns["newest"][rows[counts > 0]]
        fresh = np.maximum(came.times - previous, 0.0)
        real = ~np.isnan(fresh)  # a feed's very first item ends no gap
        made = np.bincount(owner[real], minlength=len(rows))
        # A row's k new gaps go to the right end; counting from the right, the newest is 0.
        from_right = (np.repeat(came.offsets[1:], counts) - 1 - np.arange(len(owner)))[real]
        width = self.window - 1
        fits = from_right < width
        kept = np.minimum(made, width)
        source = np.arange(width)[None, :] + kept[:, None]
        old = self._columns["gaps"][rows]
        shifted = np.take_along_axis(old, np.minimum(source, width - 1), axis=1)
        shifted[owner[real][fits], width - 1 - from_right[fits]] = fresh[real][fits]
        self._columns["gaps"][rows] = shifted
        self._columns["count"][rows] = np.minimum(self._columns["count"][rows] + made, width)
        some = counts > 0
        newest = came.times[came.offsets[1:][some] - 1]
        self._columns["newest"][rows[some]] = np.fmax(self._columns["newest"][rows[some]], newest)

    def _predict(self, rows: Rows, end: Floats, quiet: Bools) -> None:
        count = self._columns["count"][rows].astype(np.intp)
        width = self.window - 1
        gaps = self._columns["gaps"][rows].astype(np.float64)
        total = np.where(np.arange(width) >= width - count[:, None], gaps, 0.0).sum(axis=1)
        oldest = gaps[np.arange(len(rows)), np.minimum(width - count, width - 1)]
        silence = np.maximum(end - self._columns["newest"][rows], 0.0)
        total = np.where(quiet, total - oldest + silence, total)
        # With fewer than two items eq. 1 has nothing to average: an hour, as for Fix Learned, or the silence so far.
        alone = np.where(quiet, np.fmax(silence, HOUR), HOUR)
        gap = np.where(count > 0, total / np.maximum(count, 1), alone)
        self._columns["gap"][rows] = np.maximum(gap, 1.0)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(np.maximum(end - start, 0.0) / self._columns["gap"][rows])

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return np.asarray(np.maximum(end - start, 0.0) ** 2 / (2 * self._columns["gap"][rows]))
