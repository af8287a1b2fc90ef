"""Computes the correction of the belief in plain loops, which numba compiles for the lab.

`network` has the numpy form.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def fill_corrections(
    per_refresh: Any,
    per_bin: Any,
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
    """Fill ln(λ / belief) of each bin of each refresh from scaled inputs; the arrays between are the layers."""

    def add_products(inputs: Any, weights: Any, sums: Any) -> None:
        """Add inputs @ weights to `sums`, four inputs at a time."""
        fours = len(inputs) // 4 * 4
        for k in range(0, fours, 4):
            a, b, c, d = inputs[k], inputs[k + 1], inputs[k + 2], inputs[k + 3]
            for j in range(len(sums)):
                sums[j] += a * weights[k, j] + b * weights[k + 1, j] + c * weights[k + 2, j] + d * weights[k + 3, j]
        for k in range(fours, len(inputs)):
            for j in range(len(sums)):
                sums[j] += inputs[k] * weights[k, j]

    shared, hidden, inner = np.empty_like(first), np.empty_like(first), np.empty_like(second)
    for line in range(len(per_refresh)):
        shared[:] = first
        add_products(per_refresh[line], of_refresh, shared)
        for b in range(per_bin.shape[1]):
            hidden[:] = shared
            add_products(per_bin[line, b], of_bin, hidden)
            for j in range(len(hidden)):
                hidden[j] = max(hidden[j], leak * hidden[j])
            inner[:] = second
            add_products(hidden, of_hidden, inner)
            out = last[0]
            for j in range(len(inner)):
                out += max(inner[j], leak * inner[j]) * of_inner[j, 0]
            corrections[line, b] = min(max(out, -most), most)
