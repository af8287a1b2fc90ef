"""Strategies are built from names, and wrong names get a helpful message."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.errors import SettingsError
from headwater.estimate.models.smoothing import SingleRate
from headwater.schedule.guarded import GuardedStrategy
from headwater.schedule.registry import build_strategy
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategies.learned_interval import Fix1h
from headwater.schedule.strategies.round_robin import Uniform
from headwater.schedule.strategy import Table
from headwater.schedule.value.objective import NAMED_OBJECTIVES, Objective, parse_objective


class Nameless(Uniform):
    name = None  # type: ignore[assignment]


class Mine(Fix1h):
    name = "mine"


class Greedy(Uniform):
    name = "greedy"

    def choose(self, table, now, budget, candidates=None):  # type: ignore[no-untyped-def]
        return Choice(np.arange(min(budget.now, len(table))), np.zeros(min(budget.now, len(table))))


class Demanding(Uniform):
    name = "demanding"

    def __init__(self, feeds: int = 0, *, key: str) -> None:
        super().__init__(feeds)


class OutsideEstimator(SingleRate):
    name = "belief"


HERE = __name__


@pytest.mark.parametrize(
    ("strategy", "estimator", "says"),
    [
        ("valeu", None, "Did you mean value"),
        ("two_steps", "periodik", "Did you mean periodic"),
        ("uniform", "", "a name is missing"),
        ("fix_1h", "single", "takes no estimator"),
        ("value", "single", "accepts the estimator bayes"),
        ("combined", "single", "accepts the estimator pattern"),
        ("nowhere:Name", None, "cannot be imported"),
        (f"{HERE}:Missing", None, "has no Missing"),
        (f"{HERE}:OutsideEstimator", None, "is not a subclass of Strategy"),
        (f"{HERE}:Nameless", None, "has no name"),
        (f"{HERE}:Demanding", None, "cannot be created"),
    ],
)
def test_invalid_combinations_are_refused_with_a_message(strategy: str, estimator: str | None, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        build_strategy(strategy, estimator)


def test_built_in_strategies_are_bare_and_user_strategies_are_guarded() -> None:
    assert not isinstance(build_strategy("value"), GuardedStrategy)
    assert not isinstance(build_strategy("two_steps", "periodic"), GuardedStrategy)
    assert isinstance(build_strategy(f"{HERE}:Mine"), GuardedStrategy)
    assert isinstance(build_strategy("two_steps", f"{HERE}:OutsideEstimator"), GuardedStrategy)


def test_guarded_strategy_shows_name_due_times_and_forecasts_of_the_inner_one() -> None:
    guarded = build_strategy(f"{HERE}:Mine")
    guarded.resize(3)
    assert guarded.name == "mine"
    due = guarded.due
    assert due is not None
    due -= 5.0
    assert guarded.inner.due.tolist() == [-np.inf] * 3  # type: ignore[attr-defined]
    assert guarded.ask_estimator(lambda estimator: estimator.rate(np.arange(3), np.zeros(3))) is None
    believing = build_strategy("two_steps", f"{HERE}:OutsideEstimator")
    believing.resize(2)
    rates = believing.ask_estimator(lambda estimator: estimator.rate(np.arange(2), np.zeros(2)))
    assert rates is not None
    assert len(rates) == 2


def test_estimator_that_raises_ends_the_guarded_strategy_only() -> None:
    guarded = build_strategy("two_steps", f"{HERE}:OutsideEstimator")
    guarded.resize(2)
    assert guarded.ask_estimator(lambda estimator: 1 / 0) is None  # type: ignore[arg-type,return-value]
    assert guarded.problem is not None
    assert guarded.estimator is None
    assert len(guarded.choose(Table.of(2), 1.0, Budget(2)).rows) == 2


def test_user_strategy_may_ignore_hosts() -> None:
    guarded = build_strategy(f"{HERE}:Greedy")
    guarded.resize(4)
    budget = Budget(4, host=np.array([0, 0, 1, 1]), room=np.array([1, 2]))
    assert guarded.choose(Table.of(4), 0.0, budget).rows.tolist() == [0, 2, 3]
    assert guarded.problem is None


def test_only_value_takes_an_objective() -> None:
    made = build_strategy("value", objective=parse_objective("completeness=10,delay=2"))
    assert (made.loss, made.delay, made.freshness) == (10.0, 2.0, 0.0)  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="takes no objective"):
        build_strategy("uniform", objective=Objective())


@pytest.mark.parametrize("text", ["", "speed", "delay=fast", "delay=1;freshness=2", "delay=-1", "delay=nan", "delay=0"])
def test_invalid_objective_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="objective"):
        parse_objective(text)


def test_every_named_objective_can_be_written_as_weights() -> None:
    for word, objective in NAMED_OBJECTIVES.items():
        assert parse_objective(word) == parse_objective(str(objective)) == objective
