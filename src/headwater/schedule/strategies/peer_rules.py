"""The polling rules of Miniflux (two), NewsBlur, CommaFeed, FreshRSS, reader, Media Cloud and StormCrawler.

Read from their sources in 2026. They serve as comparators in the lab.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.estimator import spread_undated_items
from headwater.estimate.feed_columns import Column
from headwater.estimate.models.mean_gap import compute_mean_gap
from headwater.estimate.recent_dates import count_since, merge_dates
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategies.learned_interval import LONGEST
from headwater.schedule.strategy import IntervalStrategy, Observed, Table
from headwater.times import DAY, HOUR, MINUTE, WEEK


def read_hints(seen: Observed) -> Floats:
    """Return the pause each server asked for, 0 where it asked for none."""
    return np.zeros(len(seen)) if seen.hint is None else np.nan_to_num(seen.hint, nan=0.0)


class BatchedInterval(IntervalStrategy):
    """Takes at most `batch` due feeds every `batch_every` seconds, oldest first, as Miniflux's worker does.

    After three failures in a row a feed is no longer polled, until somebody refreshes it by hand.
    """

    def __init__(
        self, feeds: int = 0, *, batch: int | None = 100, batch_every: float = HOUR, scale: float = 1.0
    ) -> None:
        self.batch, self.batch_every = batch, batch_every
        super().__init__(feeds, scale=scale)

    def shared(self) -> Mapping[str, Any]:
        return {"next_batch": -np.inf}

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        if self.batch is None:
            return super().choose(table, now, budget, candidates)
        if now < float(self._shared["next_batch"]) or budget.now <= 0:
            return Choice(np.empty(0, np.intp), np.empty(0))
        self._shared["next_batch"][...] = now + self.batch_every
        most = Budget(min(budget.now, self.batch), budget.rate, budget.host, budget.room)
        return super().choose(table, now, most, candidates)

    def observe_failures(self, table: Table, rows: Rows, at: Floats, failures: Rows) -> None:
        self.due[rows[failures >= 3]] = np.inf


class Miniflux(BatchedInterval):
    """Refresh after min(max(60 min, hint), 24 h), in batches of 100 every 60 min (Miniflux, “round robin”).

    >>> one, s = np.ones(1), Miniflux(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 0 * one, one, one, one > 1, hint=7200 * one))
    >>> s.due.tolist()
    [7200.0]
    """

    name = "miniflux"
    monotone = True

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        return np.minimum(np.maximum(HOUR, read_hints(seen)), DAY)


MINIFLUX_DATES_KEPT = 50  # in a busier week the newest fifty give the same mean gap


class MinifluxEntryFrequency(BatchedInterval):
    """Refresh as often as the feed had entries in the last week (Miniflux, “entry frequency”).

        w = ⌈7 d / mean gap⌉ over the entries of the last 7 days      interval = max(clamp(7 d / w, 5 min, 24 h), hint)

    With fewer than two entries the interval is 24 h.

    >>> from headwater.arrays import Ragged
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


NEWSBLUR_MONTH = 30 * DAY
NEWSBLUR_DATES_KEPT = 32  # thirty stories in thirty days are one a day, the highest class of the rule


class NewsBlur(IntervalStrategy):
    """Refresh by stories per day (spd, over 30 days) and subscribers (s); minutes to the next fetch:

        spd ≥ 1        6 if s ≥ 10,  15 if s > 1,  else 45
        0 < spd < 1    60(1 − spd) if s > 1,  else 360(1 − spd)
        spd = 0        360 if s > 1,  720 if s = 1,  else 1440 × months idle

    At most 240 if s ≥ 1, else 2880; plus 0–25 % at random (`rng`; half of that without).

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
        # For spd just below 1 the rule gives nearly 0; NewsBlur's worker runs once a minute.
        return np.asarray(np.maximum(minutes, 1.0) * MINUTE * (1 + chance / 4))


COMMAFEED_SHORTEST, COMMAFEED_LONGEST = 5 * MINUTE, 4 * HOUR


class CommaFeed(IntervalStrategy):
    """Refresh after half the mean gap of the document, less often the longer the feed is silent.

    Last publication ≥ 30 d ago or unknown: 4 h; ≥ 14 d: 2 h; ≥ 7 d: 1 h; else clamp(mean gap/2, 5 min, 1 h). After the
    k-th failure in a row: 5 min if k < 3, else (k − 2) hours, at most 4.

    >>> from headwater.arrays import Ragged
    >>> one, s = np.ones(1), CommaFeed(1)
    >>> shown = Ragged(np.array([0, 3]), np.array([0.0, 1200.0, 2400.0]))
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 2400 * one, 3 * one, 3 * one, one > 1, shown=shown))
    >>> s.due.tolist()  # 2400 + 1200/2
    [3000.0]
    """

    name = "commafeed"
    needs_shown = True

    def layout(self) -> dict[str, Column]:
        return {**super().layout(), "newest": Column(-np.inf, dtype=np.float64)}

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        newest = self._columns["newest"][seen.rows]
        for dates in (seen.published, seen.shown):
            if dates is not None:
                some = dates.counts > 0
                newest[some] = np.maximum(newest[some], dates.times[dates.offsets[1:][some] - 1])
        self._columns["newest"][seen.rows] = newest
        silent = seen.end - newest
        gap = compute_mean_gap(seen.shown, len(seen))
        pause = np.where(
            np.isnan(gap), COMMAFEED_LONGEST / 4, np.clip(gap / 2, COMMAFEED_SHORTEST, COMMAFEED_LONGEST / 4)
        )
        pause[silent >= 7 * DAY] = COMMAFEED_LONGEST / 4
        pause[silent >= 14 * DAY] = COMMAFEED_LONGEST / 2
        pause[silent >= 30 * DAY] = COMMAFEED_LONGEST
        return pause

    def observe_failures(self, table: Table, rows: Rows, at: Floats, failures: Rows) -> None:
        pause = np.where(failures < 3, COMMAFEED_SHORTEST, np.minimum(HOUR * (failures - 2), COMMAFEED_LONGEST))
        self.due[rows] = at + pause * self.scale


class FreshRSS(IntervalStrategy):
    """Refresh after `ttl` (1 h, at least 15 min), oldest first.

    Not before the cache expires, taken within [800 s, 24 h].

    >>> one, s = np.ones(1), FreshRSS(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 0 * one, one, one, one > 1, hint=1e9 * one))
    >>> s.due.tolist()  # whatever the server asks, a day at most
    [86400.0]
    """

    name = "freshrss"
    monotone = True

    def __init__(self, feeds: int = 0, *, ttl: float = HOUR, scale: float = 1.0) -> None:
        self.ttl = max(ttl, 15 * MINUTE)
        super().__init__(feeds, scale=scale)

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        hint = read_hints(seen)
        return np.maximum(self.ttl, np.where(hint > 0, np.clip(hint, 800.0, DAY), 0.0))


class LemonReader(IntervalStrategy):
    """Refresh at the next multiple of `grid` (60 min), later if the server asks for it, at most 31 d (lemon24/reader).

    `scale` multiplies the grid itself.

    >>> one, s = np.ones(1), LemonReader(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 5000 * one, one, one, one > 1))
    >>> s.due.tolist()
    [7200.0]
    """

    name = "reader"
    monotone = True

    def __init__(self, feeds: int = 0, *, grid: float = HOUR, scale: float = 1.0) -> None:
        self.grid = grid
        super().__init__(feeds, scale=scale)

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        step = self.grid * self.scale
        earliest = seen.end + np.minimum(read_hints(seen), LONGEST)
        point = (np.floor(earliest / step) + 1) * step
        return (point - seen.end) / self.scale  # `observe` multiplies it back


class MediaCloud(IntervalStrategy):
    """Refresh by the overlap of two documents in a row, within [10 min, 24 h].

    Duplicates < 33 %: 60 min sooner; ≥ 67 %: 10 min later, and 60 more if silent for 31 d.

    >>> one, s = np.ones(1), MediaCloud(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 0 * one, 9 * one, 10 * one, one > 1))
    >>> s.due.tolist()  # starts at twelve hours; one in ten is a duplicate: eleven
    [39600.0]
    """

    name = "mediacloud"
    first = 12 * HOUR

    def layout(self) -> dict[str, Column]:
        return {
            **super().layout(),
            "pause": Column(self.first),
            "changed": Column(np.nan, dtype=np.float64),
        }

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        pause = self._columns["pause"][seen.rows].astype(np.float64)
        overlap = 1 - np.where(seen.window > 0, np.minimum(seen.new / np.maximum(seen.window, 1.0), 1.0), 0.0)
        changed = np.where(
            (seen.new > 0) | np.isnan(self._columns["changed"][seen.rows]),
            seen.end,
            self._columns["changed"][seen.rows],
        )
        self._columns["changed"][seen.rows] = changed
        silent = seen.end - changed > 31 * DAY
        later = 10 * MINUTE + np.where(silent, HOUR, 0.0)
        first = ~np.isfinite(seen.start)  # the first document has nothing to overlap with
        step = np.select(
            [first, overlap < 0.33, overlap >= 0.67], [np.zeros(len(seen)), np.full(len(seen), -HOUR), later], 0.0
        )
        pause = np.clip(pause + step, 10 * MINUTE, DAY)
        self._columns["pause"][seen.rows] = pause
        return np.asarray(pause)


class StormCrawler(IntervalStrategy):
    """Refresh after the interval × 1.5 without a change, × 0.8 after one, within [90 min, 90 d]; starts at 12 h.

    >>> one, s = np.ones(1), StormCrawler(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 0 * one, 0 * one, one, one > 1))
    >>> (s.due / 3600).tolist()
    [18.0]
    """

    name = "stormcrawler"

    def layout(self) -> dict[str, Column]:
        return {**super().layout(), "pause": Column(12 * HOUR)}

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        pause = self._columns["pause"][seen.rows].astype(np.float64)
        factor = np.where(np.isfinite(seen.start), np.where(seen.new > 0, 0.8, 1.5), 1.0)
        pause = np.clip(pause * factor, 90 * MINUTE, 90 * DAY)
        self._columns["pause"][seen.rows] = pause
        return pause
