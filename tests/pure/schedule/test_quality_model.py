"""The model of quality: the least budget for a target, other budgets, and targets of queries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import SettingsError
from headwater.schedule.quality.least_budget import QualityTarget, find_least_budget
from headwater.schedule.quality.model import predict_quality
from headwater.schedule.quality.query_targets import QueryTarget, QueryTargetPlan, meet_query_targets
from headwater.schedule.quality.what_if import quality_by_budget
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


def test_unreachable_target_reports_the_best_quality() -> None:
    found = find_least_budget(QualityTarget(delay=10.0), RATES, WINDOWS, ONES)
    assert not found.reached
    assert "cannot be reached" in found.message
    assert "delay reaches 60 s at best" in found.message


def test_too_small_budget_reports_its_quality() -> None:
    found = find_least_budget(QualityTarget(delay=10 * MINUTE), RATES, WINDOWS, ONES, most=1.0)
    assert not found.reached
    assert found.requests_per_minute == 1.0
    assert found.delay > 10 * MINUTE
    assert "with 1 a completeness of" in found.message


@pytest.mark.parametrize("bad", [{"completeness": 1.2}, {"freshness": 0.0}, {"delay": -5.0}, {}])
def test_invalid_targets_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=r"target"):
        QualityTarget(**bad)


def test_no_feeds_need_nothing() -> None:
    none = np.empty(0)
    assert find_least_budget(QualityTarget(delay=60.0), none, none, none).requests_per_minute == 0


ANY_FEEDS = st.lists(
    st.tuples(st.floats(1e-7, 1e-2), st.integers(1, 100), st.floats(0.1, 10.0)), min_size=1, max_size=12
)


@given(ANY_FEEDS, st.floats(0.01, 50.0))
@settings(max_examples=20, deadline=None)
def test_larger_budget_never_buys_less_and_no_budget_is_exceeded(
    feeds: list[tuple[float, int, float]], budget: float
) -> None:
    rates, windows, weights = (np.array(column, np.float64) for column in zip(*feeds, strict=True))
    half, whole, twice = quality_by_budget(rates, windows, weights, [budget / 2, budget, 2 * budget], shortest=120.0)
    for less, more in ((half, whole), (whole, twice)):
        assert more.completeness >= less.completeness - 1e-6
        assert more.delay <= less.delay * (1 + 1e-6)
    least = len(feeds) * 60 / (31 * 86_400)  # each feed once in 31 days, whatever the budget
    for one in (half, whole, twice):
        assert one.used <= max(one.budget, least) * 1.02
        assert one.used <= len(feeds) * 0.5 + 1e-9  # no feed twice within two minutes
        assert 0 <= one.completeness <= 1


def test_sufficient_budget_is_spent() -> None:
    rates, windows = np.array([1e-3, 1e-4, 1e-5]), np.full(3, 20.0)
    (one,) = quality_by_budget(rates, windows, np.ones(3), [0.3])
    assert abs(one.used - 0.3) < 0.01


def test_no_feeds_give_no_prediction() -> None:
    assert quality_by_budget(np.empty(0), np.empty(0), np.empty(0), [1.0]) == []


FEEDS = 60
EQUAL_RATES, LARGE_WINDOWS, WEIGHTS = np.full(FEEDS, 0.001), np.full(FEEDS, 30.0), np.ones(FEEDS)


def plan_queries(target: QualityTarget, feeds: int = 6, budget: float = 3.0) -> QueryTargetPlan:
    wish = QueryTarget(target, np.arange(feeds), np.full(feeds, 0.5))
    (one,) = meet_query_targets([wish], EQUAL_RATES, LARGE_WINDOWS, WEIGHTS, budget)
    return one


def test_target_already_met_changes_nothing() -> None:
    one = plan_queries(QualityTarget(delay=36_000.0))
    assert one.met
    assert one.times == 1.0


def test_query_target_raises_the_weight_of_its_feeds_until_it_is_met() -> None:
    without, one = plan_queries(QualityTarget(delay=36_000.0)), plan_queries(QualityTarget(delay=200.0))
    assert without.delay > 200.0
    assert one.met
    assert 150.0 < one.delay <= 200.0  # met with little to spare
    assert one.times > 1
    assert one.spent > without.spent


def test_unreachable_query_target_reports_the_best_quality() -> None:
    one = plan_queries(
        QualityTarget(completeness=0.99, delay=61.0), feeds=FEEDS
    )  # of all feeds: no feed can count before others
    assert not one.met
    assert one.delay > 61.0
    assert one.spent == pytest.approx(3.0, rel=0.01)
    assert one.times == 1.0


def test_many_feeds_are_predicted_from_a_sample() -> None:
    many = 5_000
    chance = np.random.default_rng(1)
    rates = chance.lognormal(-7, 1, many)
    wish = QueryTarget(QualityTarget(delay=3_600.0), np.arange(1_000), np.ones(1_000))
    (one,) = meet_query_targets([wish], rates, np.full(many, 30.0), np.ones(many), 60.0)
    assert one.met
    assert one.spent < 60.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.floats(120.0, 1e5)), min_size=1, max_size=4))
def test_query_targets_stay_within_the_budget_and_report_correctly_whether_they_are_met(
    wanted: list[tuple[int, float]],
) -> None:
    wishes = [QueryTarget(QualityTarget(delay=delay), np.arange(at, at + 10), np.full(10, 0.3)) for at, delay in wanted]
    for (_, delay), one in zip(
        wanted, meet_query_targets(wishes, EQUAL_RATES, LARGE_WINDOWS, WEIGHTS, 3.0), strict=True
    ):
        assert one.met == (one.delay <= delay)
        assert one.spent <= 3.0 * 1.001
        assert one.times >= 1.0
