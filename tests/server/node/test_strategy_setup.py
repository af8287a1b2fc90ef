"""The strategy of the settings: `value` has the learned forecast unless another estimator is named."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.node.crawl.scheduler import build_configured_strategy
from headwater.schedule.registry import build_strategy
from headwater.schedule.strategy import Observed, Table
from headwater.settings import Settings
from headwater.times import DAY


@pytest.mark.parametrize(
    ("settings", "estimator"),
    [
        (Settings(), "forecast"),
        (Settings(strategy="value(loss=5)"), "forecast"),
        (Settings(estimator="bayes"), "bayes"),
        (Settings(strategy="value(estimator=bayes)"), "bayes"),
        (Settings(strategy="two_steps"), "single"),
    ],
    ids=str,
)
def test_value_has_the_learned_forecast_unless_another_estimator_is_named(settings: Settings, estimator: str) -> None:
    assert build_configured_strategy(settings).estimator.name == estimator


def test_the_state_of_a_server_without_the_forecast_is_continued() -> None:
    before = build_strategy("value", "bayes")
    before.resize(1)
    seen = Observed(*(np.array([number]) for number in (0, 0.0, DAY, 3.0, 20.0, False)))
    before.observe(Table.of(1, window=20.0), seen)
    after = build_configured_strategy(Settings())
    after.resize(1)
    after.load(before.save())
    one, start, end = np.array([0]), np.array([DAY]), np.array([2 * DAY])
    assert after.estimator.expected(one, start, end) == before.estimator.expected(one, start, end)
