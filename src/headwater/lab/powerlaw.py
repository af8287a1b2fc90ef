"""Does the number of postings per feed follow a power law, and which: two fits of p(x) ~ x^−γ on counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.estimate.base import Floats


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """`line` is the slope b of Sia & Cho's curve y = a·x^b (figure 7) by least squares on both logarithms, one point
    per count that occurs; `scale` its a. `likelihood` is the exponent γ on [1, largest] by maximum likelihood, which
    does not let the many counts that occur once weigh as much as the few that occur often."""

    scale: float
    line: float
    likelihood: float
    largest: int


def fit_power_law(counts: NDArray[np.int64]) -> PowerLaw | None:
    """Both fits over the feeds that published at all; None if fewer than ten of them or three counts are left."""
    positive = counts[counts > 0]
    values, often = np.unique(positive, return_counts=True)
    if len(positive) < 10 or len(values) < 3:
        return None
    slope, height = np.polyfit(np.log(values), np.log(often), 1)
    return PowerLaw(float(np.exp(height)), float(slope), _most_likely_exponent(positive), int(values[-1]))


def _most_likely_exponent(counts: NDArray[np.int64]) -> float:
    """The γ of greatest likelihood for p(x) = x^−γ / Σ_k k^−γ, x = 1 … largest, found by golden section."""
    support = np.log(np.arange(1, int(counts.max()) + 1, dtype=float))
    mean_log = float(np.log(counts).mean())

    def cost(gamma: float) -> float:
        weights: Floats = -gamma * support
        top = weights.max()
        return gamma * mean_log + float(top + np.log(np.exp(weights - top).sum()))

    low, high = -2.0, 6.0
    ratio = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if cost(left) < cost(right) else (left, high)
    return float((low + high) / 2.0)
