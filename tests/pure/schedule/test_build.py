"""Names become a strategy that can run, or a sentence that says why not."""

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


class Belief(SingleRate):
    name = "belief"


HERE = __name__


@pytest.mark.parametrize(
    ("strategy", "estimator", "says"),
    [
        ("valeu", None, "Did you mean value"),
        ("two_steps", "periodik", "Did you mean periodic"),
        ("uniform", "", "no estimator called"),
        ("fix_1h", "single", "takes no estimator"),
        ("value", "single", "accepts the estimator bayes"),
        ("combined", "single", "accepts the estimator pattern"),
        ("nowhere:Name", None, "cannot be imported"),
        (f"{HERE}:Missing", None, "has no Missing"),
        (f"{HERE}:Belief", None, "is not a subclass of Strategy"),
        (f"{HERE}:Nameless", None, "has no name"),
        (f"{HERE}:Demanding", None, "cannot be created"),
    ],
)
def test_what_cannot_be_built_is_refused_in_words(strategy: str, estimator: str | None, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        build_strategy(strategy, estimator)


def test_our_own_are_bare_and_a_persons_own_are_guarded() -> None:
    assert not isinstance(build_strategy("value"), GuardedStrategy)
    assert not isinstance(build_strategy("two_steps", "periodic"), GuardedStrategy)
    assert isinstance(build_strategy(f"{HERE}:Mine"), GuardedStrategy)
    assert isinstance(build_strategy("two_steps", f"{HERE}:Belief"), GuardedStrategy)


def test_a_guarded_strategy_shows_the_name_the_due_times_and_the_beliefs_of_what_it_guards() -> None:
    guarded = build_strategy(f"{HERE}:Mine")
    guarded.resize(3)
    assert guarded.name == "mine"
    due = guarded.due
    assert due is not None
    due -= 5.0
    assert guarded.inner.due.tolist() == [-np.inf] * 3  # type: ignore[attr-defined]
    assert guarded.ask_estimator(lambda estimator: estimator.rate(np.arange(3), np.zeros(3))) is None
    believing = build_strategy("two_steps", f"{HERE}:Belief")
    believing.resize(2)
    rates = believing.ask_estimator(lambda estimator: estimator.rate(np.arange(2), np.zeros(2)))
    assert rates is not None
    assert len(rates) == 2


def test_beliefs_that_raise_are_the_end_of_a_guarded_strategy_and_of_nothing_else() -> None:
    guarded = build_strategy("two_steps", f"{HERE}:Belief")
    guarded.resize(2)
    assert guarded.ask_estimator(lambda estimator: 1 / 0) is None  # type: ignore[arg-type,return-value]
    assert guarded.problem is not None
    assert guarded.estimator is None
    assert len(guarded.choose(Table.of(2), 1.0, Budget(2)).rows) == 2


def test_a_persons_own_strategy_need_not_know_of_hosts() -> None:
    guarded = build_strategy(f"{HERE}:Greedy")
    guarded.resize(4)
    budget = Budget(4, host=np.array([0, 0, 1, 1]), room=np.array([1, 2]))
    assert guarded.choose(Table.of(4), 0.0, budget).rows.tolist() == [0, 2, 3]
    assert guarded.problem is None


def test_the_dial_reaches_value_and_nobody_else() -> None:
    made = build_strategy("value", objective=parse_objective("completeness=10,delay=2"))
    assert (made.loss, made.delay, made.freshness) == (10.0, 2.0, 0.0)  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="takes no objective"):
        build_strategy("uniform", objective=Objective())


@pytest.mark.parametrize("text", ["", "speed", "delay=fast", "delay=1;freshness=2", "delay=-1", "delay=nan", "delay=0"])
def test_an_objective_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="objective"):
        parse_objective(text)


def test_every_word_of_the_dial_is_an_objective_that_can_be_written_out() -> None:
    for word, objective in NAMED_OBJECTIVES.items():
        assert parse_objective(word) == parse_objective(str(objective)) == objective
