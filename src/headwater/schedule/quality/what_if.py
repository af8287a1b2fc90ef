"""Predicts the quality that other budgets would buy.

The budget is spread by the index of `value` for a steady rate: refresh feed i every T where w·(λT²/2 + l·W·P(N > W)) =
ν. l is the cost of a lost item in seconds of waiting, ν the price at which the budget is spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headwater.arrays import Floats
from headwater.schedule.quality.model import compute_loss_index, predict_quality
from headwater.schedule.strategies.learned_interval import LONGEST
from headwater.times import DAY

LOST_ITEM_DELAY = 3 * DAY  # seconds: cost of a lost item, as in `value`
_MU = np.geomspace(1e-4, 1e4, 400)  # expected items per interval


@dataclass(frozen=True, slots=True)
class PredictedQuality:
    """The predicted quality of a budget (requests per minute); `used` is less if more would not help."""

    budget: float
    used: float
    completeness: float
    freshness: float
    delay: float


def quality_by_budget(
    rates: Floats, windows: Floats, weights: Floats, budgets: Sequence[float], *, shortest: float = 120.0
) -> list[PredictedQuality]:
    """Predict the quality of each budget.

    `rates` are items per second, `shortest` is the shortest interval that politeness allows.

    >>> one = np.ones(1)
    >>> half, full = quality_by_budget(0.001 * one, 1e6 * one, one, [0.05, 0.1])  # an endless window loses nothing
    >>> half.completeness, round(half.delay), round(full.delay)  # every 20 and every 10 minutes
    (1.0, 600, 300)
    """
    if not len(rates):
        return []
    rates, windows = np.maximum(rates, 1e-9), np.maximum(windows, 1.0)
    weights = np.where(weights > 0, weights, 1e-12)
    spread = BudgetSpread(rates, windows, np.ones(len(rates)), shortest)
    found = []
    for budget in budgets:
        every = spread.intervals(weights, budget)
        completeness, freshness, delay = predict_quality(rates, windows, weights, every)
        found.append(PredictedQuality(budget, float((60.0 / every).sum()), min(completeness, 1.0), freshness, delay))
    return found


class BudgetSpread:
    """Spreads a budget over feeds as `value` does; each feed may stand for `many`."""

    def __init__(self, rates: Floats, windows: Floats, many: Floats, shortest: float) -> None:
        self._rates = rates
        self._many = many
        self._shortest = max(shortest, 1.0)
        self._gains = _log_index_by_items(rates, windows)

    def intervals(self, weights: Floats, budget: float) -> Floats:
        """Return the seconds between two refreshes of each feed.

        The price is the one at which all feeds together use `budget` requests a minute; its logarithm is bisected.
        """
        gains = self._gains + np.log(np.maximum(weights, 1e-12))[:, None]
        steps, rows = np.log(_MU), np.arange(len(self._rates))

        def at(price: float) -> Floats:
            upto = np.sum(gains < price, axis=1)
            low, high = np.clip(upto - 1, 0, len(_MU) - 1), np.clip(upto, 0, len(_MU) - 1)
            below, above = gains[rows, low], gains[rows, high]
            share = np.where(above > below, (price - below) / np.where(above > below, above - below, 1.0), 0.0)
            mu = np.exp(steps[low] + np.clip(share, 0.0, 1.0) * (steps[high] - steps[low]))
            return np.asarray(np.clip(mu / self._rates, self._shortest, LONGEST))

        cheap, dear = float(gains.min()), float(gains.max())
        for _ in range(40):
            middle = (cheap + dear) / 2
            spent = float((self._many / at(middle)).sum()) * 60.0
            cheap, dear = (middle, dear) if spent > budget else (cheap, middle)
        return at(dear)


def _log_index_by_items(rates: Floats, windows: Floats) -> Floats:
    """Return the logarithm of the index of each feed (row), at weight 1, by number of expected items (column)."""
    sizes, place = np.unique(np.rint(windows), return_inverse=True)
    losses = np.stack([_loss_index(float(size)) for size in sizes])[place]
    waiting = _MU**2 / (2 * rates[:, None])
    return np.asarray(np.log(waiting + LOST_ITEM_DELAY * losses))


@lru_cache(maxsize=1000)
def _loss_index(size: float) -> Floats:
    return compute_loss_index(size, _MU)
