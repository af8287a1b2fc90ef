"""Sample feeds and unequal costs: the effects that the experiments report show up in small worlds."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.lab.experiments import costs, scouts
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.traces.synthetic_world import WorldSettings
from headwater.schedule.strategies.resource_allocation import allocate_for_delay


def test_a_scout_pays_where_all_items_are_common_and_not_where_none_are() -> None:
    def delay(policy: str, share: float) -> float:
        return scouts.run_world(policy, share, 0, groups=3, days=6.0)["mean_delay_s"]

    assert delay("scout", 1.0) < 0.7 * delay("alone", 1.0)
    assert delay("scout", 0.0) > 0.9 * delay("alone", 0.0)


def test_a_strategy_that_knows_the_costs_gets_more_for_the_same() -> None:
    world = WorldSettings(feeds=40, days=10.0, low=0.5, high=20.0)
    blind, aware = (costs.run_world("independent", "allocation", knows, 0, world) for knows in (False, True))
    assert abs(blind["cost"] - aware["cost"]) < 0.1
    assert aware["mean_delay_s"] < 0.95 * blind["mean_delay_s"]
    assert aware["requests"] > blind["requests"]


def test_windows_and_rates_reach_the_experiments() -> None:
    world = WorldSettings(feeds=20, days=9.0, low=5.0, high=40.0)
    usual = costs.run_world("independent", "allocation", False, 0, world)
    assert (
        costs.run_world("independent", "allocation", False, 0, world, window=3)["completeness"] < usual["completeness"]
    )
    assert costs.run_world("independent", "allocation", False, 0, world, cost=2.0)["requests"] > 1.5 * usual["requests"]
    few, many = (scouts.run_world("alone", 0.5, 0, 2, 6.0, per_day=rate)["requests"] for rate in (3.0, 6.0))
    assert many > 1.5 * few


def test_gains_carry_the_interval_over_worlds() -> None:
    check = costs.check_gains({"independent": {"value": [0.1, 0.2, 0.3]}})[0]
    assert check.holds
    assert check.figures["gain"] == pytest.approx(0.2)
    assert check.intervals["gain"] == pytest.approx(4.30 * 0.1 / 3**0.5)  # Student's t with two degrees of freedom
    few = scouts.check_gains({0.0: [-0.1, 0.0], 0.25: [0.01, 0.01], 0.75: [0.2, 0.2], 1.0: [0.6, 0.6]})
    assert [one.holds for one in few] == [True, True, True]
    assert few[2].intervals.keys() == {"at 0", "at 0.25"}


def test_costs_have_the_mean_of_an_ordinary_refresh() -> None:
    rates = np.linspace(0.5, 20.0, 500)
    for relation in costs.RELATIONS:
        drawn = costs.draw_costs(rates, relation, np.random.default_rng(1))
        assert abs(drawn.mean() - 1) < 1e-9
    assert np.corrcoef(np.log(rates), np.log(drawn))[0, 1] > 0.4


@pytest.mark.parametrize(("readers", "saved"), [(1, 0.063), (2, 0.030), (5, 0.012), (20, 0.003)])
def test_grades_of_trust_even_out_among_readers(readers: int, saved: float) -> None:
    """The table of decision 0435: what knowing the mean grade of each feed saves of the weighted mean delay."""
    grades = make_rng(0, 1).integers(1, 6, (100_000, readers)).mean(1)
    rates = np.ones(len(grades))
    known, unknown = (allocate_for_delay(rates, weights, len(rates)) for weights in (grades, rates))
    assert 1 - (grades / known).sum() / (grades / unknown).sum() == pytest.approx(saved, abs=0.001)
