"""Wishes of quality on one budget: met where they can be, and by no more than it takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.schedule.quality.least_budget import QualityTarget
from headwater.schedule.quality.query_targets import QueryTarget, QueryTargetPlan, meet_query_targets

FEEDS = 60
RATES, WINDOWS, WEIGHTS = np.full(FEEDS, 0.001), np.full(FEEDS, 30.0), np.ones(FEEDS)


def asked(target: QualityTarget, feeds: int = 6, budget: float = 3.0) -> QueryTargetPlan:
    wish = QueryTarget(target, np.arange(feeds), np.full(feeds, 0.5))
    (one,) = meet_query_targets([wish], RATES, WINDOWS, WEIGHTS, budget)
    return one


def test_a_wish_that_is_met_anyway_changes_nothing() -> None:
    one = asked(QualityTarget(delay=36_000.0))
    assert one.met
    assert one.times == 1.0


def test_a_wish_makes_its_feeds_count_more_until_it_is_met() -> None:
    without, one = asked(QualityTarget(delay=36_000.0)), asked(QualityTarget(delay=200.0))
    assert without.delay > 200.0
    assert one.met
    assert 150.0 < one.delay <= 200.0  # and not much more than that
    assert one.times > 1
    assert one.spent > without.spent


def test_a_wish_that_cannot_be_met_says_what_can() -> None:
    one = asked(
        QualityTarget(completeness=0.99, delay=61.0), feeds=FEEDS
    )  # of all feeds: no feed can count before others
    assert not one.met
    assert one.delay > 61.0
    assert one.spent == pytest.approx(3.0, rel=0.01)
    assert one.times == 1.0


def test_many_feeds_are_judged_by_a_sample_of_them() -> None:
    many = 5_000
    chance = np.random.default_rng(1)
    rates = chance.lognormal(-7, 1, many)
    wish = QueryTarget(QualityTarget(delay=3_600.0), np.arange(1_000), np.ones(1_000))
    (one,) = meet_query_targets([wish], rates, np.full(many, 30.0), np.ones(many), 60.0)
    assert one.met
    assert one.spent < 60.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.floats(120.0, 1e5)), min_size=1, max_size=4))
def test_wishes_never_spend_more_than_there_is_and_say_truly_whether_they_are_met(
    wanted: list[tuple[int, float]],
) -> None:
    wishes = [QueryTarget(QualityTarget(delay=delay), np.arange(at, at + 10), np.full(10, 0.3)) for at, delay in wanted]
    for (_, delay), one in zip(wanted, meet_query_targets(wishes, RATES, WINDOWS, WEIGHTS, 3.0), strict=True):
        assert one.met == (one.delay <= delay)
        assert one.spent <= 3.0 * 1.001
        assert one.times >= 1.0
