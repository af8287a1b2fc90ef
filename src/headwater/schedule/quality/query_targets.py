"""Raises the worth of feeds until each query's completeness and freshness are met by the plan.

A query target applies to some feeds and to the share of their items that the query keeps. If the plan predicts that a
target is missed, the worth of its feeds is doubled, again and again, until the target is met or doubling no longer
helps. A last pass reduces factors that are larger than necessary. A TARGET DELAY is a deadline (`deadlines`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.schedule.promise import Plan, PlanInputs, Promise
from headwater.schedule.quality.least_budget import describe_promise, name_limit
from headwater.schedule.quality.promise_record import describe_target
from headwater.schedule.quality.quality_target import QualityTarget

MAX_FACTOR = 4096.0  # the largest factor on a query's own worth
# Share of the shortfall that a doubling must gain. Twelve doublings that gain less cannot meet the target: they would
# only starve the other feeds.
MIN_GAIN = 0.05
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

    @property
    def shares(self) -> QualityTarget | None:
        """The completeness and freshness wanted; None if only a delay is."""
        target = self.target
        return None if target.completeness is None and target.freshness is None else replace(target, delay=None)


@dataclass(frozen=True, slots=True)
class QueryTargetPlan:
    """The predicted quality of a query, and why its completeness or freshness cannot be met if so.

    `times` is the factor on the query's own worth, `spent` the requests per minute of its feeds.
    """

    times: float
    met: bool
    promise: Promise
    spent: float
    problem: str = ""


def meet_query_targets(targets: Sequence[QueryTarget], inputs: PlanInputs, budget: float) -> list[QueryTargetPlan]:
    """Plan each target on `budget` requests per minute; the beliefs have the feeds' worth without targets.

    >>> many = np.ones(10)
    >>> query = QueryTarget(QualityTarget(freshness=0.994), np.arange(2), np.ones(2))
    >>> inputs = PlanInputs.of(0.001 * many, 50 * many, many)
    >>> (one,) = meet_query_targets([query], inputs, 0.5)  # every feed every twenty minutes: freshness .988
    >>> one.met, 5 < one.times < 20
    (True, True)
    """
    if not targets:
        return []
    factors = np.ones(len(targets))

    def make(factors: Floats) -> Plan:
        worth = inputs.beliefs.worth.copy()
        for query, factor in zip(targets, factors, strict=True):
            worth[query.rows] += (factor - 1) * query.worth * query.share
        return inputs.value_feeds(worth).plan_for(budget)

    def shortfalls(made: Plan) -> list[float]:
        return [_measure_shortfall(query, made) for query in targets]

    made = make(factors)
    present = shortfalls(made)
    unmet = np.array([short > 0 for short in present])
    while unmet.any():
        more = np.where(unmet, np.minimum(factors * 2, MAX_FACTOR), factors)
        after = shortfalls(make(more))
        for k, (before, now) in enumerate(zip(present, after, strict=True)):
            if unmet[k] and (now <= 0 or now > before * (1 - MIN_GAIN) or more[k] >= MAX_FACTOR):
                unmet[k] = False
                more[k] = factors[k] if now > before * (1 - MIN_GAIN) else more[k]
            elif not unmet[k] and before <= 0 < now and more[k] < MAX_FACTOR:
                unmet[k] = True  # the gain of another target has undone this one
        factors, present = more, after
    if (factors > 1).any():
        factors = _reduce_factors(factors, lambda some: shortfalls(make(some)))
        made = make(factors)
    return [_report(query, float(factor), made, inputs) for query, factor in zip(targets, factors, strict=True)]


def _reduce_factors(factors: Floats, shortfalls: Callable[[Floats], list[float]]) -> Floats:
    """Reduce factors to nearly the least that suffices; the last doubling was up to a factor of two too much."""
    low, high = np.where(factors > 1, factors / 2, factors), factors
    for _ in range(3):
        middle = np.sqrt(low * high)
        met = np.array(shortfalls(middle)) <= 0
        low, high = np.where(met, low, middle), np.where(met, middle, high)
    return np.asarray(high)


def _measure_shortfall(query: QueryTarget, made: Plan) -> float:
    if query.shares is None or not len(query.rows):
        return -1.0
    promise = made.promise(query.rows, query.share)
    return query.shares.measure_shortfall(promise.completeness, promise.freshness, None)


def _report(query: QueryTarget, factor: float, made: Plan, inputs: PlanInputs) -> QueryTargetPlan:
    promise = made.promise(query.rows, query.share)
    rows = query.rows
    spent = float(made.count_requests()[rows].sum()) if len(rows) else 0.0
    if _measure_shortfall(query, made) <= 0:
        return QueryTargetPlan(factor, True, promise, spent)
    return QueryTargetPlan(factor, False, promise, spent, _find_problem(query, made, inputs))


def _find_problem(query: QueryTarget, made: Plan, inputs: PlanInputs) -> str:
    """Say why a target is missed: whatever the budget, or with this one."""
    assert query.shares is not None
    fastest = inputs.without_thrift().plan_fastest()
    best = fastest.promise(query.rows, query.share)
    possible = describe_promise(best)
    if query.shares.measure_shortfall(best.completeness, best.freshness, None) > 0:
        mine = np.zeros(len(fastest.interval), bool)
        mine[query.rows] = True
        limits = replace(fastest.constraints, active=fastest.constraints.active & mine)
        limit = name_limit(replace(fastest, constraints=limits), query.shares)
        wanted = describe_target(query.shares, deadline=False)
        return f"No budget brings {wanted}. Possible is {possible}: {limit}."
    needed = float(fastest.count_requests()[query.rows].sum())
    reached = describe_promise(made.promise(query.rows, query.share))
    return (
        f"Cannot be met with {made.budget:g} requests per minute: {reached} can be reached. Polled as often as their"
        f" servers allow, its feeds would take {needed:.1f} requests per minute and bring {possible}."
    )


def sample_feeds(targets: Sequence[QueryTarget], rates: Floats) -> tuple[Rows, Floats, list[QueryTarget]]:
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
