"""Strategies that give each feed a frequency for the day and refresh it at even intervals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.estimate.base import DAY, Bools, Column, Estimator, Floats
from headwater.estimate.pattern import ClusterPattern
from headwater.schedule.base import NEVER_READ, Budget, Choice, Decision, Observed, Strategy, Table, take_best


class AllocationStrategy(Strategy):
    """Plans once a day how often each feed is refreshed; then a feed is due when its interval has passed.

    Frequencies are scaled so that they use `budget.rate` exactly; with an unlimited rate (0) only their proportions
    count, and the feeds furthest along their interval are taken first.
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
        """Refreshes per second for each feed, `total` together."""

    def observe(self, table: Table, seen: Observed) -> None:
        self.estimator.observe(seen.rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)

    def plan_period(self, table: Table, now: float, rate: float) -> None:
        """Give every feed its interval for the coming period."""
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
        """Plan if the period is over, the budget has changed or feeds are new."""
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
