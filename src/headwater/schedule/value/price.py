"""Steers the price of a refresh so that the budget is spent.

At a price ν a feed of rate λ whose items cost w per day of waiting is refreshed every T = √(2ν / wλ) days, so the price
that spends a budget follows from the forecasts. Errors of the forecasts are corrected by the requests really spent. The
correction is slow, because feeds respond to a change of price only at their next refresh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats

GAIN = 0.04  # share of the (logarithmic) error corrected at each steering
MEMORY = 1.5  # days over which spending is averaged
MAX_CORRECTION = math.log(30.0)  # the correction never exceeds a factor of 30


@dataclass(frozen=True, slots=True)
class PriceControl:
    """The memory of the control.

    `correction` is a logarithm, `spent` the average spending per day, `weight` the weight of that average.
    """

    correction: float = 0.0
    spent: float = 0.0
    weight: float = 0.0


def price_for_budget(worth_rate: Floats, cost: Floats, per_day: float) -> float:
    """Return the ν at which Σ 1/T_f · cost_f = `per_day`, from T = √(2·ν·cost / worth·λ).

    `worth_rate` is worth × λ per day.

    >>> price_for_budget(np.array([2.0, 2.0]), np.ones(2), 4.0)  # each every half day: ν = w·λ·T² / 2
    0.25
    """
    root = float(np.sqrt(worth_rate * cost / 2).sum())
    return (root / per_day) ** 2 if per_day > 0 and root > 0 else math.inf


def steer_price(control: PriceControl, spent: float, days: float, per_day: float) -> PriceControl:
    """Return the control after `spent` refreshes in the last `days`, with `per_day` to spend."""
    if days <= 0:
        return control
    keep = math.exp(-days / MEMORY)
    weight = control.weight * keep + (1 - keep)
    average = control.spent * keep + (1 - keep) * spent / days
    # A young average is unreliable, so the correction is in proportion to its weight.
    error = math.log(max(average / weight, 0.05 * per_day) / per_day)
    gain = min(GAIN * weight * days * 24, 0.5)
    correction = min(max(control.correction + gain * error, -MAX_CORRECTION), MAX_CORRECTION)
    return PriceControl(correction, average, weight)
