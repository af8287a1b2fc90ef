"""NewsBlur's rule: by stories per day and by how many people read the feed."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import DAY, MINUTE, Column, Floats
from headwater.estimate.learner import spread_undated_items
from headwater.estimate.recent import count_since, merge_dates
from headwater.schedule.base import IntervalStrategy, Observed, Table

NEWSBLUR_MONTH = 30 * DAY
NEWSBLUR_DATES_KEPT = 32  # thirty stories in thirty days are one a day, the most the rule tells apart


class NewsBlur(IntervalStrategy):
    """Minutes to the next fetch, from stories per day (spd, over 30 days) and subscribers (s):

    spd ≥ 1: 6 if s ≥ 10, 15 if s > 1, else 45; 0 < spd < 1: 60(1 − spd) if s > 1, else 360(1 − spd); spd = 0: 360 if
    s > 1, 720 if s = 1, else 1440 × months idle. At most 240 if s ≥ 1, else 2880; plus 0–25 % by chance (`rng`; half
    of it without).

    >>> one, s, table = np.ones(1), NewsBlur(1), Table.of(1)
    >>> s.observe(table, Observed(np.array([0]), 0 * one, 3600 * one, 40 * one, 40 * one, one > 1))
    >>> ((s.due - 3600) / 60).tolist()  # one reader, busy: 45 min and an eighth
    [50.625]
    """

    name = "newsblur"
    monotone = True

    def __init__(self, feeds: int = 0, *, scale: float = 1.0, rng: np.random.Generator | int | None = None) -> None:
        self._rng = rng if rng is None or isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        super().__init__(feeds, scale=scale)

    def layout(self) -> dict[str, Column]:
        return {**super().layout(), "dates": Column(-np.inf, (NEWSBLUR_DATES_KEPT,), np.float64)}

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        start = np.where(np.isfinite(seen.start), seen.start, seen.end)
        merge_dates(
            self._columns["dates"],
            seen.rows,
            spread_undated_items(start, seen.end, seen.new, seen.published, NEWSBLUR_DATES_KEPT),
        )
        count, _, _ = count_since(self._columns["dates"], seen.rows, seen.end - NEWSBLUR_MONTH)
        per_day, readers = count / 30, table.subscribers[seen.rows]
        newest = self._columns["dates"][seen.rows, -1]
        idle = np.where(np.isfinite(newest), np.maximum((seen.end - newest) / NEWSBLUR_MONTH, 1.0), 1.0)
        minutes = np.select(
            [
                (per_day >= 1) & (readers >= 10),
                (per_day >= 1) & (readers > 1),
                per_day >= 1,
                (per_day > 0) & (readers > 1),
                per_day > 0,
                readers > 1,
                readers == 1,
            ],
            [
                np.full(len(seen), 6.0),
                np.full(len(seen), 15.0),
                np.full(len(seen), 45.0),
                60 * (1 - per_day),
                360 * (1 - per_day),
                np.full(len(seen), 360.0),
                np.full(len(seen), 720.0),
            ],
            1440 * idle,
        )
        minutes = np.minimum(minutes, np.where(readers >= 1, 240.0, 2880.0))
        chance = np.full(len(seen), 0.5) if self._rng is None else self._rng.random(len(seen))
        # spd just below 1 would make the rule's interval vanish; its worker wakes once a minute.
        return np.asarray(np.maximum(minutes, 1.0) * MINUTE * (1 + chance / 4))
