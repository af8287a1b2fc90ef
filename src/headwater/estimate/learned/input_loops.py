"""Computes the inputs of the network in plain loops, which numba compiles for the lab; `inputs` has the numpy form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

HALF_HOUR = 1800.0


def fill_inputs(
    rows: Any,
    at: Any,
    since: Any,
    day: Any,
    week: Any,
    hour: Any,
    recent: Any,
    latest: Any,
    items: Any,
    observed: Any,
    gap: Any,
    shares: Any,
    refresh: Any,
    rate_of: Any,
    fast_of: Any,
    step_of: Any,
    believed: Any,
    own: Any,
    shape: Any,
    caps: Any,
    spans: Any,
    lags: Any,
    per_refresh: Any,
    per_bin: Any,
) -> None:
    """Fill the inputs per refresh and per bin of each row.

    `day`, `week`, `hour` and the belief have one line per position; the other columns are those of the memory. `caps`
    are least count, items and days of evidence, longest silence, memory of the histograms, and the doubts of the three.
    """

    def accumulate(counts: Any, factor: float, sums: Any) -> float:
        """Fill the running sums of counts × factor; return the sum of their squares."""
        squares = 0.0
        sums[0] = 0.0
        for k in range(len(counts)):
            count = counts[k] * factor
            sums[k + 1] = sums[k] + count
            squares += count * count
        return squares

    def concentrate(squares: float, total: float, slots: float, doubt: float) -> float:
        """Return ln of Σp² of a histogram by that of an even one."""
        return math.log((squares * slots + doubt * (2 * total + doubt)) / (total + doubt) ** 2)

    def interpolate(sums: Any, place: float) -> Any:
        whole = int(place)
        return sums[whole] + (place - whole) * (sums[whole + 1] - sums[whole])

    def look_up(sums: Any, when: float, period: float) -> Any:
        """Return the running sum of a periodic histogram up to a time."""
        slots = len(sums) - 1
        laps = math.floor(when / period)
        place = (when - laps * period) * (slots / period)
        whole = min(int(place), slots - 1)
        return laps * sums[slots] + sums[whole] + (place - whole) * (sums[whole + 1] - sums[whole])

    def compare(mass: float, share: float, total: float, doubt: float) -> float:
        """Return ln of the items of a bin by those of an even spread."""
        return math.log(np.float32((max(mass, 0.0) / share + doubt) / (total + doubt)))

    least, most_items, most_days, longest, memory = caps[0], caps[1], caps[2], caps[3], caps[4]
    bins = per_bin.shape[1]
    by_day, by_week, by_hour = np.empty(289), np.empty(169), np.empty(61)
    history, weekday, plain = np.empty(385), np.empty(7), np.empty(73)
    waves = np.array([3600.0, 86400.0, 604800.0, 3600.0])
    turn = np.empty((4, 4))  # sine and cosine of the phase, and of its step
    damped = np.empty(4)
    for line in range(len(rows)):
        row, now = rows[line], at[line]
        rate, step = max(rate_of[line], 1e-6), step_of[line]
        width = step * 86400.0
        fresh = math.exp(-(now - since[row]) / 86400.0 / memory)
        out = per_refresh[line]
        squares_day = accumulate(day[line], fresh, by_day)
        squares_week = accumulate(week[line], fresh, by_week)
        squares_hour = accumulate(hour[line], fresh, by_hour)
        total = by_day[288]
        newest = math.floor(now / HALF_HOUR)
        place = int((newest + 1) % 384)
        history[0] = 0.0
        for k in range(384):
            history[k + 1] = history[k] + recent[row, place]
            place = place + 1 if place < 383 else 0
        known = math.isfinite(latest[row])
        silence = min(max((now - latest[row]) / 86400.0, 1e-4), longest) if known else longest
        weight, mean_log, mean_square = np.float64(gap[row, 0]), np.float64(gap[row, 1]), np.float64(gap[row, 2])
        log_rate = math.log(rate)
        mean_gap = mean_log * weight - (1 - weight) * log_rate
        sure = shares[row, 0]
        elapsed, new = refresh[row, 0], refresh[row, 1]

        out[0] = log_rate
        for k in range(6):
            out[1 + k] = math.log((items[row, k] + 0.3) / (rate * observed[row, k] + 0.3))
        out[7] = math.log(1 + min(items[row, 5], most_items))
        out[8] = min(observed[row, 5], most_days) / most_days
        out[9] = math.log(silence)
        out[10] = math.log(silence * rate)
        for k in range(3):
            out[11 + k] = shares[row, 1 + k] * sure
        out[14] = math.log((1 + weight) / (shares[row, 4] * sure + 0.05))
        out[15] = weight * (mean_log + log_rate)
        out[16] = math.sqrt(max(mean_square - mean_log * mean_log, 0.0)) * weight + (1 - weight)
        out[17] = concentrate(squares_hour, by_hour[60], 60.0, caps[7])
        out[18] = concentrate(squares_day, by_day[288], 288.0, caps[5])
        out[19] = concentrate(squares_week, by_week[168], 168.0, caps[6])
        out[20] = refresh[row, 2]
        out[21] = math.log(elapsed + 1e-3)
        out[22] = math.log(elapsed * rate + 1e-2)
        out[23] = (by_week[96] - by_week[48] + caps[6] * 2 / 7) / (total + caps[6])
        active = 0
        for k in range(8):
            if history[48 * (k + 1)] > history[48 * k]:
                active += 1
        out[24] = active / 8
        for k in range(4):
            lately = history[384] - history[384 - round(spans[k] * 48)]
            out[25 + k] = math.log((lately + least) / (rate * spans[k] + least))
        out[29] = math.log(step * 15)
        out[30] = math.log(step * 15 * rate)
        out[31] = refresh[row, 3]
        out[32] = math.log(max(rate + fast_of[line], 0.05 * rate) / rate)
        out[33] = math.log(1 + min(new, 100.0))
        out[34] = math.log(1 + min(total, most_items))

        for k in range(7):
            weekday[k] = math.log(((by_week[24 * (k + 1)] - by_week[24 * k]) * 7 + caps[6]) / (total + caps[6]))
        log_step, log_usual = math.log(step), math.log(rate * step)
        for k in range(4):
            damped[k] = max(1 - width / waves[k], 0.0)
            if damped[k] > 0:
                begin = silence * 86400.0 + width / 2 if k < 3 else now + width / 2
                angle, more = 2 * math.pi * ((begin / waves[k]) % 1.0), 2 * math.pi * ((width / waves[k]) % 1.0)
                turn[k, 0], turn[k, 1] = math.sin(angle), math.cos(angle)
                turn[k, 2], turn[k, 3] = math.sin(more), math.cos(more)
        cap = 2 * longest
        share0, share1, share2 = width / 86400.0, (width + 1200.0) / 86400.0, (width + 14400.0) / 86400.0
        share3, share4 = width / 604800.0, width / 3600.0
        low0, low3, low4 = look_up(by_day, now, 86400.0), look_up(by_week, now, 604800.0), look_up(by_hour, now, 3600.0)
        oldest = newest - 383.0
        now_place = now / HALF_HOUR - oldest
        for lag in range(4):
            there = now_place - 48 * lags[lag]
            plain[lag] = interpolate(history, min(max(there, 0.0), 384 - 1e-6))
        for b in range(bins):
            to = per_bin[line, b]
            low_edge, edge = now + b * width, now + (b + 1) * width
            middle = (edge + low_edge) / 2
            expected = max(believed[line, b + 1] - believed[line, b], 1e-9)
            log_expected = math.log(np.float32(expected))
            to[0] = log_expected - log_usual
            to[1] = math.log(np.float32(max(own[line, b + 1] - own[line, b], 1e-9) / step))
            to[2] = math.log(np.float32(shape[line, b]))
            high0 = look_up(by_day, edge, 86400.0)
            to[3] = compare(high0 - low0, share0, total, caps[5])
            low0 = high0
            wide = look_up(by_day, edge + 600.0, 86400.0) - look_up(by_day, low_edge - 600.0, 86400.0)
            to[4] = compare(wide, share1, total, caps[5])
            wide = look_up(by_day, edge + 7200.0, 86400.0) - look_up(by_day, low_edge - 7200.0, 86400.0)
            to[5] = compare(wide, share2, total, caps[5])
            high3 = look_up(by_week, edge, 604800.0)
            to[6] = compare(high3 - low3, share3, by_week[168], caps[6])
            low3 = high3
            to[7] = weekday[int(math.floor(middle / 86400.0) % 7)]
            high4 = look_up(by_hour, edge, 3600.0)
            to[8] = compare(high4 - low4, share4, by_hour[60], caps[7])
            low4 = high4
            edge_place = edge / HALF_HOUR - oldest
            for lag in range(4):
                there = edge_place - 48 * lags[lag]
                upto = interpolate(history, min(max(there, 0.0), 384 - 1e-6))
                seen = there <= now_place and low_edge / HALF_HOUR - oldest - 48 * lags[lag] >= 0
                to[9 + lag] = math.log(np.float32((upto - plain[lag] + least) / (expected + least))) if seen else 0.0
                plain[lag] = upto
            ahead = (middle - now) / 86400.0
            passed = ahead + silence
            to[13] = math.log(np.float32(min(passed, cap))) - mean_gap
            for k in range(4):
                if damped[k] == 0.0:
                    sine, cosine = 0.0, 0.0
                elif k < 3 and passed > cap:
                    angle = 2 * math.pi * ((cap * 86400.0 / waves[k]) % 1.0)
                    sine, cosine = damped[k] * math.sin(angle), damped[k] * math.cos(angle)
                else:
                    sine, cosine = damped[k] * turn[k, 0], damped[k] * turn[k, 1]
                    next_sine = turn[k, 0] * turn[k, 3] + turn[k, 1] * turn[k, 2]
                    turn[k, 1] = turn[k, 1] * turn[k, 3] - turn[k, 0] * turn[k, 2]
                    turn[k, 0] = next_sine
                to[14 + 2 * k if k < 3 else 24] = sine
                to[15 + 2 * k if k < 3 else 25] = cosine
            to[20] = b / bins
            to[21] = log_step
            to[22] = math.log(np.float32(ahead))
            to[23] = log_expected
