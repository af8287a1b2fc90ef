"""Several wishes of quality on one budget: how much more the feeds of each must count until the model says it is met.

A wish is a target for some feeds, seen through what a query keeps of them. The budget is spread as `curve` says `value`
spreads it. A wish that is not met then makes its feeds count twice as much, and again, until it is, or until that no
longer helps; a last look takes back what was too much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.schedule.quality.least_budget import QualityTarget
from headwater.schedule.quality.model import predict_quality
from headwater.schedule.quality.what_if import BudgetSpread

MAX_FACTOR = 4096.0  # times its own worth that a wish may make feeds count
MIN_GAIN = 0.005  # of what is missing: a doubling that brings less is not worth what others lose
TARGET_SAMPLE, OTHER_SAMPLE = 400, 300  # feeds that stand for those of wishes, and for all others


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """`rows` are its feeds, `share` the share of their items that it keeps, `worth` what each of those is worth."""

    target: QualityTarget
    rows: Rows
    share: Floats
    worth: float = 1.0


@dataclass(frozen=True, slots=True)
class QueryTargetPlan:
    """What a wish will see, `times` how much more than its own worth its feeds count for it, and `spent` the requests
    per minute that they get."""

    times: float
    met: bool
    completeness: float
    freshness: float
    delay: float
    spent: float


def meet_query_targets(
    wishes: Sequence[QueryTarget],
    rates: Floats,
    windows: Floats,
    weights: Floats,
    budget: float,
    *,
    shortest: float = 120.0,
) -> list[QueryTargetPlan]:
    """For each wish, on `budget` requests per minute; `weights` are what the feeds' items are worth without wishes.

    >>> many = np.ones(10)
    >>> wish = QueryTarget(QualityTarget(delay=300.0), np.arange(2), np.ones(2))
    >>> (one,) = meet_query_targets([wish], 0.001 * many, 50 * many, many, 0.5)  # every feed every twenty minutes
    >>> one.met, round(one.times, 1), one.delay <= 300
    (True, 7.3, True)
    """
    if not wishes:
        return []
    rates = np.maximum(rates, 1e-9)
    chosen, many, wishes = _sample_feeds(wishes, rates)
    rates, windows, weights = rates[chosen], np.maximum(windows[chosen], 1.0), weights[chosen]
    spread = BudgetSpread(rates, windows, many, shortest)
    times = np.ones(len(wishes))

    def intervals(at: Floats) -> Floats:
        worth = weights.copy()
        for wish, factor in zip(wishes, at, strict=True):
            worth[wish.rows] += (factor - 1) * wish.worth * wish.share
        return spread.intervals(worth, budget)

    def outcomes(at: Floats) -> list[tuple[float, float, float]]:
        every = intervals(at)
        return [_predict_for_target(wish, rates, windows, every) for wish in wishes]

    found = outcomes(times)
    open_ = np.array([_measure_shortfall(wish, one) > 0 for wish, one in zip(wishes, found, strict=True)])
    while open_.any():
        more = np.where(open_, np.minimum(times * 2, MAX_FACTOR), times)
        after = outcomes(more)
        for at, wish in enumerate(wishes):
            before, now = _measure_shortfall(wish, found[at]), _measure_shortfall(wish, after[at])
            if open_[at] and (now <= 0 or now > before * (1 - MIN_GAIN) or more[at] >= MAX_FACTOR):
                open_[at] = False
                more[at] = times[at] if now > before * (1 - MIN_GAIN) else more[at]
            elif not open_[at] and before <= 0 < now and more[at] < MAX_FACTOR:
                open_[at] = True  # another's gain took it away again
        times, found = more, after
    times = _reduce_factors(times, wishes, outcomes)
    every = intervals(times)
    answers = []
    for wish, factor in zip(wishes, times.tolist(), strict=True):
        one = _predict_for_target(wish, rates, windows, every)
        spent = float((many[wish.rows] * 60.0 / every[wish.rows]).sum())
        answers.append(QueryTargetPlan(factor, _measure_shortfall(wish, one) <= 0, *one, spent))
    return answers


def _reduce_factors(
    times: Floats, wishes: Sequence[QueryTarget], outcomes: Callable[[Floats], list[tuple[float, float, float]]]
) -> Floats:
    """Nearer to the least that suffices: the last doubling was too much by up to a factor of two."""
    low, high = np.where(times > 1, times / 2, times), times
    for _ in range(3):
        middle = np.sqrt(low * high)
        met = np.array([_measure_shortfall(wish, one) <= 0 for wish, one in zip(wishes, outcomes(middle), strict=True)])
        low, high = np.where(met, low, middle), np.where(met, middle, high)
    return np.asarray(high)


def _predict_for_target(wish: QueryTarget, rates: Floats, windows: Floats, every: Floats) -> tuple[float, float, float]:
    if not len(wish.rows):
        return 1.0, 1.0, 0.0
    share = np.maximum(wish.share, 1e-9)
    return predict_quality(rates[wish.rows], windows[wish.rows], share, every[wish.rows])


def _measure_shortfall(wish: QueryTarget, seen: tuple[float, float, float]) -> float:
    """How far the wish is from being met, 0 and less where it is: the greatest of its parts, as shares."""
    target, (completeness, freshness, delay) = wish.target, seen
    parts = [-1.0]
    if target.completeness is not None:
        parts.append((target.completeness - completeness) / max(1 - target.completeness, 1e-4))
    if target.freshness is not None:
        parts.append((target.freshness - freshness) / max(1 - target.freshness, 1e-4))
    if target.delay is not None:
        parts.append(delay / target.delay - 1)
    return max(parts)


def _sample_feeds(wishes: Sequence[QueryTarget], rates: Floats) -> tuple[Rows, Floats, list[QueryTarget]]:
    """Rows that stand for all, how many each stands for, and the wishes on the sample."""
    wished = np.unique(np.concatenate([wish.rows for wish in wishes]).astype(np.intp))
    others = np.setdiff1d(np.arange(len(rates), dtype=np.intp), wished)
    parts = [_sample_evenly(wished, rates, TARGET_SAMPLE), _sample_evenly(others, rates, OTHER_SAMPLE)]
    chosen = np.concatenate([rows for rows, _ in parts])
    many = np.concatenate([np.full(len(rows), each) for rows, each in parts])
    place = np.full(len(rates), -1, np.intp)
    place[chosen] = np.arange(len(chosen))
    small = []
    for wish in wishes:
        here = place[wish.rows] >= 0
        small.append(QueryTarget(wish.target, place[wish.rows][here], wish.share[here], wish.worth))
    return chosen, many, small


def _sample_evenly(rows: Rows, rates: Floats, most: int) -> tuple[Rows, float]:
    if len(rows) <= most:
        return rows, 1.0
    step = len(rows) / most
    return rows[np.argsort(rates[rows], kind="stable")][((np.arange(most) + 0.5) * step).astype(np.intp)], step
