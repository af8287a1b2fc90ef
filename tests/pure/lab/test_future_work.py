"""Sample feeds and unequal costs: the effects that the experiments report show up in small worlds."""

from __future__ import annotations

import numpy as np

from headwater.lab.experiments import costs, scouts
from headwater.lab.traces.synthetic_world import WorldSettings


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


def test_costs_have_the_mean_of_an_ordinary_refresh() -> None:
    rates = np.linspace(0.5, 20.0, 500)
    for relation in costs.RELATIONS:
        drawn = costs.draw_costs(rates, relation, np.random.default_rng(1))
        assert abs(drawn.mean() - 1) < 1e-9
    assert np.corrcoef(np.log(rates), np.log(drawn))[0, 1] > 0.4
