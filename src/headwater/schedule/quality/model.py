"""Predicts completeness, freshness and delay from refresh intervals.

The model takes each feed as a Poisson process of rate λ whose document shows its newest W items. Refreshed every T
seconds, N ~ Poisson(λT) items come in between, of which the document still shows E min(N, W):

    completeness = Σ wλ · E min(N, W) / λT  /  Σ wλ
    freshness    = 1 − Σ w · (mean share of the window that is new)  /  Σ w
    delay        = Σ wλ · T/2  /  Σ wλ
"""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats
from headwater.estimate.poisson import expect_shown, poisson_tail


def predict_quality(rates: Floats, windows: Floats, weights: Floats, every: Floats) -> tuple[float, float, float]:
    """Return completeness, freshness and mean delay if feed i is refreshed every `every[i]` seconds.

    >>> one = np.ones(1)
    >>> c, f, d = predict_quality(0.001 * one, 1e9 * one, one, 600 * one)  # an endless window loses nothing
    >>> (c, round(f, 3), d)
    (1.0, 1.0, 300.0)
    """
    return (
        predict_completeness(rates, windows, weights, every),
        predict_freshness(rates, windows, weights, every),
        predict_delay(rates, windows, weights, every),
    )


def predict_completeness(rates: Floats, windows: Floats, weights: Floats, every: Floats) -> float:
    mu = rates * every
    kept = expect_shown(windows, mu) / np.maximum(mu, 1e-12)
    worth = weights * rates
    return float((worth / worth.sum() * np.minimum(kept, 1.0)).sum())


def predict_freshness(rates: Floats, windows: Floats, weights: Floats, every: Floats) -> float:
    mu = rates * every
    stale = np.mean([expect_shown(windows, mu * (k + 0.5) / 16) for k in range(16)], axis=0) / windows
    return float(1 - (weights / weights.sum() * stale).sum())


def predict_delay(rates: Floats, windows: Floats, weights: Floats, every: Floats) -> float:
    worth = weights * rates
    return float((worth / worth.sum() * every / 2).sum())


def compute_loss_index(window: float, items: Floats) -> Floats:
    """Return W·P(N > W) for N ~ Poisson(items): the value of a refresh for completeness, rising with `items`."""
    return np.asarray(window * poisson_tail(np.full(len(items), window + 1), items))


def compute_utility_index(window: float, items: Floats) -> Floats:
    """Return μ·h − ∫h for h(μ), the new share of the window: the utility of eq. 4.5; `items` ascend from 0."""
    h = expect_shown(np.full(len(items), window), items) / window
    area = np.concatenate([[0.0], np.cumsum((h[1:] + h[:-1]) / 2 * np.diff(items))])
    return np.asarray(np.maximum.accumulate(items * h - area))
