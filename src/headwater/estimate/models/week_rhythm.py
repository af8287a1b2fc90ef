"""Learns the weekly shape of kinds of feeds and of each feed's day.

The result is a clock per feed that runs fast in busy hours and slowly at night. There are several kinds of feeds:
mornings of different parts of the world, working weeks, every day alike. All feeds of a kind together give a shape of
336 half hours of the week, shrunk to the shape of all feeds where items are few. The fit of a feed's items to each
shape says how far the feed belongs to that kind (a mixture, learned as items arrive). Each feed multiplies its shape by
its own factor for each half hour of the day, shrunk to 1 by `weight` items' worth of doubt. The product, scaled to one
day per day on average, is the speed of the feed's *own time*. In own time a feed publishes evenly, so rates, memories
and forecasts are those of a homogeneous process, and only this clock knows about mornings and weekends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.estimate.feed_columns import Column, FeedColumns
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba
from headwater.times import WEEK

SLOTS = 336  # half hours of a week
DAILY = 48
HALF_HOUR = 1800.0
PHASES = 4  # kinds start with a busy time every six hours, with and without a weekend
KINDS = 2 * PHASES
START = 3.0  # weight, in items, of the shape of all kinds in each half hour of a kind
MAX_TAUGHT = 20.0  # items of one refresh that count in the shapes of all feeds
NEGLIGIBLE = 1e-3  # kinds with a smaller share are left out of a feed's shape


class WeekRhythm(FeedColumns):
    """The week of each kind and the day of each feed; times are epoch seconds, own time is in days."""

    name = "rhythm"
    version = 3

    def __init__(self, feeds: int = 0, *, weight: float = 8.0, memory: float = 60.0, shaped: bool = True) -> None:
        self.weight, self.memory, self.shaped = weight, memory, shaped
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {"daily": Column(0.0, (DAILY,)), "fit": Column(0.0, (KINDS,))} if self.shaped else {}

    def shared(self) -> Mapping[str, Any]:
        weekly = np.ones((KINDS, SLOTS))
        return {"weekly": weekly, "shape": compute_shapes(weekly)}

    def learn(self, rows: Rows, owner: Rows, times: Floats, elapsed: Floats) -> None:
        """Learn from items of `rows[owner]` at `times`; earlier knowledge fades over `elapsed` days."""
        if not self.shaped:
            return
        daily, fit, weekly = self._columns["daily"], self._columns["fit"], self._shared["weekly"]
        kept = np.exp(-elapsed / self.memory)[:, None].astype(np.float32)
        daily[rows] *= kept
        fit[rows] *= kept
        if not len(owner):
            return
        order = np.argsort(rows[owner], kind="stable")  # so that sums do not depend on the order within a batch
        owner, slot = owner[order], (np.mod(times[order], WEEK) / HALF_HOUR).astype(np.intp)
        np.add.at(daily, (rows[owner], slot % DAILY), np.float32(1.0))
        # Each item is evidence for the kinds that publish at its hour, then counts for each by its feed's share.
        np.add.at(fit, rows[owner], np.log(self._shared["shape"][:, slot].T).astype(np.float32))
        many = np.bincount(owner, minlength=len(rows))
        share = self.kind_shares(rows) * np.minimum(1.0, MAX_TAUGHT / np.maximum(many, 1))[:, None]
        np.add.at(weekly.T, slot, share[owner])

    def update_shapes(self) -> None:
        """Turn the learned counts into shapes; called once a day, so that clocks are constant in between."""
        self._shared["shape"] = compute_shapes(self._shared["weekly"])

    def kind_shares(self, rows: Rows) -> Floats:
        """Return how far each row belongs to each kind: the posterior of a mixture with equal priors."""
        fit = self._columns["fit"][rows].astype(np.float64)
        share = np.exp(fit - fit.max(1, keepdims=True))
        share[share < NEGLIGIBLE] = 0.0
        return np.asarray(share / share.sum(1, keepdims=True))

    def kind_shapes(self, rows: Rows, slots: Rows) -> Floats:
        """Return the week of each row's likeliest kind at some half hours, one line per row."""
        if not self.shaped:
            return np.ones(slots.shape)
        kind = self._columns["fit"][rows].argmax(1)
        return np.asarray(self._shared["shape"][kind[:, None], slots])

    def clocks(self, rows: Rows, fast: bool = False) -> Floats:
        """Return own time at the edges of the week's half hours: one row of 337 values from 0 to 7 days each.

        >>> WeekRhythm(1).clocks(np.array([0]))[0, [0, 336]].tolist()
        [0.0, 7.0]
        """
        if not self.shaped:
            return np.broadcast_to(np.linspace(0.0, 7.0, SLOTS + 1), (len(rows), SLOTS + 1)).copy()
        clocks = np.zeros((len(rows), SLOTS + 1))
        share, kinds = self.kind_shares(rows), self._shared["shape"]
        if fast and NUMBA_AVAILABLE:
            compile_with_numba(_fill_clocks_kernel)(self._columns["daily"], rows, share, kinds, self.weight, clocks)
            return clocks
        # Not by a matrix product, whose rounding depends on a row's neighbours.
        shape = np.einsum("rk,ks->rs", share, kinds).reshape(-1, 7, DAILY)
        usual = shape.mean(1) / DAILY
        daily = self._columns["daily"][rows].astype(np.float64)
        total = daily.sum(1, keepdims=True)
        factor = (daily + self.weight * usual) / ((total + self.weight) * usual)
        factor = (np.roll(factor, 1, 1) + 2 * factor + np.roll(factor, -1, 1)) / 4
        speed = (shape * factor[:, None, :]).reshape(len(rows), SLOTS)
        np.cumsum(speed, axis=1, out=clocks[:, 1:])
        clocks *= 7.0 / clocks[:, -1:]
        return clocks


def initial_shapes() -> Floats:
    """Return the shapes of the kinds before they have items.

    Each is a wave around a busy hour; half of them rest a little at weekends.
    """
    hours = np.arange(SLOTS) / 2
    phases = np.arange(KINDS) % PHASES * (24 / PHASES)
    weekend = (hours // 24 >= 2) & (hours // 24 < 4)  # the epoch began on a Thursday
    rest = np.where(weekend & (np.arange(KINDS) >= PHASES)[:, None], 0.65, 1.0)
    return np.asarray((1 + 0.5 * np.cos(2 * np.pi * (hours - phases[:, None]) / 24)) * rest)


def compute_shapes(weekly: Floats) -> Floats:
    """Return the items of each kind as speeds with mean 1, shrunk to the shape of all kinds where items are few."""
    expected = _smooth_half_hours(weekly.sum(0, keepdims=True)) * initial_shapes()
    items = weekly + START * expected / expected.mean(1, keepdims=True)
    return _smooth_half_hours(items / items.mean(1, keepdims=True))


def _smooth_half_hours(shape: Floats) -> Floats:
    """Smooth each half hour with its neighbours."""
    return np.asarray((np.roll(shape, 1, 1) + 2 * shape + np.roll(shape, -1, 1)) / 4)


def _fill_clocks_kernel(daily: Any, rows: Any, share: Any, kinds: Any, weight: float, clocks: Any) -> None:
    """Compute `WeekRhythm.clocks` row by row, for numba."""
    shape, usual = np.empty(336), np.empty(48)
    factor = np.empty(48)
    for place in range(len(rows)):
        shape[:] = 0.0
        for kind in range(kinds.shape[0]):
            if share[place, kind] > 0.0:
                for k in range(336):
                    shape[k] += share[place, kind] * kinds[kind, k]
        for k in range(48):
            usual[k] = 0.0
            for day in range(7):
                usual[k] += shape[day * 48 + k]
            usual[k] /= 7.0 * 48
        counts = daily[rows[place]]
        total = weight
        for k in range(48):
            total += counts[k]
        for k in range(48):
            factor[k] = (counts[k] + weight * usual[k]) / (total * usual[k])
        running = 0.0
        for day in range(7):
            for k in range(48):
                bent = (factor[k - 1] + 2 * factor[k] + factor[k + 1 if k < 47 else 0]) / 4
                running += shape[day * 48 + k] * bent
                clocks[place, day * 48 + k + 1] = running
        scale = 7.0 / running
        for k in range(1, 337):
            clocks[place, k] *= scale


def to_own_time(clocks: Floats, position: Rows, when: Floats) -> Floats:
    """Return the own time, in days, of the feeds at `position` of `clocks` at the times `when`."""
    week = np.floor(when / WEEK)
    slot = (when - week * WEEK) / HALF_HOUR
    whole = np.minimum(slot.astype(np.intp), SLOTS - 1)
    flat = clocks.reshape(-1)
    at = position * (SLOTS + 1) + whole
    below = flat[at]
    return np.asarray(week * 7.0 + below + (slot - whole) * (flat[at + 1] - below))
