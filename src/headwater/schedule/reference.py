"""Everything, at every cycle: the ceiling of what any strategy can reach."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Bools
from headwater.schedule.base import Budget, Choice, Table
from headwater.schedule.uniform import Uniform


class Reference(Uniform):
    """Refreshes every candidate whatever the budget (thesis 4.4.2, “Reference”).

    >>> Reference(3).choose(Table.of(3), 0.0, Budget(1)).rows.tolist()
    [0, 1, 2]
    """

    name = "reference"
    within_budget = False

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        rows = self.eligible_rows(table, candidates)
        return Choice(rows, np.asarray(now - table.last[rows]))
