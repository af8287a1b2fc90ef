"""Samples the estimates of a server's feeds, and predicts the quality of other budgets from them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.node.crawl.scheduler import Scheduler
from headwater.node.quality.targets import collect_beliefs
from headwater.schedule.quality.what_if import PredictedQuality, quality_by_budget

SAMPLE_SIZE = 500  # feeds that stand for all of them
# Plain floats: a NumPy number in the answer cannot be encoded as JSON.
BUDGET_FACTORS = (1 / 8, 1 / 4, 1 / 2, 1 / math.sqrt(2), 1.0, math.sqrt(2), 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class BeliefSample:
    """The estimates of some feeds that stand for `many` times as many, and the current budget for all of them."""

    rates: list[float]
    windows: list[float]
    weights: list[float]
    many: float
    budget: float


def sample_beliefs(scheduler: Scheduler, now: float) -> BeliefSample | None:
    """Return an even sample by rate; None if there are no estimates."""
    feeds = collect_beliefs(scheduler, now)
    if feeds is None:
        return None
    rates, windows, weights = feeds
    many = max(len(rates) / SAMPLE_SIZE, 1.0)
    if many > 1:
        chosen = np.argsort(rates, kind="stable")[((np.arange(SAMPLE_SIZE) + 0.5) * many).astype(np.intp)]
        rates, windows, weights = rates[chosen], windows[chosen], weights[chosen]
    return BeliefSample(rates.tolist(), windows.tolist(), weights.tolist(), many, scheduler.budget.cap.requests)


async def estimate_quality_by_budget(
    sample: BeliefSample | None, least_interval: float, budgets: Sequence[float] | None = None
) -> list[PredictedQuality]:
    """The curve around the present budget; empty while nothing is believed."""
    if sample is None:
        return []
    many = sample.many
    wanted = list(budgets) if budgets is not None else [sample.budget * factor for factor in BUDGET_FACTORS]
    share = [budget / many for budget in wanted]
    rates, windows, weights = (np.array(one) for one in (sample.rates, sample.windows, sample.weights))
    found = await asyncio.to_thread(quality_by_budget, rates, windows, weights, share, shortest=least_interval)
    return [
        PredictedQuality(budget, one.used * many, one.completeness, one.freshness, one.delay)
        for budget, one in zip(wanted, found, strict=True)
    ]
