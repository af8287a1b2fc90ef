"""Takes the feed refreshed longest ago; also `reference`, which takes all."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategies.ranking import RankingStrategy
from headwater.schedule.strategy import Table


class Uniform(RankingStrategy):
    """Refresh every feed at the same frequency b/m (Horincar et al., section 5): score = age.

    >>> table = Table.of(3)
    >>> table.last[:] = [50.0, 10.0, 30.0]
    >>> Uniform(3).choose(table, 60.0, Budget(2)).rows.tolist()  # waited 10, 50 and 30
    [1, 2]
    """

    name = "uniform"
    fair = True
    monotone = True

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        return now - table.last[rows]


class RoundRobin(Uniform):
    """Refresh first in, first out (advaRSS's first comparator, section 5); the same rule as `uniform`.

    >>> table = Table.of(2)
    >>> table.last[:] = [5.0, 4.0]
    >>> RoundRobin(2).choose(table, 6.0, Budget(1)).rows.tolist()
    [1]
    """

    name = "round_robin"


class Reference(Uniform):
    """Refresh every candidate, whatever the budget: an upper bound (thesis 4.4.2, “Reference”).

    >>> Reference(3).choose(Table.of(3), 0.0, Budget(1)).rows.tolist()
    [0, 1, 2]
    """

    name = "reference"
    within_budget = False

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        rows = self.eligible_rows(table, candidates)
        return Choice(rows, np.asarray(now - table.last[rows]))
