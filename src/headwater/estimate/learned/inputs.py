"""Computes the inputs of the network from a feed's memory and its belief: some per refresh, some per bin.

A bin is a step of the plan, a fifteenth of the feed's usual interval, so bins scale with feed and price. Every count is
compared with what the belief expects, and every age and every amount of evidence is capped, so that no input tells the
date.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, Rows
from headwater.estimate.learned.feed_memory import (
    DAY_SLOTS,
    HALF_HOUR,
    HISTOGRAM_MEMORY,
    HOUR_SLOTS,
    RECENT,
    WEEK_SLOTS,
    FeedMemory,
)
from headwater.estimate.learned.input_loops import BIN_INPUTS as BIN_INPUTS
from headwater.estimate.learned.input_loops import BINS as BINS
from headwater.estimate.learned.input_loops import fill_inputs
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba
from headwater.times import DAY, HOUR, MINUTE, WEEK

Inputs = NDArray[np.float32]

BINS_PER_INTERVAL = 15
MIN_COUNT = 0.5  # added to counts before their logarithm
EVIDENCE_ITEMS, EVIDENCE_DAYS, MAX_SILENCE = 50.0, 10.0, 60.0  # caps
DAY_DOUBT, WEEK_DOUBT, HOUR_DOUBT = 3.0, 6.0, 4.0  # items' worth of evenness in each histogram
LAGS = (1, 2, 3, 7)  # days
RECENT_SPANS = (1 / 8, 0.5, 1.0, 7.0)  # days
PERIODS = (HOUR, DAY, WEEK)

REFRESH_INPUTS = 35

_CAPS = np.array(
    [MIN_COUNT, EVIDENCE_ITEMS, EVIDENCE_DAYS, MAX_SILENCE, HISTOGRAM_MEMORY, DAY_DOUBT, WEEK_DOUBT, HOUR_DOUBT]
)
# All histograms of a feed stand in one line of running sums: day, week, hour, then the recent half hours.
_STARTS = np.cumsum([0, DAY_SLOTS, WEEK_SLOTS, HOUR_SLOTS])
_HISTOGRAMS = int(_STARTS[3])
_DOUBTS = np.array([DAY_DOUBT, WEEK_DOUBT, HOUR_DOUBT])
_SLOTS = np.array([DAY_SLOTS, WEEK_SLOTS, HOUR_SLOTS])
# Sums up to the edges of the bins are looked up in the day (as it is, 10 minutes and 2 hours around), week and hour.
_OF = np.array([0, 0, 0, 0, 0, 1, 2])
_OFFSETS = np.array([0.0, 10 * MINUTE, -10 * MINUTE, 2 * HOUR, -2 * HOUR, 0.0, 0.0])[:, None]
_LAPS = np.array([DAY, DAY, DAY, DAY, DAY, WEEK, HOUR])[:, None]
_OF_STARTS, _SLOTS_PER_SECOND = _STARTS[_OF][:, None], _SLOTS[_OF][:, None] / _LAPS
_UPPER, _LOWER = np.array([0, 1, 3, 5, 6, 7, 8, 9, 10]), np.array([0, 2, 4, 5, 6, 7, 8, 9, 10])
_COMPARED = np.array([0, 0, 0, 1, 2])  # the histogram of each density
_AROUND = np.array([0.0, 10 * MINUTE, 2 * HOUR, 0.0, 0.0])
_COMPARED_PERIODS = np.array([DAY, DAY, DAY, WEEK, HOUR])
_COMPARED_DOUBTS = _DOUBTS[_COMPARED]
_DENSITY_INPUTS = np.array([3, 4, 5, 6, 8])
_LAG_PLACES = 48.0 * np.array(LAGS)[:, None]
_WAVES = np.array([*PERIODS, HOUR])[:, None]
_SINES, _COSINES = (14, 16, 18, 24), (15, 17, 19, 25)
_SPAN_STARTS = _HISTOGRAMS + RECENT - np.array([round(days * 48) for days in RECENT_SPANS])
_SMALL_COLUMNS = ("at", "latest", "items", "observed", "gap", "shares", "refresh")
_PLAIN_INPUTS = np.array([8, 11, 12, 13, 15, 16, 20, 23, 24, 31])  # per refresh, not logarithms
_RECENT_DAYS = slice(_HISTOGRAMS, _HISTOGRAMS + RECENT + 1, 48)
_WEEK_DAYS = slice(int(_STARTS[1]), int(_STARTS[2]) + 1, 24)


@dataclass(frozen=True, slots=True)
class Belief:
    """The present belief in some rows: slow rate and fast part per day, and items up to each edge of the bins.

    `own` is the own time (days) at each edge, `shape` the week of the feed's kind at each bin, `step` a bin in days.
    """

    rate: Floats
    fast: Floats
    step: Floats
    items: Floats
    own: Floats
    shape: Floats


def compute_inputs(memory: FeedMemory, rows: Rows, belief: Belief, fast: bool = False) -> tuple[Inputs, Inputs]:
    """Return the inputs per refresh (rows × 35) and per bin (rows × 72 × 26); `fast` compiles the loops."""
    if fast and NUMBA_AVAILABLE:
        return _compute_in_loops(memory, rows, belief)
    known = {name: memory.columns[name][rows].astype(np.float64) for name in _SMALL_COLUMNS}
    at, rate, step = known["at"], np.maximum(belief.rate, 1e-6), belief.step
    counts = _join_counts(memory, rows, at)
    sums = np.zeros((len(rows), counts.shape[1] + 1))
    np.cumsum(counts, axis=1, out=sums[:, 1:])
    totals = sums[:, _STARTS[1:]] - sums[:, _STARTS[:-1]]
    silence = np.minimum(np.maximum((at - known["latest"]) / DAY, 1e-4), MAX_SILENCE)
    per_refresh = _describe_refresh(known, belief, rate, counts, sums, totals, silence)
    mean_gap = known["gap"][:, 1] * known["gap"][:, 0] - (1 - known["gap"][:, 0]) * np.log(rate)

    edges = at[:, None] + np.arange(BINS + 1) * (step * DAY)[:, None]
    middle = (edges[:, 1:] + edges[:, :-1]) / 2
    expected = np.maximum(belief.items[:, 1:] - belief.items[:, :-1], 1e-9)
    per_bin = np.empty((len(rows), BIN_INPUTS, BINS), np.float32)
    per_bin[:, 0] = expected / (rate * step)[:, None]
    per_bin[:, 1] = np.maximum(belief.own[:, 1:] - belief.own[:, :-1], 1e-9) / step[:, None]
    per_bin[:, 2] = belief.shape
    per_bin[:, _DENSITY_INPUTS], per_bin[:, 9:13] = _compare_counts(at, step, sums, totals, edges, expected)
    week = sums[:, _WEEK_DAYS]
    weekday = ((week[:, 1:] - week[:, :-1]) * 7 + WEEK_DOUBT) / (totals[:, :1] + WEEK_DOUBT)
    per_bin[:, 7] = weekday[np.arange(len(rows))[:, None], (np.floor(middle / DAY) % 7).astype(np.intp)]
    ahead = (middle - at[:, None]) / DAY
    since = np.minimum(ahead + silence[:, None], 2 * MAX_SILENCE)
    per_bin[:, 13] = since
    logarithms = per_bin[:, :14]
    np.log(logarithms, out=logarithms)
    per_bin[:, 13] -= mean_gap[:, None]
    phase = np.empty((len(rows), 4, BINS))
    phase[:, :3], phase[:, 3] = (since * DAY)[:, None], middle
    angle = (np.mod(phase, _WAVES) * (2 * np.pi / _WAVES)).astype(np.float32)
    damped = np.maximum(1 - (step * DAY)[:, None] / _WAVES[:, 0], 0.0).astype(np.float32)[:, :, None]
    per_bin[:, _SINES] = damped * np.sin(angle)
    per_bin[:, _COSINES] = damped * np.cos(angle)
    per_bin[:, 20] = np.arange(BINS) / BINS
    per_bin[:, 21] = np.log(step)[:, None]
    per_bin[:, 22] = np.log(ahead)
    per_bin[:, 23] = per_bin[:, 0] + np.log(rate * step)[:, None]
    return per_refresh, per_bin.swapaxes(1, 2)


def _compute_in_loops(memory: FeedMemory, rows: Rows, belief: Belief) -> tuple[Inputs, Inputs]:
    per_refresh = np.empty((len(rows), REFRESH_INPUTS), np.float32)
    per_bin = np.empty((len(rows), BIN_INPUTS, BINS), np.float32)
    columns = memory.columns
    compile_with_numba(fill_inputs, fuse=True)(
        rows,
        columns["at"][rows],
        columns["since"],
        *(columns[name].view(np.uint16) for name in ("day", "week", "hour")),
        *(columns[name] for name in ("recent", "latest", "items", "observed", "gap", "shares", "refresh")),
        belief.rate,
        belief.fast,
        belief.step,
        belief.items,
        belief.own,
        belief.shape,
        _CAPS,
        np.array(RECENT_SPANS),
        np.array(LAGS),
        per_refresh,
        per_bin,
    )
    return per_refresh, per_bin.swapaxes(1, 2)


def _join_counts(memory: FeedMemory, rows: Rows, at: Floats) -> Floats:
    """Return the histograms as they weigh today, and the recent half hours from the oldest to the current one."""
    columns = memory.columns
    counts = np.empty((len(at), _HISTOGRAMS + RECENT))
    for name, begin, end in zip(("day", "week", "hour"), _STARTS[:-1].tolist(), _STARTS[1:].tolist(), strict=True):
        counts[:, begin:end] = columns[name][rows]
    counts[:, :_HISTOGRAMS] *= np.exp((columns["since"][rows] - at) / DAY / HISTOGRAM_MEMORY)[:, None]
    oldest = (np.floor(at / HALF_HOUR).astype(np.int64) + 1) % RECENT
    for line, (row, turn) in enumerate(zip(rows.tolist(), oldest.tolist(), strict=True)):
        ring = columns["recent"][row]
        counts[line, _HISTOGRAMS : _HISTOGRAMS + RECENT - turn] = ring[turn:]
        counts[line, _HISTOGRAMS + RECENT - turn :] = ring[:turn]
    return counts


def _describe_refresh(
    known: dict[str, Floats],
    belief: Belief,
    rate: Floats,
    counts: Floats,
    sums: Floats,
    totals: Floats,
    silence: Floats,
) -> Inputs:
    """Return the inputs per refresh."""
    weight, mean_log, mean_square = known["gap"].T
    shares = known["shares"][:, 1:] * known["shares"][:, :1]
    elapsed, new, surprise, saturated = known["refresh"].T
    squares = np.add.reduceat(counts[:, :_HISTOGRAMS] ** 2, _STARTS[:3], axis=1)
    # Σp² of each histogram by that of an even one
    uneven = (squares * _SLOTS + _DOUBTS * (2 * totals + _DOUBTS)) / (totals + _DOUBTS) ** 2
    lately = sums[:, -1:] - sums[:, _SPAN_STARTS]
    usual = belief.step * BINS_PER_INTERVAL
    out = np.empty((REFRESH_INPUTS, len(rate)))
    # the logarithms of these
    out[0] = rate
    out[1:7] = ((known["items"] + 0.3) / (rate[:, None] * known["observed"] + 0.3)).T
    out[7] = 1 + np.minimum(known["items"][:, -1], EVIDENCE_ITEMS)
    out[9] = silence
    out[10] = silence * rate
    out[14] = (1 + weight) / (shares[:, 3] + 0.05)
    out[17:20] = uneven[:, [2, 0, 1]].T
    out[21] = elapsed + 1e-3
    out[22] = elapsed * rate + 1e-2
    out[25:29] = ((lately + MIN_COUNT) / (rate[:, None] * RECENT_SPANS + MIN_COUNT)).T
    out[29] = usual
    out[30] = usual * rate
    out[32] = np.maximum(rate + belief.fast, 0.05 * rate) / rate
    out[33] = 1 + np.minimum(new, 100.0)
    out[34] = 1 + np.minimum(totals[:, 0], EVIDENCE_ITEMS)
    out[_PLAIN_INPUTS] = 1.0
    np.log(out, out=out)
    # these as they are
    out[8] = np.minimum(known["observed"][:, -1], EVIDENCE_DAYS) / EVIDENCE_DAYS
    out[11:14] = shares[:, :3].T
    out[15] = weight * (mean_log + out[0])
    out[16] = np.sqrt(np.maximum(mean_square - mean_log**2, 0.0)) * weight + (1 - weight)
    out[20] = surprise
    weekend = sums[:, _STARTS[1] + 96] - sums[:, _STARTS[1] + 48]  # the epoch began on a Thursday
    out[23] = (weekend + WEEK_DOUBT * 2 / 7) / (totals[:, 0] + WEEK_DOUBT)
    days = sums[:, _RECENT_DAYS]
    out[24] = (days[:, 1:] - days[:, :-1] > 0.5).sum(1) / 8
    out[31] = saturated
    return np.ascontiguousarray(out.T, np.float32)  # a row is multiplied alike alone and among others


def _compare_counts(
    at: Floats, step: Floats, sums: Floats, totals: Floats, edges: Floats, expected: Floats
) -> tuple[Floats, Floats]:
    """Return the items at the times of each bin by those of an even spread, and by those expected 1 to 7 days ago."""
    count = len(at)
    place = np.empty((count, 11, BINS + 1))
    when = edges[:, None, :] + _OFFSETS
    laps = np.floor(when / _LAPS)
    place[:, :7] = (when - laps * _LAPS) * _SLOTS_PER_SECOND + _OF_STARTS
    oldest = (np.floor(at / HALF_HOUR) - (RECENT - 1))[:, None]
    there = (edges / HALF_HOUR - oldest)[:, None, :] - _LAG_PLACES
    place[:, 7:] = np.minimum(np.maximum(there, 0), RECENT - 1e-6) + _HISTOGRAMS
    whole = place.astype(np.intp)
    place -= whole
    whole += (np.arange(count) * sums.shape[1])[:, None, None]
    flat = sums.reshape(-1)
    below = flat.take(whole)
    whole += 1
    upto = below + place * (flat.take(whole) - below)
    upto[:, :7] += laps * totals[:, _OF, None]
    mass = np.maximum(upto[:, _UPPER, 1:] - upto[:, _LOWER, :-1], 0.0)
    share = ((step * DAY)[:, None] + 2 * _AROUND) / _COMPARED_PERIODS
    known = totals[:, _COMPARED] + _COMPARED_DOUBTS
    densities = (mass[:, :5] / share[:, :, None] + _COMPARED_DOUBTS[:, None]) / known[:, :, None]
    now = (at / HALF_HOUR - oldest[:, 0])[:, None, None]
    seen = (there[:, :, 1:] <= now) & (there[:, :, :-1] >= 0)
    before = np.where(seen, (mass[:, 5:] + MIN_COUNT) / (expected + MIN_COUNT)[:, None], 1.0)
    return densities, before
