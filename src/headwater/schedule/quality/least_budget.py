"""Finds the least budget that reaches a target.

For each aim the cheapest intervals follow from a price: √(wλ) for delay (Sia & Cho, Theorem 1), W·P(N > W) = ν/w for
completeness, the utility of eq. 4.5 for freshness. Several aims together take the shortest interval that any of them
asks for, so the budget is then sufficient but not always the least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headwater.arrays import Floats
from headwater.errors import SettingsError
from headwater.schedule.quality.model import (
    compute_loss_index,
    compute_utility_index,
    predict_completeness,
    predict_delay,
    predict_freshness,
    predict_quality,
)
from headwater.schedule.strategies.learned_interval import LONGEST, SHORTEST
from headwater.schedule.strategies.resource_allocation import allocate_for_delay

_LOWEST_LOG_PRICE = -46.0  # the logarithm of a price at which requests are nearly free
LOWEST_PRICE = float(np.exp(_LOWEST_LOG_PRICE))
_MU = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 1600)])  # expected items per interval


@dataclass(frozen=True, slots=True)
class QualityTarget:
    """The wanted quality; None: no target. `delay` is the mean in seconds."""

    completeness: float | None = None
    freshness: float | None = None
    delay: float | None = None

    def __post_init__(self) -> None:
        for name in ("completeness", "freshness"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise SettingsError(f"A {name} of {share:g} cannot be a target: give a share between 0 and 1.")
        if self.delay is not None and not self.delay > 0:
            raise SettingsError(f"A mean delay of {self.delay:g} s cannot be a target: give a time above 0.")
        if self.completeness is None and self.freshness is None and self.delay is None:
            raise SettingsError("A target needs a completeness, a freshness or a delay.")


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The predicted result of a budget, and whether it reaches the target."""

    reached: bool
    requests_per_minute: float
    completeness: float
    freshness: float
    delay: float
    every: Floats
    message: str


def find_least_budget(
    target: QualityTarget,
    rates: Floats,
    windows: Floats,
    weights: Floats,
    *,
    most: float | None = None,
    shortest: float = SHORTEST,
) -> BudgetPlan:
    """Return the least requests per minute that reach the target; if none do, the best that can be reached, in words.

    `most` is the largest budget available (requests per minute), `shortest` the shortest interval that politeness
    allows.
    """
    if not len(rates):
        return BudgetPlan(True, 0.0, 1.0, 1.0, 0.0, np.empty(0), "There are no feeds, so nothing is needed.")
    rates, windows = np.maximum(rates, 1e-9), np.maximum(windows, 1.0)
    weights = np.where(weights > 0, weights, 1e-12)

    def outcome(every: Floats) -> tuple[float, float, float]:
        return predict_quality(rates, windows, weights, every)

    needed = np.full(len(rates), LONGEST)
    short: list[str] = []
    # For each aim: the intervals at a price, and the quality of given intervals.
    aims: list[tuple[str, Callable[[float], Floats], Callable[..., float]]] = [
        ("completeness", lambda p: _intervals_by_loss(p, rates, windows, weights), predict_completeness),
        ("freshness", lambda p: _intervals_by_utility(p, rates, windows, weights), predict_freshness),
        ("delay", lambda p: 1 / np.maximum(allocate_for_delay(rates, weights, 1.0 / p), 1e-30), predict_delay),
    ]
    for name, intervals, measure in aims:
        wanted: float | None = getattr(target, name)
        if wanted is None:
            continue

        def made(price: float, intervals: Callable[[float], Floats] = intervals) -> Floats:
            return np.clip(intervals(price), shortest, LONGEST)

        def good(every: Floats, wanted: float = wanted, measure: Callable[..., float] = measure) -> bool:
            got = measure(rates, windows, weights, every)
            return got <= wanted * (1 + 1e-9) if measure is predict_delay else got >= wanted - 1e-12

        every = _find_cheapest(made, good)
        if every is None:
            every = made(LOWEST_PRICE)
            best = measure(rates, windows, weights, every)
            short.append(f"{name} reaches {f'{best:.0f} s' if measure is predict_delay else f'{best:.4f}'} at best")
        needed = np.minimum(needed, every)
    return _report_plan(target, needed, outcome, short, most, shortest)


def _report_plan(
    target: QualityTarget,
    every: Floats,
    outcome: Callable[[Floats], tuple[float, float, float]],
    short: list[str],
    most: float | None,
    shortest: float,
) -> BudgetPlan:
    per_minute = float((60.0 / every).sum())
    if short:
        c, f, d = outcome(every)
        message = (
            f"The target cannot be reached with intervals of {shortest / 60:.0f} min or longer: {', '.join(short)},"
            f" for {per_minute:.1f} requests per minute."
        )
        return BudgetPlan(False, per_minute, c, f, d, every, message)
    if most is not None and per_minute > most:
        every = np.minimum(every * (per_minute / most), LONGEST)
        c, f, d = outcome(every)
        message = (
            f"The target needs {per_minute:.1f} requests per minute; with {most:g} a completeness of {c:.4f},"
            f" a freshness of {f:.4f} and a mean delay of {d:.0f} s can be reached."
        )
        return BudgetPlan(False, most, c, f, d, every, message)
    c, f, d = outcome(every)
    message = (
        f"{per_minute:.1f} requests per minute bring completeness {c:.4f}, freshness {f:.4f}, mean delay {d:.0f} s."
    )
    return BudgetPlan(True, per_minute, c, f, d, every, message)


def _find_cheapest(made: Callable[[float], Floats], good: Callable[[Floats], bool]) -> Floats | None:
    """Return the intervals at the highest price (the lowest cost) that still satisfy `good`; bisects the price."""
    if not good(made(LOWEST_PRICE)):
        return None
    low, high = _LOWEST_LOG_PRICE, -_LOWEST_LOG_PRICE
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if good(made(float(np.exp(middle)))) else (low, middle)
    return made(float(np.exp(low)))


@lru_cache(maxsize=1000)
def _loss_curve(window: float) -> Floats:
    return compute_loss_index(window, _MU)


@lru_cache(maxsize=1000)
def _utility_curve(window: float) -> Floats:
    return compute_utility_index(window, _MU)


def _intervals_by_loss(price: float, rates: Floats, windows: Floats, weights: Floats) -> Floats:
    """Return the intervals where w·W·P(N > W) = price: the index of completeness."""
    return _solve_intervals(_loss_curve, price / weights, rates, windows)


def _intervals_by_utility(price: float, rates: Floats, windows: Floats, weights: Floats) -> Floats:
    """Return the intervals where w·(T·h − ∫h) = price, h the new share of the window (eq. 4.5)."""
    return _solve_intervals(_utility_curve, price * rates / weights, rates, windows)


def _solve_intervals(curve: Callable[[float], Floats], wanted: Floats, rates: Floats, windows: Floats) -> Floats:
    """Return T = μ/λ where the rising curve of each feed's window reaches `wanted`; inf where it never does."""
    every = np.empty(len(rates))
    for w in np.unique(np.rint(windows)):
        mine = np.rint(windows) == w
        mu = np.interp(wanted[mine], curve(float(w)), _MU, right=np.inf)
        every[mine] = mu / rates[mine]
    return every
