"""Replaces a user's strategy by round robin when it breaks its contract.

Nothing is lost: round robin needs only the times of the last refreshes, so it continues at once. The broken strategy is
not called again until it is replaced, but its state is still saved as long as that works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.errors import StrategyError
from headwater.estimate.estimator import Estimator
from headwater.schedule.selection import Budget, Choice, take_best
from headwater.schedule.strategies.round_robin import Uniform
from headwater.schedule.strategy import Decision, Observed, Strategy, Table

Returned = TypeVar("Returned")


class GuardedStrategy(Strategy):
    """Calls `inner` and checks its answers; after the first failure `uniform` decides, and `problem` says why.

    >>> class Broken(Uniform):
    ...     name = "broken"
    ...     def choose(self, table, now, budget, candidates=None):
    ...         raise ZeroDivisionError("division by zero")
    >>> guarded = GuardedStrategy(Broken(2))
    >>> guarded.choose(Table.of(2), 0.0, Budget(1)).rows.tolist()
    [0]
    >>> guarded.problem
    'The strategy “broken” failed while choosing (ZeroDivisionError: division by zero); uniform has taken over.'
    """

    name = "guarded"

    def __init__(self, inner: Strategy) -> None:
        super().__init__(0)
        self.inner = inner
        self.name = inner.name  # type: ignore[misc]  # it is shown and saved under the name of what it guards
        self._uniform = Uniform()
        self._problem: str | None = None
        self.resize(len(inner))

    @property
    def problem(self) -> str | None:
        return self._problem

    @property
    def estimator(self) -> Estimator | None:  # type: ignore[override]  # the inner one's, never our own
        return None if self._problem else self.inner.estimator

    @property
    def due(self) -> Floats | None:
        return self._call_inner("telling what is due", lambda: self.inner.due)

    def ready_at(self, table: Table, row: int) -> float:
        ready = self._call_inner("telling when a feed may be read", lambda: self.inner.ready_at(table, row))
        return -np.inf if ready is None else ready

    def ask_estimator(self, ask: Callable[[Estimator], Floats]) -> Floats | None:
        return self._call_inner("saying what it believes", lambda: self.inner.ask_estimator(ask))

    def note_change(self) -> None:
        self._call_inner("planning anew", lambda: self.inner.note_change())

    def resize(self, feeds: int) -> None:
        super().resize(feeds)
        if hasattr(self, "inner"):  # the base class calls this before `inner` is set
            self._call_inner("growing", lambda: self.inner.resize(feeds))

    def save(self) -> dict[str, Any]:
        try:
            return self.inner.save()
        except Exception as error:
            self._record_problem("saving its state", error)
            return self._uniform.save()

    def load(self, state: Mapping[str, Any]) -> None:
        try:
            self.inner.load(state)
        except StrategyError:
            raise  # state of another version: the caller discards it
        except Exception as error:
            self._record_problem("loading its state", error)
        super().resize(len(self.inner))

    def observe(self, table: Table, seen: Observed) -> None:
        self._call_inner("learning", lambda: self.inner.observe(table, seen))

    def observe_failures(self, table: Table, rows: Rows, at: Floats, failures: Rows) -> None:
        self._call_inner("hearing of failures", lambda: self.inner.observe_failures(table, rows, at, failures))

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        def choose_checked() -> Choice:
            choice = self.inner.choose(table, now, budget, None if candidates is None else candidates.copy())
            broken = find_breach(choice, table, budget, candidates, self.inner.within_budget)
            if broken:
                raise ValueError(broken)
            return (
                choice if budget.room is None else take_best(np.asarray(choice.rows), _value_by_order(choice), budget)
            )

        answer = self._call_inner("choosing", choose_checked)
        return answer if answer is not None else self._uniform.choose(table, now, budget, candidates)

    def why(self, table: Table, row: int, now: float) -> str:
        return self.explain(table, row, now).reason

    def reasons(self, table: Table, rows: Rows, now: float) -> list[str]:
        reasons = self._call_inner("explaining", lambda: self.inner.reasons(table, rows, now))
        return super().reasons(table, rows, now) if reasons is None else reasons

    def explain(self, table: Table, row: int, now: float) -> Decision:
        decision = self._call_inner("explaining", lambda: self.inner.explain(table, row, now))
        if decision is not None:
            return decision
        by_turn = self._uniform.explain(table, row, now)
        return Decision(f"{self.problem} {by_turn.reason}", by_turn.value, by_turn.price, by_turn.due)

    def _call_inner(self, doing: str, act: Callable[[], Returned]) -> Returned | None:
        if self._problem is not None:
            return None
        try:
            return act()
        except Exception as error:  # a user's code may raise anything
            self._record_problem(doing, error)
            return None

    def _record_problem(self, doing: str, error: Exception) -> None:
        if self._problem is None:
            what = f"{type(error).__name__}: {error}"
            self._problem = f"The strategy “{self.name}” failed while {doing} ({what}); uniform has taken over."


def _value_by_order(choice: Choice) -> Floats:
    """Return falling values, so that selecting by host room keeps the order of the choice."""
    return -np.arange(len(choice.rows), dtype=np.float64)


def find_breach(choice: Any, table: Table, budget: Budget, candidates: Bools | None, within_budget: bool) -> str | None:
    """Return the rule of the contract that a choice breaks, or None."""
    if not isinstance(choice, Choice):
        return f"it returned a {type(choice).__name__}, not a Choice"
    rows = np.asarray(choice.rows)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        return "its rows are not a line of whole numbers"
    if within_budget and len(rows) > max(budget.now, 0):
        return f"it chose {len(rows)} feeds with a budget of {budget.now}"
    if len(rows) and (rows.min() < 0 or rows.max() >= len(table)):
        return "it chose a row that does not exist"
    if len(np.unique(rows)) != len(rows):
        return "it chose a feed twice"
    if candidates is not None and not candidates[rows].all():
        return "it chose a feed that may not be refreshed now"
    return None
