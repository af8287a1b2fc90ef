"""The plan derives the least budget for a target, the quality of other budgets, and targets of queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import SettingsError
from headwater.schedule.politeness.rules import Reason
from headwater.schedule.promise import Calibration, PlanInputs
from headwater.schedule.quality.deadlines import plan_deadlines
from headwater.schedule.quality.least_budget import find_budget_for_target, find_least_budget, quality_by_budget
from headwater.schedule.quality.overflow import DISPERSIONS
from headwater.schedule.quality.quality_target import QualityTarget
from headwater.schedule.quality.query_targets import QueryTarget, QueryTargetPlan, meet_query_targets, sample_feeds
from headwater.times import DAY, HOUR, MINUTE

RATES = np.geomspace(0.2, 200, 60) / DAY
WINDOWS, ONES = np.full(60, 20.0), np.ones(60)
INPUTS = PlanInputs.of(RATES, WINDOWS, ONES)


def make_bursty(inputs: PlanInputs, dispersion: float) -> PlanInputs:
    burst = np.zeros((len(inputs.beliefs), len(DISPERSIONS)))
    burst[:, int(np.argmax(dispersion <= DISPERSIONS))] = 1.0
    return replace(inputs, beliefs=replace(inputs.beliefs, burst=burst))


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
    assert target.measure_shortfall(found.completeness, found.freshness, found.delay) <= 1e-6
    less = INPUTS.without_thrift().plan_for(0.97 * found.requests_per_minute).promise()
    assert target.measure_shortfall(less.completeness, less.freshness, less.delay) > 0
    assert found.requests_per_minute == pytest.approx((60 / found.every).sum(), rel=0.01)


def test_the_delay_budget_is_near_the_closed_form_of_theorem_1() -> None:
    found = find_least_budget(QualityTarget(delay=2 * HOUR), RATES, np.full(60, 1e6), ONES)
    exact = np.sqrt(RATES).sum() ** 2 / (2 * 2 * HOUR * RATES.sum())
    assert found.requests_per_minute == pytest.approx(exact * 60, rel=0.02)


def test_unreachable_target_reports_the_best_quality_and_its_limit() -> None:
    found = find_least_budget(QualityTarget(delay=10.0), RATES, WINDOWS, ONES)
    assert not found.reached
    assert "No budget reaches the target" in found.message
    assert "mean delay 1 min" in found.message
    assert "no feed is polled twice within 2 min" in found.message


def test_hints_that_stand_in_the_way_are_named() -> None:
    limits = replace(INPUTS.constraints, earliest=np.full(60, HOUR), reason=np.full(60, int(Reason.FRESH), np.int8))
    found = find_budget_for_target(QualityTarget(delay=10 * MINUTE), replace(INPUTS, constraints=limits))
    assert not found.reached
    assert "servers ask for pauses of up to 1 h" in found.message


def test_batches_larger_than_the_window_are_named_as_a_floor_of_loss() -> None:
    """A server whose feeds publish in batches of which half is lost never promises completeness 1."""
    found = find_budget_for_target(QualityTarget(completeness=0.99), make_bursty(INPUTS, 45.0))
    assert not found.reached
    assert found.completeness is not None
    assert found.completeness < 0.9
    assert "more items come between two polls than a feed shows" in found.message
    (most,) = quality_by_budget(make_bursty(INPUTS, 45.0), [1e4])
    assert most.completeness == pytest.approx(found.completeness, abs=0.01)


def test_noticed_losses_count_against_every_prediction() -> None:
    """Half of the items are noticed as lost although the model predicted a twentieth."""
    inputs = make_bursty(INPUTS, 10.0)
    (plain,) = quality_by_budget(inputs, [1.0])
    noticed = replace(inputs, calibration=Calibration(lost=np.full(60, 10.0)))
    (corrected,) = quality_by_budget(noticed, [1.0])
    assert 1 - corrected.completeness > 5 * (1 - plain.completeness)
    found = find_budget_for_target(QualityTarget(completeness=plain.completeness), noticed, most=1.0)
    assert not found.reached


def test_insufficient_budget_reports_what_is_possible() -> None:
    found = find_least_budget(QualityTarget(delay=10 * MINUTE), RATES, WINDOWS, ONES, most=1.0)
    assert not found.reached
    assert found.requests_per_minute == 1.0
    assert "needs about" in found.message
    assert "possible is completeness" in found.message


@pytest.mark.parametrize("bad", [{}, {"completeness": 1.0}, {"freshness": 0.0}, {"delay": -1.0}])
def test_impossible_targets_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match="target"):
        QualityTarget(**bad)


def test_no_feeds_need_no_budget() -> None:
    none = np.empty(0)
    assert find_least_budget(QualityTarget(delay=60.0), none, none, none).requests_per_minute == 0


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 50.0))
def test_a_larger_budget_is_never_worse_and_never_overspent(seed: int, budget: float) -> None:
    rng = np.random.default_rng(seed)
    rates = 10 ** rng.uniform(-1, 2.5, 12) / DAY
    inputs = PlanInputs.of(rates, rng.integers(5, 60, 12).astype(float), 10 ** rng.uniform(-1, 1, 12))
    half, whole, twice = quality_by_budget(make_bursty(inputs, 2.6), [budget / 2, budget, 2 * budget])
    for less, more in ((half, whole), (whole, twice)):
        assert more.delay <= less.delay * 1.001
        assert more.completeness >= less.completeness - 1e-3
        assert more.used <= more.budget * 1.001


def test_there_is_no_curve_without_feeds() -> None:
    none = np.empty(0)
    assert quality_by_budget(PlanInputs.of(none, none, none), [1.0]) == []


# targets of queries

FEEDS = 60
EQUAL = PlanInputs.of(np.full(FEEDS, 1 / HOUR), np.full(FEEDS, 100.0), np.ones(FEEDS))


def plan_queries(target: QualityTarget, feeds: int = 6, budget: float = 3.0) -> QueryTargetPlan:
    wish = QueryTarget(target, np.arange(feeds), np.full(feeds, 0.5))
    (one,) = meet_query_targets([wish], EQUAL, budget)
    return one


def test_a_target_met_already_changes_nothing() -> None:
    one = plan_queries(QualityTarget(freshness=0.9))
    assert one.met
    assert one.times == 1


def test_a_harder_target_raises_the_worth_of_its_feeds_and_is_met() -> None:
    without, one = plan_queries(QualityTarget(freshness=0.9)), plan_queries(QualityTarget(freshness=0.999))
    assert one.met
    assert one.times > 1
    assert one.spent > without.spent
    assert (one.promise.freshness or 0) >= 0.999


def test_a_target_that_no_budget_meets_says_what_is_possible() -> None:
    bursty = make_bursty(PlanInputs.of(np.full(9, 1 / HOUR), np.full(9, 5.0), np.ones(9)), 25.0)
    wish = QueryTarget(QualityTarget(completeness=0.99), np.arange(3), np.ones(3))
    (one,) = meet_query_targets([wish], bursty, 10.0)
    assert not one.met
    assert one.problem.startswith("No budget brings completeness at least 99 %. Possible is completeness")
    assert "more items come between two polls than a feed shows" in one.problem


def test_a_target_that_no_budget_meets_does_not_starve_the_other_feeds() -> None:
    rates = np.append(100 / DAY, np.full(29, 5 / DAY))  # one feed loses items in bursts, however often it is polled
    burst = make_bursty(PlanInputs.of(rates, np.append(2.0, np.full(29, 20.0)), np.ones(30)), 5.0)
    wish = QueryTarget(QualityTarget(completeness=0.99), np.array([0]), np.ones(1))
    (one,) = meet_query_targets([wish], burst, 0.5)
    assert not one.met
    worth = np.append(one.times, np.ones(29))
    others = np.arange(1, 30)
    with_target, without = (
        made.promise(others, np.ones(29)).delay
        for made in (burst.value_feeds(worth).plan_for(0.5), burst.value_feeds(np.ones(30)).plan_for(0.5))
    )
    assert with_target is not None
    assert without is not None
    assert with_target < 1.3 * without


def test_a_target_beyond_the_budget_says_what_it_would_take() -> None:
    one = plan_queries(QualityTarget(freshness=0.9995), feeds=FEEDS, budget=3.0)
    assert not one.met
    assert "Cannot be met with 3 requests per minute" in one.problem
    assert "would take 30.0 requests per minute" in one.problem


def test_a_query_without_feeds_needs_nothing() -> None:
    wish = QueryTarget(QualityTarget(completeness=0.99), np.empty(0, np.intp), np.empty(0))
    (one,) = meet_query_targets([wish], EQUAL, 3.0)
    assert (one.times, one.spent) == (1.0, 0.0)


def test_a_sample_stands_for_many_feeds() -> None:
    rng = np.random.default_rng(2)
    rates = rng.exponential(1 / HOUR, 5_000)
    wish = QueryTarget(QualityTarget(freshness=0.99), np.arange(1_000), np.ones(1_000))
    rows, many, (small,) = sample_feeds([wish], rates)
    assert len(rows) == 700
    assert many.sum() == pytest.approx(5_000)
    assert many[small.rows].sum() == pytest.approx(1_000)
    assert (many[:, None] * rates[rows, None]).sum() == pytest.approx(rates.sum(), rel=0.02)


def test_a_deadline_within_every_pause_names_the_shortest_pause_and_never_the_share_asked_for() -> None:
    one, pause = np.ones(20), np.r_[np.full(19, 120.0), 960.0]
    late = plan_deadlines(60.0, one, 0 * one, one, one, pause, 60.0)
    assert "none of its feeds may be polled twice within 2 min. Possible is 47.8 % of the items" in late.message
    close = plan_deadlines(120.0, np.r_[np.full(19, 1.0), 1.2], 0 * one, one, one, pause, 60.0)
    assert not close.reached
    assert "servers ask for pauses of up to 16 min" in close.message
    assert "Possible is 94.8 %" in close.message  # less than the 95 that were asked for


def test_a_small_budget_keeps_deadlines_for_feeds_that_bring_something() -> None:
    """Six feeds bring 97 % of what a query keeps; the other twenty are unlikely to bring anything."""
    rate = np.r_[np.full(6, 10.0), np.full(20, 0.08)]
    one = np.ones(26)
    little = plan_deadlines(HOUR, rate, 0 * rate, one, one, 120 * one, 0.5, interval=HOUR * 2 * one)
    assert little.chosen.tolist() == [True] * 6 + [False] * 20
    assert little.reached
    ample = plan_deadlines(HOUR, rate, 0 * rate, one, one, 120 * one, 5.0, interval=HOUR * 2 * one)
    assert ample.chosen.all()


def test_items_that_come_in_time_without_a_deadline_count() -> None:
    """A feed that its server lets nobody poll within the hour brings a few items in time, and so do the rest."""
    rate, one = np.r_[np.full(10, 9.3), np.full(10, 0.2), 5.0], np.ones(21)
    pause = np.r_[np.full(20, 120.0), 3 * HOUR]
    found = plan_deadlines(HOUR, rate, 0 * rate, one, one, pause, 0.4, interval=np.full(21, 1.5 * HOUR))
    assert found.chosen.sum() == 10
    assert found.share == pytest.approx((93 + 2 * 0.75 / 1.5 + 5 / 3) / 100)
