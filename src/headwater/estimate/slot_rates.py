"""Keeps posting rates by slot of the day or week as running sums.

A feed's row holds for each slot the items expected from the start of the period to the *end* of the slot. The
expectation between any two times is then two look-ups, however many slots lie between: a decision over a million feeds
with 168 slots reads a few numbers per row instead of the whole table. The expectation of one slot is the difference of
its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, Rows, iterate_blocks
from headwater.estimate.estimator import Estimator
from headwater.estimate.feed_columns import Column
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba

WORTH_COMPILING = 1000  # rows; below, numpy is as fast


class SlotEstimator(Estimator):
    """Estimates by a row of `slots` numbers that repeats every `period` seconds (column `upto`)."""

    def __init__(self, feeds: int, *, slots: int, period: float, rate: float) -> None:
        self.slots, self.period, self._prior = slots, period, rate
        self.width = period / slots
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        ramp = np.arange(1, self.slots + 1, dtype=np.float64) * (self._prior * self.width)
        return {"upto": Column(ramp, (self.slots,))}

    def per_slot(self, rows: Rows) -> Floats:
        """Return the items expected in each slot of a period, one line per row."""
        upto = self._columns["upto"][rows].astype(np.float64)
        upto[:, 1:] -= upto[:, :-1].copy()
        return np.maximum(upto, 0.0)

    def set_slots(self, rows: Rows, items: Floats) -> None:
        """Set the items expected in each slot, one line per row."""
        self._columns["upto"][rows] = np.cumsum(items, axis=1)

    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        return items_between(self._columns["upto"], rows, self.period, start, end)

    def time_until(self, rows: Rows, at: Floats, items: float, longest: float) -> Floats:
        return np.minimum(self._find_time_until(rows, at, np.full(len(rows), items)), longest)

    def _find_time_until(self, rows: Rows, at: Floats, items: Floats) -> Floats:
        """Return the seconds until the running sum has grown by `items`; bisects the line for the slot."""
        upto = self._columns["upto"]
        periods, slot, within = self.locate(at)
        full = np.maximum(upto[rows, -1].astype(np.float64), 1e-300)
        before = np.where(slot > 0, upto[rows, slot - 1], 0.0)
        laps, rest = np.divmod(before + (upto[rows, slot] - before) * within + items, full)
        low, high = np.zeros(len(rows), np.intp), np.full(len(rows), self.slots - 1)
        for _ in range(self.slots.bit_length()):
            middle = (low + high) // 2
            enough = upto[rows, middle] >= rest
            low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
        before = np.where(high > 0, upto[rows, high - 1], 0.0)
        step = upto[rows, high] - before
        share = np.clip((rest - before) / np.where(step > 0, step, 1.0), 0.0, 1.0)
        return np.asarray((periods + laps) * self.period + (high + share) * self.width - at)

    def locate(self, at: Floats) -> tuple[Floats, Rows, Floats]:
        return locate_slot(at, self.slots, self.period)

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """Return the exact integral.

        The running sum is piecewise linear, so one more running sum, made in blocks, integrates it.
        """
        total = np.empty(len(rows))
        if NUMBA_AVAILABLE and len(rows) >= WORTH_COMPILING:
            compile_with_numba(_delay_kernel)(self._columns["upto"], rows, self.period, start, end, total)
            return total
        for part in iterate_blocks(len(rows)):
            total[part] = self._delay_block(rows[part], start[part], end[part])
        return total

    def _delay_block(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        upto = self._columns["upto"][rows].astype(np.float64)
        area = np.cumsum(upto, axis=1)
        area[:, 1:] += area[:, :-1].copy()
        area *= self.width / 2  # by trapezia: (0 + u₀)/2, then + (u₀ + u₁)/2, …
        line = np.arange(len(rows))
        full, whole = upto[:, -1], area[:, -1]

        def integral(at: Floats) -> tuple[Floats, Floats]:
            """Return the running sum at `at` and its integral from the start of the first period concerned."""
            periods, slot, within = self.locate(at)
            periods = periods - origin
            before = np.where(slot > 0, upto[line, slot - 1], 0.0)
            height = before + (upto[line, slot] - before) * within
            under = np.where(slot > 0, area[line, slot - 1], 0.0) + (before + height) / 2 * within * self.width
            since = (slot + within) * self.width
            # Each period adds its own area on top of the step that all earlier periods left behind.
            stairs = periods * whole + full * self.period * periods * (periods - 1) / 2
            return height + periods * full, under + stairs + periods * full * since

        origin = np.floor(start / self.period)
        low, before = integral(start)
        _, after = integral(end)
        return np.maximum(after - before - low * (end - start), 0.0)

    def coverage(self, start: Floats, end: Floats) -> Floats:
        """Return the seconds of [start, end] that fall into each slot, one line per interval."""
        edges = np.arange(self.slots) * self.width
        length = np.maximum(end - start, 0.0)
        offset = np.mod(start, self.period)[:, None]
        whole, rest = np.divmod(length, self.period)
        covered = np.zeros((len(start), self.slots))
        for lap in (0.0, self.period):  # the rest after whole periods may pass the end of a period once
            low = np.maximum(offset, edges + lap)
            high = np.minimum(offset + rest[:, None], edges + lap + self.width)
            covered += np.maximum(high - low, 0.0)
        return covered + whole[:, None] * self.width


def locate_slot(at: Floats, slots: int, period: float) -> tuple[Floats, Rows, Floats]:
    """Return the whole periods since the epoch, the slot, and the position within the slot (0 to 1)."""
    periods = np.floor(at / period)
    inside = (at - periods * period) * (slots / period)
    slot = np.minimum(inside.astype(np.intp), slots - 1)
    return periods, slot, inside - slot


def running_items(upto: NDArray[Any], lines: Rows, period: float, at: Floats) -> Floats:
    """Return the items expected from time 0 to `at`, from a table of running sums; only differences are meaningful."""
    slots = upto.shape[1]
    periods, slot, within = locate_slot(at, slots, period)
    flat = upto.reshape(-1)
    base = lines * slots
    here = flat[base + slot]
    before = np.where(slot > 0, flat[base + np.maximum(slot - 1, 0)], np.float32(0.0))
    full = flat[base + (slots - 1)]
    return np.asarray(full * periods + before + (here - before) * within)


def items_between(upto: NDArray[Any], lines: Rows, period: float, start: Floats, end: Floats) -> Floats:
    """Return the items expected from `start` to `end`, never negative; two look-ups per line, by numba if possible."""
    if NUMBA_AVAILABLE and len(lines) >= WORTH_COMPILING:
        found = np.empty(len(lines))
        compile_with_numba(_items_between_kernel)(upto, lines, period, start, end, found)
        return found
    return np.maximum(running_items(upto, lines, period, end) - running_items(upto, lines, period, start), 0.0)


def _items_between_kernel(
    upto: NDArray[Any], lines: Rows, period: float, start: Floats, end: Floats, found: Floats
) -> None:
    """Compute the difference of `running_items` line by line, in the same order of operations, for numba."""
    slots = upto.shape[1]
    scale = slots / period
    until, laps, far, last = np.nan, 0.0, 0.0, 0
    for k in range(len(lines)):
        line = lines[k]
        if not (np.isfinite(start[k]) and np.isfinite(end[k])):
            found[k] = np.nan
            continue
        if end[k] != until:  # in a decision `end` is the same for all rows
            until = end[k]
            laps = np.floor(until / period)
            far = (until - laps * period) * scale
            last = min(int(far), slots - 1)
        full = upto[line, slots - 1]
        before = upto[line, last - 1] if last > 0 else np.float32(0.0)
        high = full * laps + before + (upto[line, last] - before) * (far - last)
        periods = np.floor(start[k] / period)
        inside = (start[k] - periods * period) * scale
        slot = min(int(inside), slots - 1)
        before = upto[line, slot - 1] if slot > 0 else np.float32(0.0)
        low = full * periods + before + (upto[line, slot] - before) * (inside - slot)
        found[k] = max(high - low, 0.0)


def _delay_kernel(upto: NDArray[Any], lines: Rows, period: float, start: Floats, end: Floats, found: Floats) -> None:
    """Compute `SlotEstimator._delay_block` line by line, in one pass over the slots, for numba."""
    slots = upto.shape[1]
    width, scale = period / slots, slots / period
    for k in range(len(lines)):
        line = upto[lines[k]]
        if not (np.isfinite(start[k]) and np.isfinite(end[k])):
            found[k] = np.nan
            continue
        origin, last_period = np.floor(start[k] / period), np.floor(end[k] / period)
        first, last = (start[k] - origin * period) * scale, (end[k] - last_period * period) * scale
        from_slot, to_slot = min(int(first), slots - 1), min(int(last), slots - 1)
        # Three loops without a branch: to the earlier slot, to the later one and to the end.
        total = 0.0
        for slot in range(min(from_slot, to_slot)):
            total += np.float64(line[slot])
        sum_from = sum_to = total
        for slot in range(min(from_slot, to_slot), max(from_slot, to_slot)):
            total += np.float64(line[slot])
        if from_slot < to_slot:
            sum_to = total
        else:
            sum_from = total
        for slot in range(max(from_slot, to_slot), slots):
            total += np.float64(line[slot])
        # By trapezia, (u₀ + … + uₙ₋₁) − uₙ₋₁/2 is the area up to slot n in slots' widths.
        full = np.float64(line[slots - 1])
        before = np.float64(line[from_slot - 1]) if from_slot > 0 else 0.0
        low = before + (np.float64(line[from_slot]) - before) * (first - from_slot)
        under_from = (sum_from - before / 2 + (before + low) / 2 * (first - from_slot)) * width
        before = np.float64(line[to_slot - 1]) if to_slot > 0 else 0.0
        height = before + (np.float64(line[to_slot]) - before) * (last - to_slot)
        under_to = (sum_to - before / 2 + (before + height) / 2 * (last - to_slot)) * width
        periods = last_period - origin
        # Each period adds its own area on top of the step that all earlier periods left behind.
        stairs = periods * (total - full / 2) * width + full * period * periods * (periods - 1) / 2
        after = under_to + stairs + periods * full * last * width
        found[k] = max(after - under_from - low * (end[k] - start[k]), 0.0)
