"""Raises weights until each query's target is met.

A query target applies to some feeds and to the share of their items that the query keeps. `what_if` spreads the budget
as `value` does. If the model predicts that a target is missed, the weight of its feeds is doubled, again and again,
until the target is met or doubling no longer helps. A last pass reduces weights that are larger than necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.schedule.quality.least_budget import QualityTarget
from headwater.schedule.quality.model import predict_quality
from headwater.schedule.quality.what_if import BudgetSpread

MAX_FACTOR = 4096.0  # the largest factor on a query's own worth
MIN_GAIN = 0.005  # share of the shortfall; a doubling that gains less costs the other feeds too much
TARGET_SAMPLE, OTHER_SAMPLE = 400, 300  # sample sizes: feeds with a target, and all others


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """A target of a query for the feeds `rows`.

    `share` is the share of their items that the query keeps, `worth` the worth of each of those.
    """

    target: QualityTarget
    rows: Rows
    share: Floats
    worth: float = 1.0


@dataclass(frozen=True, slots=True)
class QueryTargetPlan:
    """The predicted quality of a query.

    `times` is the factor on the query's own worth, `spent` the requests per minute of its feeds.
    """

    times: float
    met: bool
    completeness: float
    freshness: float
    delay: float
    spent: float


def meet_query_targets(
    targets: Sequence[QueryTarget],
    rates: Floats,
    windows: Floats,
    weights: Floats,
    budget: float,
    *,
    shortest: float = 120.0,
) -> list[QueryTargetPlan]:
    """Plan each target on `budget` requests per minute; `weights` are the feeds' weights without targets.

    >>> many = np.ones(10)
    >>> query = QueryTarget(QualityTarget(delay=300.0), np.arange(2), np.ones(2))
    >>> (one,) = meet_query_targets([query], 0.001 * many, 50 * many, many, 0.5)  # every feed every twenty minutes
    >>> one.met, round(one.times, 1), one.delay <= 300
    (True, 7.3, True)
    """
    if not targets:
        return []
    rates = np.maximum(rates, 1e-9)
    chosen, many, targets = _sample_feeds(targets, rates)
    rates, windows, weights = rates[chosen], np.maximum(windows[chosen], 1.0), weights[chosen]
    spread = BudgetSpread(rates, windows, many, shortest)
    factors = np.ones(len(targets))

    def intervals(factors: Floats) -> Floats:
        worth = weights.copy()
        for query, factor in zip(targets, factors, strict=True):
            worth[query.rows] += (factor - 1) * query.worth * query.share
        return spread.intervals(worth, budget)

    def outcomes(factors: Floats) -> list[tuple[float, float, float]]:
        every = intervals(factors)
        return [_predict_for_target(query, rates, windows, every) for query in targets]

    present = outcomes(factors)
    unmet = np.array(
        [_measure_shortfall(query, predicted) > 0 for query, predicted in zip(targets, present, strict=True)]
    )
    while unmet.any():
        more = np.where(unmet, np.minimum(factors * 2, MAX_FACTOR), factors)
        after = outcomes(more)
        for k, query in enumerate(targets):
            before, now = _measure_shortfall(query, present[k]), _measure_shortfall(query, after[k])
            if unmet[k] and (now <= 0 or now > before * (1 - MIN_GAIN) or more[k] >= MAX_FACTOR):
                unmet[k] = False
                more[k] = factors[k] if now > before * (1 - MIN_GAIN) else more[k]
            elif not unmet[k] and before <= 0 < now and more[k] < MAX_FACTOR:
                unmet[k] = True  # the gain of another target has undone this one
        factors, present = more, after
    factors = _reduce_factors(factors, targets, outcomes)
    every = intervals(factors)
    plans = []
    for query, factor in zip(targets, factors.tolist(), strict=True):
        predicted = _predict_for_target(query, rates, windows, every)
        spent = float((many[query.rows] * 60.0 / every[query.rows]).sum())
        plans.append(QueryTargetPlan(factor, _measure_shortfall(query, predicted) <= 0, *predicted, spent))
    return plans


def _reduce_factors(
    factors: Floats, targets: Sequence[QueryTarget], outcomes: Callable[[Floats], list[tuple[float, float, float]]]
) -> Floats:
    """Reduce factors to nearly the least that suffices; the last doubling was up to a factor of two too much."""
    low, high = np.where(factors > 1, factors / 2, factors), factors
    for _ in range(3):
        middle = np.sqrt(low * high)
        met = np.array(
            [
                _measure_shortfall(query, predicted) <= 0
                for query, predicted in zip(targets, outcomes(middle), strict=True)
            ]
        )
        low, high = np.where(met, low, middle), np.where(met, middle, high)
    return np.asarray(high)


def _predict_for_target(
    query: QueryTarget, rates: Floats, windows: Floats, every: Floats
) -> tuple[float, float, float]:
    if not len(query.rows):
        return 1.0, 1.0, 0.0
    share = np.maximum(query.share, 1e-9)
    return predict_quality(rates[query.rows], windows[query.rows], share, every[query.rows])


def _measure_shortfall(query: QueryTarget, seen: tuple[float, float, float]) -> float:
    """Return how far the target is from being met, as a share; 0 or less if it is met."""
    target, (completeness, freshness, delay) = query.target, seen
    parts = [-1.0]
    if target.completeness is not None:
        parts.append((target.completeness - completeness) / max(1 - target.completeness, 1e-4))
    if target.freshness is not None:
        parts.append((target.freshness - freshness) / max(1 - target.freshness, 1e-4))
    if target.delay is not None:
        parts.append(delay / target.delay - 1)
    return max(parts)


def _sample_feeds(targets: Sequence[QueryTarget], rates: Floats) -> tuple[Rows, Floats, list[QueryTarget]]:
    """Return rows that stand for all, how many each stands for, and the targets on the sample."""
    with_target = np.unique(np.concatenate([query.rows for query in targets]).astype(np.intp))
    others = np.setdiff1d(np.arange(len(rates), dtype=np.intp), with_target)
    parts = [_sample_evenly(with_target, rates, TARGET_SAMPLE), _sample_evenly(others, rates, OTHER_SAMPLE)]
    chosen = np.concatenate([rows for rows, _ in parts])
    many = np.concatenate([np.full(len(rows), each) for rows, each in parts])
    place = np.full(len(rates), -1, np.intp)
    place[chosen] = np.arange(len(chosen))
    small = []
    for query in targets:
        here = place[query.rows] >= 0
        small.append(QueryTarget(query.target, place[query.rows][here], query.share[here], query.worth))
    return chosen, many, small


def _sample_evenly(rows: Rows, rates: Floats, most: int) -> tuple[Rows, float]:
    if len(rows) <= most:
        return rows, 1.0
    step = len(rows) / most
    return rows[np.argsort(rates[rows], kind="stable")][((np.arange(most) + 0.5) * step).astype(np.intp)], step
