"""The b feeds of greatest utility."""

from __future__ import annotations

from headwater.estimate.base import Floats, Rows
from headwater.schedule.base import Table
from headwater.schedule.utility import Utilitarian, utility


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

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        return utility(self.estimator, table, rows, now)
