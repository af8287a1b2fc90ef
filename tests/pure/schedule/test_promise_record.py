"""Promises are judged only with enough items, and a verdict never contradicts the counts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headwater.schedule.quality.promise_record import (
    MIN_ITEMS,
    PromiseCounts,
    describe_measured,
    describe_period,
    judge_promise,
    measure_quality,
)
from headwater.schedule.quality.quality_target import QualityTarget

COUNTS = st.builds(
    lambda got, lost, dated, in_time, waited: PromiseCounts(
        got, lost, min(dated, got), min(in_time, dated, got), waited, waited / 20, 86_400.0
    ),
    st.integers(0, 2000),
    st.floats(0, 500),
    st.integers(0, 2000),
    st.integers(0, 2000),
    st.floats(0, 1e6),
)
TARGETS = st.builds(
    QualityTarget, st.floats(0.5, 0.999), st.none() | st.floats(0.5, 0.999), st.none() | st.floats(1, 1e5)
)


@given(TARGETS, COUNTS, st.booleans())
def test_too_few_items_are_never_a_kept_promise(target: QualityTarget, counts: PromiseCounts, deadline: bool) -> None:
    measured = measure_quality(counts)
    kept = judge_promise(target, measured, deadline=deadline)
    if measured.items < MIN_ITEMS:
        assert kept is None or kept is False  # the counted items may break freshness or delay
    if kept:
        assert target.completeness is not None
        assert measured.completeness is not None
        assert measured.completeness >= target.completeness


@given(TARGETS, COUNTS, st.integers(1, 300))
def test_a_lost_item_never_mends_a_promise(target: QualityTarget, counts: PromiseCounts, more: int) -> None:
    only = replace(target, freshness=None, delay=None)
    before = judge_promise(only, measure_quality(counts), deadline=True)
    after = judge_promise(only, measure_quality(counts + PromiseCounts(lost=float(more))), deadline=True)
    assert not (before is False and after is True)


@given(COUNTS, COUNTS)
def test_periods_add_up(one: PromiseCounts, other: PromiseCounts) -> None:
    both = measure_quality(one + other)
    assert abs(both.items - measure_quality(one).items - measure_quality(other).items) <= 1
    assert both.completeness is None or 0 <= both.completeness <= 1
    assert both.freshness is None or 0 <= both.freshness <= 1


def test_without_items_no_figure_is_told() -> None:
    nothing = measure_quality(PromiseCounts(watched=3600.0))
    assert (nothing.completeness, nothing.freshness, nothing.delay, nothing.in_time) == (None, None, None, None)
    assert describe_period(nothing) == "nothing published"
    assert describe_measured(QualityTarget(delay=60.0), nothing, deadline=True) == "nothing published"
    undated = measure_quality(PromiseCounts(got=30))
    assert describe_measured(QualityTarget(delay=60.0), undated, deadline=True) == "no dates on 30 items"
