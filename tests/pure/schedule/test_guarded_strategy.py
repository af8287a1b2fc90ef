"""A user's strategy that breaks its contract is replaced by round robin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headwater.schedule.guarded import GuardedStrategy
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategies.round_robin import Uniform
from headwater.schedule.strategies.two_steps import TopUtility
from headwater.schedule.strategy import Observed, Table


def returning(answer: Callable[[], Any]) -> type[Uniform]:
    class Own(Uniform):
        name = "own"

        def choose(self, *_: Any, **__: Any) -> Any:
            return answer()

    return Own


def rows(*numbers: int) -> Choice:
    return Choice(np.array(numbers), np.zeros(len(numbers)))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: None, "not a Choice"),
        (lambda: rows(0, 1, 2), "3 feeds with a budget of 2"),
        (lambda: rows(7), "does not exist"),
        (lambda: rows(-1), "does not exist"),
        (lambda: rows(1, 1), "twice"),
        (lambda: rows(3), "may not be refreshed"),
        (lambda: Choice(np.array([0.5]), np.zeros(1)), "whole numbers"),
    ],
)
def test_invalid_choice_is_replaced_by_round_robin(answer: Callable[[], Any], says: str) -> None:
    guarded, table = GuardedStrategy(returning(answer)(4)), Table.of(4)
    table.last[:] = [4.0, 1.0, 3.0, 0.0]
    candidates = np.array([True, True, True, False])
    assert guarded.choose(table, 5.0, Budget(2), candidates).rows.tolist() == [1, 2]
    assert guarded.problem is not None
    assert says in guarded.problem
    assert "uniform has taken over" in guarded.explain(table, 0, 5.0).reason


def test_failure_to_learn_is_noticed_and_polling_continues() -> None:
    class Forgetful(Uniform):
        name = "forgetful"

        def observe(self, table: Table, seen: Observed) -> None:
            raise RuntimeError("no memory")

    guarded, table, one = GuardedStrategy(Forgetful(2)), Table.of(2), np.ones(1)
    guarded.observe(table, Observed(np.array([0]), one, 2 * one, one, one, one > 1))
    assert guarded.problem is not None
    guarded.resize(5)
    assert len(guarded.choose(Table.of(5), 9.0, Budget(5)).rows) == 5


def test_valid_strategy_is_not_replaced() -> None:
    inner, table = TopUtility(3), Table.of(3)
    guarded = GuardedStrategy(inner)
    table.last[:] = 0.0
    table.divergence[:] = [1.0, 3.0, 2.0]
    assert guarded.choose(table, 2.0, Budget(2)).rows.tolist() == [1, 2]
    assert guarded.problem is None
    again = GuardedStrategy(TopUtility(0))
    again.load(guarded.save())
    assert len(again) == 3
