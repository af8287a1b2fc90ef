"""Only saturated feeds: the first of the two steps."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Bools, Floats, Rows
from headwater.schedule.base import Table
from headwater.schedule.ranking import divergence, relevant
from headwater.schedule.utility import Utilitarian


class OnlySat(Utilitarian):
    """The b saturated feeds (Div_F ≥ W) of greatest window divergence Div_A > 0 (thesis alg. 4.1, first step).

    >>> from headwater.schedule.base import Budget
    >>> table = Table.of(3, window=10.0)
    >>> table.last[:] = 0.0
    >>> table.divergence[:] = [9.0, 10.0, 30.0]
    >>> OnlySat(3).choose(table, 1.0, Budget(3)).rows.tolist()  # nine items still fit
    [1, 2]
    """

    name = "only_sat"
    monotone = True

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        published = divergence(self.estimator, table, rows, now)
        return gain(table, rows, published)

    def eligible(self, table: Table, now: float, candidates: Bools | None) -> Rows:
        rows = super().eligible(table, now, candidates)
        return rows[self.value(table, rows, now) > 0]


def gain(table: Table, rows: Rows, published: Floats) -> Floats:
    """What a refresh of a saturated feed brings (Div_A · weight / cost), 0 for a feed that still has room."""
    worth = relevant(published, table, rows) * table.weight[rows] / table.cost[rows]
    return np.where(published >= table.window[rows], worth, 0.0)
