"""The b feeds of greatest utility."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Bools, Floats, Rows
from headwater.schedule.base import Budget, Choice, Table, best
from headwater.schedule.ranking import in_blocks
from headwater.schedule.utility import Utilitarian, most


class TopUtility(Utilitarian):
    """The b largest Uti = age·Div − ∫Div (“topKUtility”, Horincar et al., section 5).

    >>> from headwater.schedule.base import Budget
    >>> table = Table.of(2)
    >>> table.last[:] = [0.0, 6.0]
    >>> table.divergence[:] = [3.0, 8.0]
    >>> TopUtility(2).choose(table, 10.0, Budget(1)).value.tolist()  # ½·10·3 = 15 against ½·4·8 = 16
    [16.0]
    """

    name = "top_utility"
    fair = True
    monotone = True

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        if budget.host is not None or budget.now <= 0:
            return super().choose(table, now, budget, candidates)
        rows = self.eligible(table, now, candidates)
        if len(rows) > 8 * budget.now:
            rows = self._promising(table, rows, now, budget.now)
        return self.taken(best(rows, self.value(table, rows, now), budget, self._rng), budget)

    def _promising(self, table: Table, rows: Rows, now: float, wanted: int) -> Rows:
        """The rows that can be among the best: those whose ceiling is not below what the best few certainly bring."""
        ceiling = in_blocks(lambda part: self._most(table, part, now), rows)
        top = np.argpartition(-ceiling, 2 * wanted)[: 2 * wanted]
        sure = np.partition(-self.value(table, rows[top], now), wanted - 1)[wanted - 1]
        return np.asarray(rows[ceiling >= -sure])

    def _most(self, table: Table, rows: Rows, now: float) -> Floats:
        seen = np.isfinite(table.last[rows])
        ceiling = np.full(len(rows), np.inf)
        ceiling[seen] = most(self.estimator, table, rows[seen], now)
        return ceiling
