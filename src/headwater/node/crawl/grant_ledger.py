"""Counts the grants of a leader: which wishes get a request, and what those that have ended spent.

Decides without a clock or a store of its own: `GrantDesk` runs it, and so does the simulation of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.node.crawl.spending import BudgetAccount
from headwater.store.request_grants import GrantRow


class GrantLedger:
    """The grants of one term."""

    def __init__(self, budget: BudgetAccount) -> None:
        self._budget = budget
        self._open: dict[int, float] = {}  # bytes reserved for the wishes that were granted in this term

    def end_grants(self, rows: Sequence[GrantRow], now: float) -> None:
        """Charge the requests of grants that are over. Their rows were removed, like those not listed any more."""
        listed = {row.id for row in rows}
        for row in rows:
            if row.is_over and row.is_granted and row.id not in self._open:  # by the previous leader
                self._budget.charge_inherited(now, 0)
        over = {row.id for row in rows if row.is_over}
        for id in [id for id in self._open if id in over or id not in listed]:
            reserved = self._open.pop(id)
            self._budget.charge_without_document(now, reserved, reserved)

    def choose_wishes(self, rows: Sequence[GrantRow], now: float) -> list[int]:
        """Reserve requests for as many wishes as the budget allows, oldest first, and return these wishes.

        A wish whose grant was not confirmed keeps its request: it may have been granted.
        """
        waiting = [row.id for row in rows if not (row.is_over or row.is_granted)]
        again, new = ([id for id in waiting if (id in self._open) is is_open] for is_open in (True, False))
        chosen = new[: self._budget.count_for_people(now)]
        for id in chosen:
            self._open[id] = self._budget.reserve_for_person(now)
        self._budget.people_waiting = len(new) - len(chosen)
        return [*again, *chosen]
