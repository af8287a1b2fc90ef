"""Computes the inputs of the network in plain loops, which numba compiles for the lab; `inputs` has the numpy form.

The bins of an input stand side by side, so that a processor takes many at a time, their logarithms included.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

HALF_HOUR = 1800.0
BINS = 72
BIN_INPUTS = 26
LOGARITHMS = 14
PLACES = (23, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 22)  # where the logarithms stand among the inputs of a bin


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

    `at` and the belief have one line per position; the other columns are those of the memory, `day`, `week` and `hour`
    as the bits of their half-precision numbers. `caps` are least count, items and days of evidence, longest silence,
    memory of the histograms, and the doubts of the three. `per_bin` has a line of bins for each input.
    """

    def accumulate(counts: Any, factor: float, wide: Any, found: Any, sums: Any) -> float:
        """Fill the running sums of half-precision counts × factor; return the sum of their squares."""
        n = len(sums) - 1
        for k in range(n):
            wide[k] = np.uint32(counts[k]) << np.uint32(13)  # the same bits in single precision, times 2⁻¹¹²
        scaled, squares, total = factor * 2.0**112, 0.0, 0.0
        sums[0] = 0.0
        for k in range(n):
            count = found[k] * scaled
            total += count
            sums[k + 1] = total
            squares += count * count
        return squares

    def concentrate(squares: float, total: float, slots: float, doubt: float) -> float:
        """Return ln of Σp² of a histogram by that of an even one."""
        return math.log((squares * slots + doubt * (2 * total + doubt)) / (total + doubt) ** 2)

    def look_up(sums: Any, begin: float, width: float, period: float, upto: Any) -> None:
        """Fill the running sums of a periodic histogram up to each edge; `begin` is within a period of 0."""
        slots = len(sums) - 1
        per_second, laps_per_second, total = slots / period, 1.0 / period, sums[slots]
        for b in range(BINS + 1):
            when = begin + b * width
            laps = math.floor(when * laps_per_second)
            place = min(max((when - laps * period) * per_second, 0.0), slots - 1e-9)
            whole = int(place)
            below = sums[whole]
            upto[b] = laps * total + below + (place - whole) * (sums[whole + 1] - below)

    def compare(high: Any, low: Any, share: float, total: float, doubt: float, to: Any) -> None:
        """Fill the items of each bin by those of an even spread."""
        scale, doubtful = 1.0 / (share * (total + doubt)), doubt / (total + doubt)
        for b in range(BINS):
            to[b] = max(high[b + 1] - low[b], 0.0) * scale + doubtful

    def take_logarithms(values: Any, bits: Any, powers: Any, mantissa: Any, mantissa_bits: Any) -> None:
        """Replace positive numbers by their natural logarithms (a polynomial, as in Cephes)."""
        for k in range(len(values)):
            powers[k] = np.float32((bits[k] >> np.int32(23)) - np.int32(127))
            mantissa_bits[k] = (bits[k] & np.int32(0x7FFFFF)) | np.int32(0x3F800000)
        for k in range(len(values)):
            large = mantissa[k] > np.float32(1.4142135)
            m = (mantissa[k] * np.float32(0.5) if large else mantissa[k]) - np.float32(1.0)
            power = powers[k] + (np.float32(1.0) if large else np.float32(0.0))
            y = np.float32(7.0376836292e-2)
            y = y * m + np.float32(-1.1514610310e-1)
            y = y * m + np.float32(1.1676998740e-1)
            y = y * m + np.float32(-1.2420140846e-1)
            y = y * m + np.float32(1.4249322787e-1)
            y = y * m + np.float32(-1.6668057665e-1)
            y = y * m + np.float32(2.0000714765e-1)
            y = y * m + np.float32(-2.4999993993e-1)
            y = y * m + np.float32(3.3333331174e-1)
            square = m * m
            y = y * m * square + power * np.float32(-2.12194440e-4) - np.float32(0.5) * square
            values[k] = m + y + power * np.float32(0.693359375)

    least, most_items, most_days, longest, memory = caps[0], caps[1], caps[2], caps[3], caps[4]
    by_day, by_week, by_hour = np.empty(289), np.empty(169), np.empty(61)
    history, weekday = np.empty(385), np.empty(7)
    wide = np.empty(288, np.uint32)
    found = wide.view(np.float32)
    logs = np.empty(LOGARITHMS * BINS, np.float32)
    powers, mantissa = np.empty_like(logs), np.empty_like(logs)
    bits, mantissa_bits = logs.view(np.int32), mantissa.view(np.int32)
    high, low, expected = np.empty(BINS + 1), np.empty(BINS + 1), np.empty(BINS)
    waves = np.array([3600.0, 86400.0, 604800.0, 3600.0])
    for line in range(len(rows)):
        row, now = rows[line], at[line]
        rate, step = max(rate_of[line], 1e-6), step_of[line]
        width = step * 86400.0
        fresh = math.exp(-(now - since[row]) / 86400.0 / memory)
        out = per_refresh[line]
        squares_day = accumulate(day[row], fresh, wide, found, by_day)
        squares_week = accumulate(week[row], fresh, wide, found, by_week)
        squares_hour = accumulate(hour[row], fresh, wide, found, by_hour)
        total = by_day[288]
        newest = math.floor(now / HALF_HOUR)
        place = int((newest + 1) % 384)
        running = 0
        history[0] = 0.0
        for k in range(place, 384):
            running += recent[row, k]
            history[k - place + 1] = running
        for k in range(place):
            running += recent[row, k]
            history[384 - place + k + 1] = running
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
        to = per_bin[line]
        log_step, log_usual = math.log(step), math.log(rate * step)
        # the logarithms of these: expected, own and kind's shape, densities, the same time before, since and ahead
        for b in range(BINS):
            expected[b] = max(believed[line, b + 1] - believed[line, b], 1e-9)
            logs[b] = expected[b]
            logs[BINS + b] = max(own[line, b + 1] - own[line, b], 1e-9) / step
            logs[2 * BINS + b] = shape[line, b]
        of_day, of_week, of_hour = now % 86400.0, now % 604800.0, now % 3600.0
        look_up(by_day, of_day, width, 86400.0, high)
        compare(high, high, width / 86400.0, total, caps[5], logs[3 * BINS : 4 * BINS])
        for k in range(2):
            around = 600.0 if k == 0 else 7200.0
            look_up(by_day, of_day + around, width, 86400.0, high)
            look_up(by_day, of_day - around, width, 86400.0, low)
            share = (width + 2 * around) / 86400.0
            compare(high, low, share, total, caps[5], logs[(4 + k) * BINS : (5 + k) * BINS])
        look_up(by_week, of_week, width, 604800.0, high)
        compare(high, high, width / 604800.0, by_week[168], caps[6], logs[6 * BINS : 7 * BINS])
        look_up(by_hour, of_hour, width, 3600.0, high)
        compare(high, high, width / 3600.0, by_hour[60], caps[7], logs[7 * BINS : 8 * BINS])
        now_place = now / HALF_HOUR - newest + 383.0
        turn = width / HALF_HOUR
        for lag in range(4):
            begin = now_place - 48 * lags[lag]
            for b in range(BINS + 1):
                there = min(max(begin + b * turn, 0.0), 384 - 1e-6)
                whole = int(there)
                high[b] = history[whole] + (there - whole) * (history[whole + 1] - history[whole])
            part = logs[(8 + lag) * BINS : (9 + lag) * BINS]
            for b in range(BINS):
                seen = begin + (b + 1) * turn <= now_place and begin + b * turn >= 0.0
                part[b] = (high[b + 1] - high[b] + least) / (expected[b] + least) if seen else 1.0
        cap = 2 * longest
        for b in range(BINS):
            ahead = (b + 0.5) * step
            logs[12 * BINS + b] = min(ahead + silence, cap)
            logs[13 * BINS + b] = ahead
        take_logarithms(logs, bits, powers, mantissa, mantissa_bits)
        for k in range(LOGARITHMS):
            part, place = to[PLACES[k]], k * BINS
            for b in range(BINS):
                part[b] = logs[place + b]
        for b in range(BINS):
            to[0, b] = logs[b] - np.float32(log_usual)
            to[13, b] -= np.float32(mean_gap)
            to[20, b] = b / BINS
            to[21, b] = log_step
            to[7, b] = weekday[math.floor((of_week + (b + 0.5) * width) / 86400.0) % 7]
        for k in range(4):
            damped = max(1 - width / waves[k], 0.0)
            sines, cosines = to[14 + 2 * k if k < 3 else 24], to[15 + 2 * k if k < 3 else 25]
            if damped == 0.0:
                sines[:] = 0.0
                cosines[:] = 0.0
                continue
            begin = silence * 86400.0 + width / 2 if k < 3 else now + width / 2
            angle, more = 2 * math.pi * ((begin / waves[k]) % 1.0), 2 * math.pi * ((width / waves[k]) % 1.0)
            sine, cosine = damped * math.sin(angle), damped * math.cos(angle)
            turn_sine, turn_cosine = math.sin(more), math.cos(more)
            last = 2 * math.pi * ((cap * 86400.0 / waves[k]) % 1.0)
            for b in range(BINS):
                if k < 3 and silence + (b + 0.5) * step > cap:
                    sine, cosine = damped * math.sin(last), damped * math.cos(last)
                sines[b], cosines[b] = sine, cosine
                sine, cosine = sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine
