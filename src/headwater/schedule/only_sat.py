"""Only saturated feeds: the first of the two steps."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Floats, Rows
from headwater.schedule.base import Table
from headwater.schedule.ranking import estimate_divergence, value_window_divergence
from headwater.schedule.utility import UtilityStrategy


class OnlySat(UtilityStrategy):
    """The b saturated feeds (Div_F ≥ W) of greatest window divergence Div_A > 0 (thesis alg. 4.1, first step).

    >>> from headwater.schedule.base import Budget
    >>> table = Table.of(3, window=10.0)
    >>> table.last[:] = 0.0
    >>> table.estimate_divergence[:] = [9.0, 10.0, 30.0]
    >>> OnlySat(3).choose(table, 1.0, Budget(3)).rows.tolist()  # nine items still fit
    [1, 2]
    """

    name = "only_sat"
    monotone = True

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        asked = table.part(rows)
        published = estimate_divergence(self.estimator, asked, rows, now)
        return np.where(published >= asked.window, value_window_divergence(asked, published), 0.0)

    def filter_ready(self, table: Table, rows: Rows, value: Floats, now: float) -> tuple[Rows, Floats]:
        full = np.flatnonzero(value > 0)
        return rows[full], value[full]
