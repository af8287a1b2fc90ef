"""The b feeds of greatest utility."""

from __future__ import annotations

from headwater.estimate.base import Bools
from headwater.schedule.base import Budget, Choice, Table, take_best
from headwater.schedule.utility import UtilityStrategy

GUESS = 0.9  # of the last price: prices move slowly, and what is below needs no integral


class TopUtility(UtilityStrategy):
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
        rows = self.eligible_rows(table, candidates)
        value = None
        if budget.host is None and len(rows) > 8 * budget.now > 0:
            # What was good enough last time, or nearly, is a good guess at what is now; too few, and it was none.
            good, worth = self.find_useful(table, rows, now, GUESS * self.price)
            if len(good) >= budget.now:
                rows, value = good, worth
        value = self.value_feeds(table, rows, now) if value is None else value
        return self.remember_price(take_best(rows, value, budget, self._rng), budget)
