"""Scales inputs and computes the correction of the belief in plain loops, which numba compiles for the lab.

`network` has the numpy form. The bins of a hidden unit stand side by side, so that a processor takes many at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.estimate.learned.input_loops import BIN_INPUTS, BINS

HIDDEN, INNER = 64, 32  # units of the two layers; sizes known in advance save a third of the time
CHUNK = 8  # inputs added at a time


def fill_corrections(
    per_refresh: Any,
    per_bin: Any,
    low: Any,
    high: Any,
    mean: Any,
    deviation: Any,
    of_refresh: Any,
    of_bin: Any,
    first: Any,
    of_hidden: Any,
    second: Any,
    of_inner: Any,
    last: Any,
    leak: Any,
    most: Any,
    corrections: Any,
) -> None:
    """Scale the inputs of each refresh in place, and fill ln(λ / belief) of its bins.

    `per_bin` has a line of bins for each input. The scaling comes first, then the layers.
    """

    def add_products(weights: Any, values: Any, unit: int, start: Any, sums: Any) -> None:
        """Fill the sums of two units: their start, and the products of all values with their weights."""
        after = unit + 1
        one, other = sums[unit], sums[after]
        one[:] = start[unit]
        other[:] = start[after]
        whole = len(values) // CHUNK * CHUNK
        for k in range(whole, len(values)):
            a, p0, q0 = values[k], weights[k, unit], weights[k, after]
            for i in range(BINS):
                one[i] += p0 * a[i]
                other[i] += q0 * a[i]
        for k in range(0, whole, CHUNK):
            a, b, c, d = values[k], values[k + 1], values[k + 2], values[k + 3]
            e, f, g, h = values[k + 4], values[k + 5], values[k + 6], values[k + 7]
            p0, p1, p2, p3 = weights[k, unit], weights[k + 1, unit], weights[k + 2, unit], weights[k + 3, unit]
            p4, p5, p6, p7 = weights[k + 4, unit], weights[k + 5, unit], weights[k + 6, unit], weights[k + 7, unit]
            q0, q1, q2, q3 = weights[k, after], weights[k + 1, after], weights[k + 2, after], weights[k + 3, after]
            q4, q5, q6, q7 = weights[k + 4, after], weights[k + 5, after], weights[k + 6, after], weights[k + 7, after]
            for i in range(BINS):
                s, t = one[i], other[i]
                s, t = s + p0 * a[i], t + q0 * a[i]
                s, t = s + p1 * b[i], t + q1 * b[i]
                s, t = s + p2 * c[i], t + q2 * c[i]
                s, t = s + p3 * d[i], t + q3 * d[i]
                s, t = s + p4 * e[i], t + q4 * e[i]
                s, t = s + p5 * f[i], t + q5 * f[i]
                s, t = s + p6 * g[i], t + q6 * g[i]
                s, t = s + p7 * h[i], t + q7 * h[i]
                one[i], other[i] = s, t
        for i in range(BINS):
            one[i], other[i] = max(one[i], leak * one[i]), max(other[i], leak * other[i])

    many = per_refresh.shape[1]
    x = np.empty((BIN_INPUTS, BINS), np.float32)
    hidden, inner = np.empty((HIDDEN, BINS), np.float32), np.empty((INNER, BINS), np.float32)
    shared = np.empty_like(first)
    for line in range(len(per_refresh)):
        of_line, bins, out = per_refresh[line], per_bin[line], corrections[line]
        shared[:] = first
        for k in range(many):
            of_line[k] = (min(max(of_line[k], low[k]), high[k]) - mean[k]) / deviation[k]
            for j in range(len(shared)):
                shared[j] += of_line[k] * of_refresh[k, j]
        for k in range(BIN_INPUTS):
            least, greatest, middle, scale = low[many + k], high[many + k], mean[many + k], deviation[many + k]
            for i in range(BINS):
                x[k, i] = (min(max(bins[k, i], least), greatest) - middle) / scale
            bins[k] = x[k]
        for j in range(0, HIDDEN, 2):
            add_products(of_bin, x, j, shared, hidden)
        out[:] = last[0]
        for j in range(0, INNER, 2):
            add_products(of_hidden, hidden, j, second, inner)
        for j in range(INNER):
            for i in range(BINS):
                out[i] += inner[j, i] * of_inner[j, 0]
        for i in range(BINS):
            out[i] = min(max(out[i], -most), most)
