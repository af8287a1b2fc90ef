"""Target mode: the least budget for a wanted quality, or a plain no."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.errors import SettingsError
from headwater.schedule.quality.least_budget import QualityTarget, find_least_budget
from headwater.schedule.quality.model import predict_quality
from headwater.times import DAY, HOUR, MINUTE

RATES = np.geomspace(0.2, 200, 60) / DAY
WINDOWS, ONES = np.full(60, 20.0), np.ones(60)


@pytest.mark.parametrize(
    "target",
    [
        QualityTarget(completeness=0.99),
        QualityTarget(freshness=0.97),
        QualityTarget(delay=HOUR),
        QualityTarget(completeness=0.999, delay=2 * HOUR),
    ],
)
def test_the_budget_found_reaches_the_target_and_a_little_less_does_not(target: QualityTarget) -> None:
    found = find_least_budget(target, RATES, WINDOWS, ONES)
    assert found.reached, found.message
    c, f, d = predict_quality(RATES, WINDOWS, ONES, found.every)
    assert c >= (target.completeness or 0) - 1e-6
    assert f >= (target.freshness or 0) - 1e-6
    assert d <= (target.delay or np.inf) * 1.001
    assert found.requests_per_minute == pytest.approx((60 / found.every).sum())
    c, f, d = predict_quality(RATES, WINDOWS, ONES, found.every * 1.05)
    assert c < (target.completeness or 0) or f < (target.freshness or 0) or d > (target.delay or np.inf)


def test_the_delay_budget_is_the_closed_form_of_theorem_1() -> None:
    found = find_least_budget(QualityTarget(delay=2 * HOUR), RATES, WINDOWS, ONES)
    exact = np.sqrt(RATES).sum() ** 2 / (2 * 2 * HOUR * RATES.sum())
    assert found.requests_per_minute == pytest.approx(exact * 60, rel=1e-3)


def test_for_completeness_it_costs_less_than_even_intervals() -> None:
    found = find_least_budget(QualityTarget(completeness=0.98), RATES, WINDOWS, ONES)
    even = np.full(60, 60 * 60.0 / found.requests_per_minute)
    assert predict_quality(RATES, WINDOWS, ONES, even)[0] < 0.98


def test_what_cannot_be_reached_is_said_with_what_can() -> None:
    found = find_least_budget(QualityTarget(delay=10.0), RATES, WINDOWS, ONES)
    assert not found.reached
    assert "cannot be reached" in found.message
    assert "delay reaches 60 s at best" in found.message


def test_a_budget_that_is_too_small_is_said_with_what_it_brings() -> None:
    found = find_least_budget(QualityTarget(delay=10 * MINUTE), RATES, WINDOWS, ONES, most=1.0)
    assert not found.reached
    assert found.requests_per_minute == 1.0
    assert found.delay > 10 * MINUTE
    assert "with 1 a completeness of" in found.message


@pytest.mark.parametrize("bad", [{"completeness": 1.2}, {"freshness": 0.0}, {"delay": -5.0}, {}])
def test_targets_that_contradict_themselves_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=r"target"):
        QualityTarget(**bad)


def test_no_feeds_need_nothing() -> None:
    none = np.empty(0)
    assert find_least_budget(QualityTarget(delay=60.0), none, none, none).requests_per_minute == 0
