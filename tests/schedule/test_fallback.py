"""A person's own strategy that breaks its contract: round robin takes over, says so, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headwater.estimate.base import HOUR
from headwater.schedule.base import Budget, Choice, Observed, Table
from headwater.schedule.explain import explain
from headwater.schedule.fallback import Guarded
from headwater.schedule.manners import Reason
from headwater.schedule.top_utility import TopUtility
from headwater.schedule.uniform import Uniform


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
def test_a_broken_answer_is_replaced_by_round_robin(answer: Callable[[], Any], says: str) -> None:
    guarded, table = Guarded(returning(answer)(4)), Table.of(4)
    table.last[:] = [4.0, 1.0, 3.0, 0.0]
    candidates = np.array([True, True, True, False])
    assert guarded.choose(table, 5.0, Budget(2), candidates).rows.tolist() == [1, 2]
    assert guarded.problem is not None
    assert says in guarded.problem
    assert "uniform has taken over" in guarded.explain(table, 0, 5.0).reason


def test_failing_to_learn_is_noticed_too_and_the_feeds_go_on() -> None:
    class Forgetful(Uniform):
        name = "forgetful"

        def observe(self, table: Table, seen: Observed) -> None:
            raise RuntimeError("no memory")

    guarded, table, one = Guarded(Forgetful(2)), Table.of(2), np.ones(1)
    guarded.observe(table, Observed(np.array([0]), one, 2 * one, one, one, one > 1))
    assert guarded.problem is not None
    guarded.resize(5)
    assert len(guarded.choose(Table.of(5), 9.0, Budget(5)).rows) == 5


def test_a_sound_strategy_is_left_alone() -> None:
    inner, table = TopUtility(3), Table.of(3)
    guarded = Guarded(inner)
    table.last[:] = 0.0
    table.divergence[:] = [1.0, 3.0, 2.0]
    assert guarded.choose(table, 2.0, Budget(2)).rows.tolist() == [1, 2]
    assert guarded.problem is None
    again = Guarded(TopUtility(0))
    again.load(guarded.save())
    assert len(again) == 3


def test_an_explanation_has_beliefs_value_price_and_manners() -> None:
    strategy, table = TopUtility(2), Table.of(2)
    table.last[:] = 0.0
    strategy.choose(table, 10 * HOUR, Budget(1))
    told = explain(strategy, table, 1, 10 * HOUR, (11 * HOUR, Reason.FRESH)).as_json()
    assert told["strategy"] == "top_utility"
    assert told["estimator"] == "single"
    assert told["manners"] == Reason.FRESH.said
    assert told["allowed_at"] == 11 * HOUR
    assert told["probably_at"] >= 11 * HOUR
    assert told["value"] == pytest.approx(told["price"])
    assert len(told["belief"]["daily"]) == 24
    assert len(told["belief"]["weekly"]) == 7
    assert 0 <= told["belief"]["chance_of_loss"] < 1
    table.last[0] = -np.inf
    assert explain(strategy, table, 0, 10 * HOUR).as_json()["value"] is None
