"""Rhythm: when in the week feeds publish, as a clock that runs fast in busy hours and slowly at night.

All feeds together give a shape of 336 half hours of the week; each feed bends it by its own factor for each half hour
of the day, shrunk to 1 by `weight` items' worth of doubt. The product, scaled to one day per day on average, is the
speed of the feed's *own time*. In own time a feed publishes evenly, so rates, memories and forecasts are those of a
homogeneous process, and only this clock knows about mornings and weekends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.estimate.base import WEEK, Column, Floats, Rows, Rowwise
from headwater.estimate.compiled import AVAILABLE, compiled

SLOTS = 336  # half hours of a week
DAILY = 48
HALF_HOUR = 1800.0
START = 10.0  # items of doubt in each half hour of the common shape


class Rhythm(Rowwise):
    """The common week and each feed's day; times are epoch seconds, own time is in days."""

    name = "rhythm"

    def __init__(self, feeds: int = 0, *, weight: float = 8.0, memory: float = 60.0, shaped: bool = True) -> None:
        self.weight, self.memory, self.shaped = weight, memory, shaped
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {"daily": Column(0.0, (DAILY,))} if self.shaped else {}

    def shared(self) -> Mapping[str, Any]:
        return {"weekly": np.full(SLOTS, START), "shape": np.ones(SLOTS)}

    def learn(self, rows: Rows, owner: Rows, times: Floats, elapsed: Floats) -> None:
        """Items of `rows[owner]` at `times`; what the rows knew before fades over `elapsed` days."""
        if not self.shaped:
            return
        daily = self._columns["daily"]
        daily[rows] *= np.exp(-elapsed / self.memory)[:, None].astype(np.float32)
        slot = (np.mod(times, WEEK) / HALF_HOUR).astype(np.intp)
        np.add.at(daily, (rows[owner], slot % DAILY), np.float32(1.0))
        self._shared["weekly"] += np.bincount(slot, minlength=SLOTS)

    def refresh(self) -> None:
        """Make what was learned the common shape; called once a day, so that clocks run steadily between."""
        weekly = self._shared["weekly"]
        shape = weekly / weekly.sum() * SLOTS
        self._shared["shape"] = (np.roll(shape, 1) + 2 * shape + np.roll(shape, -1)) / 4

    def clocks(self, rows: Rows, fast: bool = False) -> Floats:
        """Own time at the edges of the week's half hours: one row of 337 days each, from 0 to 7.

        >>> Rhythm(1).clocks(np.array([0]))[0, [0, 48, 336]].tolist()
        [0.0, 1.0, 7.0]
        """
        if not self.shaped:
            return np.broadcast_to(np.linspace(0.0, 7.0, SLOTS + 1), (len(rows), SLOTS + 1)).copy()
        clocks = np.zeros((len(rows), SLOTS + 1))
        shape = self._shared["shape"].reshape(7, DAILY)
        if fast and AVAILABLE:
            compiled(_fill)(self._columns["daily"], rows, shape, self.weight, clocks)
            return clocks
        usual = shape.mean(0) / DAILY
        daily = self._columns["daily"][rows].astype(np.float64)
        total = daily.sum(1, keepdims=True)
        factor = (daily + self.weight * usual) / ((total + self.weight) * usual)
        factor = (np.roll(factor, 1, 1) + 2 * factor + np.roll(factor, -1, 1)) / 4
        speed = (shape[None] * factor[:, None, :]).reshape(len(rows), SLOTS)
        np.cumsum(speed, axis=1, out=clocks[:, 1:])
        clocks *= 7.0 / clocks[:, -1:]
        return clocks


def _fill(daily: Any, rows: Any, shape: Any, weight: float, clocks: Any) -> None:
    """The same as the arrays in `clocks`, row by row, for the compiler."""
    usual = np.zeros(48)
    for k in range(48):
        for day in range(7):
            usual[k] += shape[day, k]
        usual[k] /= 7.0 * 48
    factor = np.empty(48)
    for place in range(len(rows)):
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
                running += shape[day, k] * bent
                clocks[place, day * 48 + k + 1] = running
        scale = 7.0 / running
        for k in range(1, 337):
            clocks[place, k] *= scale


def own_time(clocks: Floats, position: Rows, when: Floats) -> Floats:
    """Own time, in days, of the feeds at `position` of `clocks` at the moments `when`."""
    week = np.floor(when / WEEK)
    slot = (when - week * WEEK) / HALF_HOUR
    whole = np.minimum(slot.astype(np.intp), SLOTS - 1)
    flat = clocks.reshape(-1)
    at = position * (SLOTS + 1) + whole
    below = flat[at]
    return np.asarray(week * 7.0 + below + (slot - whole) * (flat[at + 1] - below))
