"""Predicts the quality that other budgets would buy, and finds the least one that reaches a target, by bisection.

Both evaluate the plan at those budgets, with the same calibration.

Our own thrift does not count here: a wanted quality is reason enough to ask. If no budget reaches the target, the
result has the best that can be reached and names the limit: politeness, the pace of hosts, or batches that are larger
than the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headwater.arrays import Floats
from headwater.schedule.politeness.rules import MIN_INTERVAL
from headwater.schedule.promise import Plan, PlanInputs, Promise, Why
from headwater.schedule.quality.promise_record import describe_figures
from headwater.schedule.quality.quality_target import QualityTarget
from headwater.times import format_duration

_ROUNDS = 12  # of bisection, over three orders of magnitude: the budget is right to a few thousandths
_SPAN = 1000.0


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The predicted result of a budget, and whether it reaches the target; figures without data are None."""

    reached: bool
    requests_per_minute: float
    completeness: float | None
    freshness: float | None
    delay: float | None
    every: Floats
    message: str


def find_least_budget(
    target: QualityTarget,
    rates: Floats,
    windows: Floats,
    weights: Floats,
    *,
    most: float | None = None,
    shortest: float = MIN_INTERVAL,
) -> BudgetPlan:
    """Return the least requests per minute that reach the target for feeds without bursts, failures or hints.

    `rates` are items per second, `shortest` is the shortest interval that politeness allows.
    """
    return find_budget_for_target(target, PlanInputs.of(rates, windows, weights, shortest=shortest), most=most)


def find_budget_for_target(target: QualityTarget, inputs: PlanInputs, *, most: float | None = None) -> BudgetPlan:
    """Return the least budget at which the plan reaches the target, at most `most`; if none does, what is possible."""
    if not len(inputs.beliefs):
        return BudgetPlan(True, 0.0, None, None, None, np.empty(0), "There are no feeds, so nothing is needed.")
    inputs = inputs.without_thrift()
    fastest = inputs.plan_fastest()
    promise = fastest.promise()
    if promise.completeness is None:
        message = "No feed is expected to publish anything yet, so there is nothing to plan."
        return BudgetPlan(True, 0.0, None, None, None, fastest.interval, message)
    if _falls_short(target, promise):
        message = (
            f"No budget reaches the target. Possible is {describe_promise(promise)}: {name_limit(fastest, target)}."
        )
        return _report(False, fastest, min(fastest.spent, np.inf if most is None else most), message)
    high = fastest.spent / inputs.calibration.use
    low = high / _SPAN
    best = fastest
    for _ in range(_ROUNDS):
        middle = float(np.sqrt(low * high))
        made = inputs.plan_for(middle)
        if _falls_short(target, made.promise()):
            low = middle
        else:
            high, best = middle, made
    if most is not None and high > most:
        made = inputs.plan_for(most)
        message = (
            f"The target needs about {high:.1f} requests per minute. With {most:g} it cannot be reached; possible is"
            f" {describe_promise(made.promise())}."
        )
        return _report(False, made, most, message)
    message = f"{high:.1f} requests per minute are expected to bring {describe_promise(best.promise())}."
    return _report(True, best, high, message)


def describe_promise(promise: Promise) -> str:
    """Write predicted figures in words, no more precisely than a day's items can show."""
    return (
        describe_figures(promise.completeness, promise.freshness, promise.delay, max(promise.items, 100.0)) or "nothing"
    )


def name_limit(fastest: Plan, target: QualityTarget) -> str:
    """Name what keeps a plan from a target although it asks as often as it may."""
    beliefs, limits = fastest.beliefs, fastest.constraints
    counted = limits.active & ~limits.away & np.isfinite(fastest.interval)
    for_loss = target.completeness is not None and _falls_short(replace_delay(target), fastest.promise())
    short = fastest.lost if for_loss else fastest.delay
    missing = np.where(counted, beliefs.many * beliefs.rate * short, 0.0)
    by_reason = np.bincount(fastest.binding.astype(np.intp), missing, minlength=len(Why))
    reason = Why(int(by_reason.argmax()))
    longest = format_duration(float(limits.earliest[counted].max(initial=MIN_INTERVAL)))
    if reason is Why.SERVER:
        return f"servers ask for pauses of up to {longest} between two polls"
    if reason is Why.HOST:
        return "hosts with many feeds allow only so many requests a minute"
    if reason is Why.PUSHED:
        return "hubs deliver some feeds, and those are polled for safety only"
    if for_loss:
        return f"now and then more items come between two polls than a feed shows, even if it is polled every {longest}"
    return f"no feed is polled twice within {longest}"


def replace_delay(target: QualityTarget) -> QualityTarget:
    """Return the target without its delay, if it has another part."""
    if target.completeness is None and target.freshness is None:
        return target
    return replace(target, delay=None)


def _falls_short(target: QualityTarget, promise: Promise) -> bool:
    return target.measure_shortfall(promise.completeness, promise.freshness, promise.delay) > 1e-9


def _report(reached: bool, made: Plan, budget: float, message: str) -> BudgetPlan:
    promise = made.promise()
    figures = promise.completeness, promise.freshness, promise.delay
    return BudgetPlan(reached, float(budget), *figures, made.interval, message)


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
