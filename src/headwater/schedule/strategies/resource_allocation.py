"""Sia & Cho, Cho & Garcia-Molina: optimal refresh frequencies.

Three aims, one method (Lagrange multipliers): least total delay of postings (Sia & Cho), least average age and greatest
average freshness of copies (Cho & Garcia-Molina). Each function takes rates and weights and returns frequencies that
sum to `total`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats
from headwater.estimate.estimator import Estimator
from headwater.estimate.feed_columns import Column
from headwater.estimate.models.cluster_pattern import ClusterPattern
from headwater.schedule.selection import Budget, Choice, take_best
from headwater.schedule.strategy import NEVER_READ, Decision, Observed, Strategy, Table
from headwater.times import DAY

# r = λ/f on a grid fine enough for five digits by linear interpolation in logarithms.
_R = np.geomspace(1e-4, 1e4, 8001)
# 1 − (1 + r)·e^−r and r²/2 − 1 + (1 + r)·e^−r; both cancel for small r, where their series give r²/2 and r³/3.
_FRESH = np.where(_R < 1e-2, _R**2 / 2 - _R**3 / 3, -np.expm1(-_R) - _R * np.exp(-_R))
_AGE = np.where(_R < 1e-2, _R**3 / 3 - _R**4 / 8, _R**2 / 2 - 1 + (1 + _R) * np.exp(-_R))


def allocate_for_delay(rates: Floats, weights: Floats, total: float) -> Floats:
    """Minimise the total delay: m_i = k·√(w_i·λ_i) with Σ m_i = M (Sia & Cho, Theorem 1).

    >>> allocate_for_delay(np.array([1.0, 4.0, 16.0]), np.ones(3), 14.0).tolist()  # 1 : 2 : 4
    [2.0, 4.0, 8.0]
    """
    root = np.sqrt(np.maximum(weights * rates, 0.0))
    return np.asarray(root * (total / max(float(root.sum()), 1e-300)))


def allocate_for_age(rates: Floats, weights: Floats, total: float) -> Floats:
    """Minimise Σ w·A, A the time-averaged age of a copy: r²/2 − 1 + (1 + r)e^−r = μλ²/w with r = λ/f.

    Cho & Garcia-Molina (2003) give an example of five pages that change 1 to 5 times a day and five visits (they print
    .84 for the first):

    >>> allocate_for_age(np.arange(1.0, 6.0), np.ones(5), 5.0).round(3).tolist()
    [0.835, 0.968, 1.034, 1.071, 1.093]
    """
    return _allocate_by_price(
        lambda mu: _solve_ratio(_AGE, mu * rates**2 / np.maximum(weights, 1e-300)), rates, weights, total
    )


def allocate_for_freshness(rates: Floats, weights: Floats, total: float) -> Floats:
    """Maximise Σ w·F, F the share of time a copy is fresh: 1 − (1 + r)e^−r = μλ/w; frequency 0 where μλ/w ≥ 1.

    Feeds that change too often are given up, which ruins the delay (Sia & Cho, Table 2).

    >>> allocate_for_freshness(np.arange(1.0, 6.0), np.ones(5), 5.0).round(2).tolist()
    [1.15, 1.36, 1.35, 1.14, 0.0]
    """
    return _allocate_by_price(
        lambda mu: _solve_ratio(_FRESH, mu * rates / np.maximum(weights, 1e-300)), rates, weights, total
    )


def _solve_ratio(curve: Floats, wanted: Floats) -> Floats:
    """Return r where the rising `curve` reaches `wanted`; +inf beyond its end."""
    log_r = np.interp(np.log(np.maximum(wanted, 1e-300)), np.log(curve), np.log(_R))
    beyond = wanted > curve[-1] if curve is _AGE else wanted >= 1.0
    return np.where(beyond & (curve is _FRESH), np.inf, np.exp(log_r))


def _allocate_by_price(ratio: Callable[[float], Floats], rates: Floats, weights: Floats, total: float) -> Floats:
    """Return the frequencies λ/r(μ) at the price μ where they sum to `total`; bisects the logarithm of μ."""
    if not len(rates) or total <= 0:
        return np.zeros(len(rates))

    def frequencies(log_mu: float) -> Floats:
        return np.asarray(rates / ratio(float(np.exp(log_mu))))

    low, high = -200.0, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if frequencies(middle).sum() > total else (low, middle)
    answer = frequencies(high)
    return np.asarray(answer * (total / max(float(answer.sum()), 1e-300)))


class AllocationStrategy(Strategy):
    """Plans once a day how often each feed is refreshed; a feed is due when its interval has passed.

    The frequencies are scaled to use exactly `budget.rate`. With an unlimited rate (0) only their proportions count,
    and the feeds furthest along their interval come first.
    """

    estimator: Estimator

    def __init__(self, feeds: int = 0, *, estimator: Estimator | None = None, period: float = DAY) -> None:
        self.period = period
        super().__init__(feeds)
        self.estimator = self.adopt("estimator", estimator if estimator is not None else ClusterPattern())

    def layout(self) -> Mapping[str, Column]:
        return {"every": Column(np.nan)}

    def shared(self) -> Mapping[str, Any]:
        return {"until": -np.inf, "rate": 0.0}

    @abstractmethod
    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        """Return the refreshes per second of each feed, `total` together."""

    def observe(self, table: Table, seen: Observed) -> None:
        self.estimator.observe(seen.rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)

    def plan_period(self, table: Table, now: float, rate: float) -> None:
        """Set every feed's interval for the coming period."""
        if isinstance(self.estimator, ClusterPattern):
            self.estimator.recluster()
        rows = np.arange(len(table))
        rates = self.estimator.daily_rate(rows, np.full(len(rows), now))
        # With unequal costs the same Lagrangian divides each weight by the cost.
        weights = table.weight * table.selectivity / table.cost
        share = self.allocate(rates, weights, rate if rate > 0 else 1.0)
        self._columns["every"][:] = 1.0 / np.maximum(share, 1e-30)
        self._shared["until"][...] = now + self.period
        self._shared["rate"][...] = rate

    def plan_if_stale(self, table: Table, now: float, budget: Budget) -> None:
        """Plan again if the period is over, the budget has changed or feeds are new."""
        stale = now >= float(self._shared["until"]) or budget.rate != float(self._shared["rate"])
        if len(table) and (stale or np.isnan(self._columns["every"][-1])):
            self.plan_period(table, now, budget.rate)

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        self.plan_if_stale(table, now, budget)
        progress = (now - table.last) / self._columns["every"]
        enough = progress >= (1.0 if budget.rate > 0 else 0.0)
        if candidates is not None:
            enough &= candidates
        rows = np.flatnonzero(enough)
        return take_best(rows, progress[rows], budget)

    def why(self, table: Table, row: int, now: float) -> str:
        return self.explain(table, row, now).reason

    def explain(self, table: Table, row: int, now: float) -> Decision:
        every = float(self._columns["every"][row])
        if not np.isfinite(table.last[row]) or np.isnan(every):
            return Decision(NEVER_READ, np.inf, 1.0, now)
        due = float(table.last[row]) + every
        value = (now - float(table.last[row])) / every
        return Decision(f"allotted one refresh in {every / 60:.0f} min, {value:.2f} of it has passed", value, 1.0, due)


class Allocation(AllocationStrategy):
    """Refresh m_i = k·√(w_i·λ_i) times, evenly spaced (Sia & Cho, Theorem 1; “resource allocation only”).

    >>> from headwater.estimate.models.fixed import FixedRate
    >>> rates = FixedRate(2)
    >>> rates.set_rates(np.arange(2), np.array([0.01, 0.04]))
    >>> s, table = Allocation(2, estimator=rates), Table.of(2)
    >>> table.last[:] = 0.0
    >>> s.choose(table, 16.0, Budget(9, rate=0.1)).rows.tolist()  # 1 : 2 of .1 a second: every 30 s and every 15 s
    [1]
    """

    name = "allocation"
    fair = True
    monotone = True

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return allocate_for_delay(rates, weights, total)


class CgmAge(AllocationStrategy):
    """Refresh at the frequencies of least average age, evenly spaced.

    Cho & Garcia-Molina 2003; CGM03(Age) in Sia & Cho, Table 2.

    >>> CgmAge().allocate(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5), 5.0).round(3).tolist()
    [0.835, 0.968, 1.034, 1.071, 1.093]
    """

    name = "cgm_age"
    fair = True
    monotone = True

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return allocate_for_age(rates, weights, total)


class CgmFreshness(AllocationStrategy):
    """Refresh at the frequencies of greatest average freshness, evenly spaced.

    Cho & Garcia-Molina 2003; CGM03(Freshness) in Sia & Cho, Table 2. It gives up feeds that publish too often, so it
    guarantees neither fairness nor that a busier feed gets more.

    >>> CgmFreshness().allocate(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5), 5.0).round(2).tolist()
    [1.15, 1.36, 1.35, 1.14, 0.0]
    """

    name = "cgm_freshness"

    def allocate(self, rates: Floats, weights: Floats, total: float) -> Floats:
        return allocate_for_freshness(rates, weights, total)
