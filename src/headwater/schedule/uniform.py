"""Round robin: the feed refreshed longest ago is next, so each of m feeds gets b/m of the budget."""

from __future__ import annotations

from headwater.estimate.base import Floats, Rows
from headwater.schedule.base import Table
from headwater.schedule.ranking import RankingStrategy


class Uniform(RankingStrategy):
    """Every feed at the same frequency b/m (Horincar et al., section 5): value = age.

    >>> import numpy as np
    >>> from headwater.schedule.base import Budget
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
