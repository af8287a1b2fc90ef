"""Miniflux's other rule: as often as the feed had entries in the last week."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, HOUR, MINUTE, WEEK, Column, Floats
from headwater.estimate.learner import spread_undated_items
from headwater.estimate.recent import count_since, merge_dates
from headwater.schedule.base import Observed, Table
from headwater.schedule.miniflux import BatchedInterval, read_hints

MINIFLUX_DATES_KEPT = 50  # entries remembered; of a busier week the newest fifty give the same mean gap


class MinifluxEntryFrequency(BatchedInterval):
    """Entries of the last 7 days: w = ⌈7 d / mean gap⌉, 0 if fewer than two; interval = clamp(7 d / w, 5 min, 24 h).

    No entries: 24 h. Then at least what the server asked for. (Miniflux, “entry frequency”.)

    >>> from headwater.estimate.base import Ragged
    >>> one, s = np.ones(1), MinifluxEntryFrequency(1)
    >>> dates = Ragged(np.array([0, 3]), np.array([0.0, 7200.0, 14400.0]))
    >>> s.observe(Table.of(1), Observed(np.array([0]), -np.inf * one, 14400 * one, 3 * one, 3 * one, one > 1, dates))
    >>> s.due.tolist()  # a gap of two hours: 84 a week, so again after two hours
    [21600.0]
    """

    name = "miniflux_entry_frequency"
    monotone = True

    def __init__(
        self, feeds: int = 0, *, batch: int | None = None, batch_every: float = HOUR, scale: float = 1.0
    ) -> None:
        super().__init__(feeds, batch=batch, batch_every=batch_every, scale=scale)

    def layout(self) -> dict[str, Column]:
        return {**super().layout(), "dates": Column(-np.inf, (MINIFLUX_DATES_KEPT,), np.float64)}

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        start = np.where(np.isfinite(seen.start), seen.start, seen.end)
        merge_dates(
            self._columns["dates"],
            seen.rows,
            spread_undated_items(start, seen.end, seen.new, seen.published, MINIFLUX_DATES_KEPT),
        )
        count, oldest, newest = count_since(self._columns["dates"], seen.rows, seen.end - WEEK)
        some = count >= 2
        gap = np.maximum(newest[some] - oldest[some], 1.0) / (count[some] - 1)
        pause = np.full(len(seen), DAY)
        pause[some] = np.clip(WEEK / np.ceil(WEEK / gap), 5 * MINUTE, DAY)
        return np.asarray(np.maximum(pause, read_hints(seen)))
