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
    HALF_HOUR,
    HISTOGRAM_MEMORY,
    RECENT,
    SCALES,
    FeedMemory,
)
from headwater.times import DAY, HOUR, MINUTE, WEEK

Inputs = NDArray[np.float32]

BINS = 72
BINS_PER_INTERVAL = 15
LEAST_COUNT = 0.5  # added to counts before their logarithm
EVIDENCE_ITEMS, EVIDENCE_DAYS, LONGEST_SILENCE = 50.0, 10.0, 60.0  # caps
DAY_DOUBT, WEEK_DOUBT, HOUR_DOUBT = 3.0, 6.0, 4.0  # items' worth of evenness in each histogram
LAGS = (1, 2, 3, 7)  # days
RECENT_SPANS = (1 / 8, 0.5, 1.0, 7.0)  # days
PERIODS = (HOUR, DAY, WEEK)

REFRESH_INPUTS = 35
BIN_INPUTS = 26


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


def compute_inputs(memory: FeedMemory, rows: Rows, belief: Belief) -> tuple[Inputs, Inputs]:
    """Return the inputs per refresh (rows × 35) and per bin (rows × 72 × 26)."""
    known = memory.read(rows)
    at, count = known["at"], len(rows)
    rate, step = np.maximum(belief.rate, 1e-6), belief.step
    fresh = np.exp(-(at - known["since"]) / DAY / HISTOGRAM_MEMORY)[:, None]  # the histograms' unit today
    day, week, hour = known["day"] * fresh, known["week"] * fresh, known["hour"] * fresh
    total = day.sum(1)
    history = _unroll_ring(known["recent"], at)
    silence = np.where(
        np.isfinite(known["latest"]), np.clip((at - known["latest"]) / DAY, 1e-4, LONGEST_SILENCE), LONGEST_SILENCE
    )
    weight = known["gap"][:, 0]
    mean_gap = known["gap"][:, 1] * weight + (1 - weight) * -np.log(rate)
    spread = np.sqrt(np.maximum(known["gap"][:, 2] - known["gap"][:, 1] ** 2, 0.0)) * weight + (1 - weight)
    known_items = np.minimum(known["items"][:, -1], EVIDENCE_ITEMS)
    shares = known["shares"][:, 1:] * known["shares"][:, :1]
    elapsed, new, surprise, saturated = known["refresh"].T

    per_refresh = np.empty((count, REFRESH_INPUTS), np.float32)
    columns = [
        np.log(rate),
        *(np.log((known["items"][:, k] + 0.3) / (rate * known["observed"][:, k] + 0.3)) for k in range(len(SCALES))),
        np.log1p(known_items),
        np.minimum(known["observed"][:, -1], EVIDENCE_DAYS) / EVIDENCE_DAYS,
        np.log(silence),
        np.log(silence * rate),
        shares[:, 0],
        shares[:, 1],
        shares[:, 2],
        np.log((1 + weight) / (shares[:, 3] + 0.05)),
        weight * known["gap"][:, 1] + weight * np.log(rate),
        spread,
        _concentrate(hour, HOUR_DOUBT),
        _concentrate(day, DAY_DOUBT),
        _concentrate(week, WEEK_DOUBT),
        surprise,
        np.log(elapsed + 1e-3),
        np.log(elapsed * rate + 1e-2),
        (week[:, 48:96].sum(1) + WEEK_DOUBT * 2 / 7) / (total + WEEK_DOUBT),  # the epoch began on a Thursday
        (np.diff(history[:, ::48], axis=1) > 0).sum(1) / 8,
        *(
            np.log((history[:, -1] - history[:, RECENT - round(days * 48)] + LEAST_COUNT) / (rate * days + LEAST_COUNT))
            for days in RECENT_SPANS
        ),
        np.log(step * BINS_PER_INTERVAL),
        np.log(step * BINS_PER_INTERVAL * rate),
        saturated,
        np.log(np.maximum(rate + belief.fast, 0.05 * rate) / rate),
        np.log1p(np.minimum(new, 100.0)),
        np.log1p(np.minimum(total, EVIDENCE_ITEMS)),
    ]
    for k, column in enumerate(columns):
        per_refresh[:, k] = column

    edges = at[:, None] + np.arange(BINS + 1) * (step * DAY)[:, None]
    middle = (edges[:, 1:] + edges[:, :-1]) / 2
    width = step[:, None] * DAY
    per_bin = np.empty((count, BINS, BIN_INPUTS), np.float32)
    expected = np.maximum(np.diff(belief.items, axis=1), 1e-9)
    speed = np.maximum(np.diff(belief.own, axis=1), 1e-9) / step[:, None]
    per_bin[:, :, 0] = np.log(expected / (rate * step)[:, None])
    per_bin[:, :, 1] = np.log(speed)
    per_bin[:, :, 2] = np.log(belief.shape)
    by_day = _accumulate(day)
    for k, around in enumerate((0.0, 10 * MINUTE, 2 * HOUR)):
        per_bin[:, :, 3 + k] = _compare_density(by_day, DAY, edges, around, DAY_DOUBT)
    per_bin[:, :, 6] = _compare_density(_accumulate(week), WEEK, edges, 0.0, WEEK_DOUBT)
    of_day = week.reshape(-1, 7, 24).sum(2)
    weekday = np.log((of_day * 7 + WEEK_DOUBT) / (total + WEEK_DOUBT)[:, None])
    per_bin[:, :, 7] = np.take_along_axis(weekday, (np.floor(middle / DAY) % 7).astype(np.intp), axis=1)
    per_bin[:, :, 8] = _compare_density(_accumulate(hour), HOUR, edges, 0.0, HOUR_DOUBT)
    place = edges / HALF_HOUR - (np.floor(at / HALF_HOUR) - (RECENT - 1))[:, None]  # 0: the oldest half hour known
    flat, line = history.reshape(-1), np.arange(count)[:, None] * (RECENT + 1)
    now_place = at / HALF_HOUR - (np.floor(at / HALF_HOUR) - (RECENT - 1))
    for k, days in enumerate(LAGS):
        there = place - 48 * days
        seen = (there[:, 1:] <= now_place[:, None]) & (there[:, :-1] >= 0)
        upto = _interpolate(flat, line, np.clip(there, 0, RECENT - 1e-6))
        per_bin[:, :, 9 + k] = np.where(
            seen, np.log((np.diff(upto, axis=1) + LEAST_COUNT) / (expected + LEAST_COUNT)), 0
        )
    since = np.minimum((middle - at[:, None]) / DAY + silence[:, None], 2 * LONGEST_SILENCE)
    per_bin[:, :, 13] = np.log(since) - mean_gap[:, None]
    lag = since * DAY
    for k, period in enumerate(PERIODS):
        damped = np.maximum(1 - width / period, 0.0)
        angle = np.mod(lag, period) * (2 * np.pi / period)
        per_bin[:, :, 14 + 2 * k] = damped * np.sin(angle)
        per_bin[:, :, 15 + 2 * k] = damped * np.cos(angle)
    per_bin[:, :, 20] = np.arange(BINS) / BINS
    per_bin[:, :, 21] = np.log(step)[:, None]
    per_bin[:, :, 22] = np.log((middle - at[:, None]) / DAY)
    per_bin[:, :, 23] = np.log(expected)
    damped = np.maximum(1 - width / HOUR, 0.0)
    angle = np.mod(middle, HOUR) * (2 * np.pi / HOUR)
    per_bin[:, :, 24] = damped * np.sin(angle)
    per_bin[:, :, 25] = damped * np.cos(angle)
    return per_refresh, per_bin


def _concentrate(histogram: Floats, doubt: float) -> Floats:
    """Return how far a histogram is from even: the logarithm of Σp² by that of an even one."""
    slots = histogram.shape[1]
    share = (histogram + doubt / slots) / (histogram.sum(1, keepdims=True) + doubt)
    return np.asarray(np.log((share**2).sum(1) * slots))


def _accumulate(histogram: Floats) -> Floats:
    sums = np.zeros((len(histogram), histogram.shape[1] + 1))
    np.cumsum(histogram, axis=1, out=sums[:, 1:])
    return sums


def _unroll_ring(ring: Floats, at: Floats) -> Floats:
    """Return the running counts of the recent half hours, the oldest first; the current one comes last."""
    newest = np.floor(at / HALF_HOUR).astype(np.int64)
    order = (newest[:, None] + 1 + np.arange(RECENT)) % RECENT
    return _accumulate(np.take_along_axis(ring, order, axis=1))


def _interpolate(flat: Floats, line: Rows, place: Floats) -> Floats:
    whole = place.astype(np.intp)
    at = line + whole
    below = flat[at]
    return np.asarray(below + (place - whole) * (flat[at + 1] - below))


def _compare_density(sums: Floats, period: float, edges: Floats, around: float, doubt: float) -> Floats:
    """Return ln of the items at the times of each bin, widened by `around`, by those of an even spread."""
    slots = sums.shape[1] - 1
    flat, line = sums.reshape(-1), np.arange(len(sums))[:, None] * (slots + 1)
    total = sums[:, -1:]

    def upto(when: Floats) -> Floats:
        laps = np.floor(when / period)
        return np.asarray(laps * total + _interpolate(flat, line, (when - laps * period) * (slots / period)))

    mass = upto(edges[:, 1:] + around) - upto(edges[:, :-1] - around) if around else np.diff(upto(edges), axis=1)
    share = (edges[:, 1:] - edges[:, :-1] + 2 * around) / period
    return np.asarray(np.log((np.maximum(mass, 0.0) / share + doubt) / (total + doubt)))
