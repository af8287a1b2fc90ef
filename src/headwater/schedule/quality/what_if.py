"""Predicts the quality that other budgets would buy: the plan at those budgets, with the same calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.schedule.promise import PlanInputs


@dataclass(frozen=True, slots=True)
class PredictedQuality:
    """The predicted quality of a budget (requests per minute); `used` is less if more would not help.

    Nineteen days of twenty are expected within the doubts: of the model, and of how much will be published.
    """

    budget: float
    used: float
    completeness: float
    freshness: float
    delay: float
    completeness_doubt: float = 0.0
    delay_doubt: float = 0.0


def quality_by_budget(inputs: PlanInputs, budgets: Sequence[float]) -> list[PredictedQuality]:
    """Predict the quality of each budget; nothing if no feed is expected to publish.

    >>> import numpy as np
    >>> one = np.ones(1)
    >>> inputs = PlanInputs.of(0.001 * one, 1e6 * one, one)  # an endless window loses nothing
    >>> half, full = quality_by_budget(inputs, [0.05, 0.1])
    >>> half.completeness, round(half.delay), round(full.delay)  # every 20 and every 10 minutes
    (1.0, 600, 300)
    """
    found = []
    for budget in budgets:
        made = inputs.plan_for(budget)
        promise = made.promise()
        if promise.completeness is None or promise.delay is None:
            return []
        figures = promise.completeness, promise.freshness or 0.0, promise.delay
        doubts = [2 * (one or 0.0) for one in (promise.completeness_doubt, promise.delay_doubt)]
        found.append(PredictedQuality(budget, min(made.spent, budget), *figures, *doubts))
    return found
