"""Every feed whose utility has reached τ: the second of the two steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.estimate.base import Bools, Estimator
from headwater.schedule.base import Budget, Choice, Table, take_best
from headwater.schedule.threshold import adjust_threshold, store_threshold
from headwater.schedule.utility import UtilityStrategy


class OnlyTau(UtilityStrategy):
    """Refresh where Uti ≥ τ (thesis eq. 4.4); τ follows the budget (alg. 4.2).

    With `capped=False` more than b feeds may be taken in one cycle, as in the paper's experiments, where b holds on
    average only; a server keeps its cap, and τ learns from how many would have qualified.

    >>> table = Table.of(2)
    >>> table.last[:] = 0.0
    >>> table.divergence[:] = [1.0, 2.0]
    >>> strategy = OnlyTau(2, tau=6.0)
    >>> strategy.choose(table, 10.0, Budget(2)).rows.tolist()  # utilities ½·10·1 = 5 and ½·10·2 = 10
    [1]
    >>> round(strategy.price, 2)  # one of two used: less than 90 %
    5.7
    """

    name = "only_tau"
    monotone = True

    def __init__(
        self,
        feeds: int = 0,
        *,
        tau: float = 1.0,
        capped: bool = True,
        estimator: Estimator | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        self._tau, self.capped = tau, capped
        super().__init__(feeds, estimator=estimator, rng=rng)

    def shared(self) -> Mapping[str, Any]:
        return {"price": self._tau}

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        rows = self.eligible_rows(table, candidates)
        rows, value = self.find_useful(table, rows, now, self.price)
        if budget.now > 0:
            store_threshold(self._shared["price"], adjust_threshold(self.price, len(rows), budget.now))
        return take_best(rows, value, budget if self.capped else lift_budget(budget, len(rows)), self._rng)


def lift_budget(budget: Budget, rows: int) -> Budget:
    """The same budget with room for all rows, if it has room for any."""
    return Budget(rows if budget.now > 0 else 0, budget.rate, budget.host, budget.room)
