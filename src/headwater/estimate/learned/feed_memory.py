"""Remembers when and how regularly each feed published, for the learned forecast.

Nothing here grows with the calendar: counts fade, rings forget, ages are capped where they become inputs. The
histograms fade over 30 days. They are kept in units of an older day, so that a frequent refresh does not lose its small
fading to rounding; `since` is that day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.feed_columns import Column, FeedColumns
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba
from headwater.times import DAY, HOUR, MINUTE, WEEK

SCALES = np.array([1 / 24, 1 / 6, 0.5, 2.0, 10.0, 40.0])  # days
HISTOGRAM_MEMORY = 30.0  # days
REBASE = 4.0  # weight of a new item in the old unit at which the histograms get a new one
DAY_SLOTS, WEEK_SLOTS, HOUR_SLOTS = 288, 168, 60  # five minutes of the day, hours of the week, minutes of the hour
HALF_HOUR, RECENT = 1800.0, 384  # the recent half hours: eight days
SLOTS_PER_DAY = 48
CLUSTER_GAP = 10 * MINUTE
STEP_WEIGHT = 1 / 32  # of the newest item or gap in the running means
MAX_ITEMS = 500  # items of one refresh that are remembered; the newest


@dataclass(frozen=True, slots=True)
class SeenItems:
    """The items of some refreshes: begin and end of each, the watched part, and the dated items by position."""

    begin: Floats
    watched_from: Floats
    end: Floats
    new: Floats
    saturated: Bools
    surprise: Floats
    owner: Rows
    times: Floats


class FeedMemory(FeedColumns):
    """Remembers about 1.4 kB of each feed's past."""

    name = "feed_memory"

    def layout(self) -> Mapping[str, Column]:
        return {
            "items": Column(0.0, (len(SCALES),)),
            "observed": Column(0.0, (len(SCALES),)),
            "since": Column(0.0, dtype=np.float64),
            "day": Column(0.0, (DAY_SLOTS,), np.float16),
            "week": Column(0.0, (WEEK_SLOTS,), np.float16),
            "hour": Column(0.0, (HOUR_SLOTS,), np.float16),
            "recent": Column(0, (RECENT,), np.uint8),
            "latest": Column(-np.inf, dtype=np.float64),  # the newest item
            "at": Column(-np.inf, dtype=np.float64),  # the latest refresh
            "gap": Column(np.array([0.0, 0.0, 0.0]), (3,)),  # weight, mean and mean square of ln(gap in days)
            "shares": Column(
                0.0, (5,)
            ),  # weight; items after < 2 min, < 1 h, on a full minute; items that open a cluster
            "refresh": Column(
                0.0, (4,)
            ),  # of the latest one: days since its predecessor, new items, surprise, saturated
        }

    def observe(self, rows: Rows, seen: SeenItems, fast: bool = False) -> None:
        """Remember refreshes and their dated items; `fast` compiles the loops over the half hours."""
        columns = self._columns
        first = ~np.isfinite(columns["at"][rows])
        elapsed = np.where(first, 0.0, np.maximum(seen.end - seen.begin, 0.0)) / DAY
        watched = np.maximum(seen.end - seen.watched_from, 0.0)[:, None] / DAY
        age = np.maximum(seen.end[seen.owner] - seen.times, 0.0) / DAY
        fade = np.exp(-elapsed[:, None] / SCALES)
        items = columns["items"][rows] * fade
        if len(age):
            place = seen.owner[:, None] * len(SCALES) + np.arange(len(SCALES))
            recent = np.exp(-age[:, None] / SCALES)
            items += np.bincount(place.reshape(-1), recent.reshape(-1), items.size).reshape(items.shape)
        columns["items"][rows] = items
        columns["observed"][rows] = columns["observed"][rows] * fade + SCALES * (1 - np.exp(-watched / SCALES))
        columns["refresh"][rows] = np.stack([elapsed, seen.new, seen.surprise, seen.saturated], axis=1)
        self._turn_ring(rows, seen, fast)
        self._count_in_histograms(rows, first, seen)
        self._learn_gaps(rows, seen)
        columns["at"][rows] = seen.end

    def _turn_ring(self, rows: Rows, seen: SeenItems, fast: bool) -> None:
        """Empty the half hours that have begun since the last refresh, and count the new items."""
        columns = self._columns
        now = np.floor(seen.end / HALF_HOUR).astype(np.int64)
        before = np.maximum(np.floor(columns["at"][rows] / HALF_HOUR), now - RECENT).astype(np.int64)
        slot = np.floor(seen.times / HALF_HOUR).astype(np.int64)
        turn = compile_with_numba(_turn_rings) if fast and NUMBA_AVAILABLE else _turn_rings
        turn(columns["recent"], rows, before, now, seen.owner, slot)

    def _count_in_histograms(self, rows: Rows, first: Bools, seen: SeenItems) -> None:
        columns = self._columns
        columns["since"][rows[first]] = seen.end[first]
        if not len(seen.times):
            return
        weight = np.exp((seen.end - columns["since"][rows]) / DAY / HISTOGRAM_MEMORY)
        old = weight > REBASE
        if old.any():
            for name in ("day", "week", "hour"):
                columns[name][rows[old]] = columns[name][rows[old]] / weight[old, None]
            columns["since"][rows[old]] = seen.end[old]
            weight = np.where(old, 1.0, weight)
        one, feed = weight[seen.owner].astype(np.float16), rows[seen.owner]
        within = np.mod(seen.times, WEEK)
        for name, width, slots in (
            ("day", 5 * MINUTE, DAY_SLOTS),
            ("week", HOUR, WEEK_SLOTS),
            ("hour", MINUTE, HOUR_SLOTS),
        ):
            np.add.at(columns[name], (feed, (within / width).astype(np.intp) % slots), one)

    def _learn_gaps(self, rows: Rows, seen: SeenItems) -> None:
        """Learn the gaps between items: the running means of each row take its new items in order of time."""
        if not len(seen.times):
            return
        columns = self._columns
        opens = np.append(True, seen.owner[1:] != seen.owner[:-1])
        before = np.where(opens, columns["latest"][rows[seen.owner]], np.append(-np.inf, seen.times[:-1]))
        gap = np.where(np.isfinite(before), seen.times - before, np.inf)
        counted = np.isfinite(before) & (gap >= 0)
        starts = counted & (gap > CLUSTER_GAP)
        length = np.log(np.clip(gap, MINUTE, 100 * DAY) / DAY)
        _fade_in(columns["gap"], rows, seen.owner[starts], np.stack([length[starts], length[starts] ** 2], axis=1))
        marks = np.stack([gap < 2 * MINUTE, gap < HOUR, np.mod(seen.times, MINUTE) == 0, starts], axis=1)
        _fade_in(columns["shares"], rows, seen.owner[counted], marks[counted].astype(np.float64))
        last = np.append(opens[1:], True)
        latest = rows[seen.owner[last]]
        columns["latest"][latest] = np.maximum(columns["latest"][latest], seen.times[last])

    def is_dated(self, rows: Rows) -> Bools:
        """Whether the items of each row have come with dates."""
        return np.asarray(np.isfinite(self._columns["latest"][rows]))

    def count_days(self, row: int, when: float) -> int:
        """Return on how many of the 7 days before the latest refresh a feed published within an hour of a time of day.

        An hour here is the half hour of that time and the two on each side of it, as far as they have been seen. The
        latest day is the one whose first of these half hours has begun.
        """
        newest = int(self._columns["at"][row] // HALF_HOUR)
        latest = newest + 2 - (newest + 2 - int(when // HALF_HOUR)) % SLOTS_PER_DAY
        slots = latest - SLOTS_PER_DAY * np.arange(7)[:, None] + np.arange(-2, 3)
        hit = (slots <= newest) & (self._columns["recent"][row, slots % RECENT] > 0)
        return int(hit.any(axis=1).sum())

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """The columns of all feeds."""
        return self._columns


def _turn_rings(recent: Any, rows: Any, before: Any, now: Any, owner: Any, slot: Any) -> None:
    """Empty the half hours since `before` and count the items of each, row by row; numba may compile it."""
    for place in range(len(rows)):
        ring = recent[rows[place]]
        begin, passed = (before[place] + 1) % RECENT, now[place] - before[place]
        ring[begin : begin + passed] = 0
        ring[: max(begin + passed - RECENT, 0)] = 0
    for k in range(len(owner)):
        place = owner[k]
        if slot[k] > now[place] - RECENT:
            at = slot[k] % RECENT
            if recent[rows[place], at] < 255:
                recent[rows[place], at] += 1


def _fade_in(column: Floats, rows: Rows, owner: Rows, values: Floats) -> None:
    """Move running means (weight first) of rows towards new values, given in order: each counts 1/32 of the rest.

    The weight goes from 0 to 1; a mean of little weight is drawn to nothing by whoever reads it.
    """
    if not len(owner):
        return
    counts = np.bincount(owner, minlength=len(rows))
    rank = (
        counts[owner] - 1 - (np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner])
    )  # newer ones of the same row
    share = STEP_WEIGHT * (1 - STEP_WEIGHT) ** rank
    some = counts > 0
    kept = (1 - STEP_WEIGHT) ** counts[some]
    state = column[rows[some]].astype(np.float64)
    added = np.stack([np.bincount(owner, share * part, len(rows))[some] for part in values.T], axis=1)
    weight = state[:, 0] * kept + 1 - kept
    state[:, 1:] = (state[:, 1:] * (state[:, :1] * kept[:, None]) + added) / weight[:, None]
    state[:, 0] = weight
    column[rows[some]] = state
