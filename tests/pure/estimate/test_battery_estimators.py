"""Runs the same checks on every registered estimator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Ragged
from headwater.errors import StrategyError
from headwater.estimate import ESTIMATORS
from headwater.estimate.estimator import Estimator
from headwater.estimate.feed_columns import FeedColumns
from headwater.estimate.models.smoothing import PeriodicRate
from headwater.estimate.slot_rates import WORTH_COMPILING, items_between, running_items
from headwater.numba_support import NUMBA_AVAILABLE
from headwater.times import DAY, HOUR, WEEK

EPOCH = 20_000 * DAY + 5 * HOUR
FEEDS = 6

every = pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in ESTIMATORS.items()])
Call = tuple[Any, ...]


@lru_cache(maxsize=256)
def history(seed: int, rounds: int = 12, feeds: int = FEEDS) -> list[Call]:
    """Make refreshes of feeds with different rates: first windows, empty answers, overflows, with and without dates.

    All estimators learn from the same history; none may change it.
    """
    rng = np.random.default_rng(seed)
    rate = rng.choice([0.0, 0.02, 0.5, 4.0, 60.0], feeds) / HOUR
    last, now, calls = np.full(feeds, -np.inf), EPOCH, []
    for _ in range(rounds):
        now += float(rng.choice([120.0, HOUR, 7 * HOUR, 3 * DAY]))
        rows = np.flatnonzero(rng.random(feeds) < 0.7)
        span = np.where(np.isfinite(last[rows]), now - last[rows], 4 * DAY)
        count = np.minimum(rng.poisson(rate[rows] * span), 10)
        shown = [np.sort(now - rng.random(n) * s) for n, s in zip(count, span, strict=True)]
        dated = rng.random() < 0.7
        offsets = np.concatenate([[0], np.cumsum(count)]).astype(np.intp)
        published = Ragged(offsets, np.concatenate([*shown, np.empty(0)])) if dated else None
        calls.append((rows, last[rows].copy(), np.full(len(rows), now), count.astype(float), count >= 10, published))
        last[rows] = now
    return calls


def teach(kind: type[Estimator], calls: list[Call], feeds: int = FEEDS) -> Estimator:
    estimator = kind(feeds)
    for call in calls:
        estimator.observe(*call)
    return estimator


def forecast_all(estimator: Estimator) -> np.ndarray:
    rows = np.arange(len(estimator))
    start = np.full(len(rows), EPOCH + 90 * DAY)
    spans = [0.0, 60.0, 1800.0, HOUR, 5.3 * HOUR, DAY, 9.7 * DAY]
    methods: list[Callable[..., Any]] = [estimator.expected, estimator.delay]
    return np.array([[method(rows, start, start + span) for span in spans] for method in methods])


@every
def test_answers_before_it_has_learned_anything(kind: type[Estimator]) -> None:
    forecasts = forecast_all(kind(3))
    assert np.isfinite(forecasts).all()
    assert (forecasts[0, -1] > 0).all(), "a feed nobody knows may publish"


@every
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_is_never_negative_never_nan_and_grows_with_the_interval(kind: type[Estimator], seed: int) -> None:
    expected, delay = forecast_all(teach(kind, history(seed)))
    assert np.isfinite(expected).all()
    assert np.isfinite(delay).all()
    assert (np.diff(expected, axis=0) >= -1e-9 * (1 + expected[1:])).all()
    assert (expected[0] == 0).all()
    assert (delay >= 0).all()


@every
def test_delay_lies_between_zero_and_all_items_waiting_from_the_start(kind: type[Estimator]) -> None:
    estimator = teach(kind, history(3))
    rows = np.arange(FEEDS)
    start = np.full(FEEDS, EPOCH + 40 * DAY + 1234.0)
    for span in (600.0, 5 * HOUR, 3.2 * DAY):
        expected = estimator.expected(rows, start, start + span)
        delay = estimator.delay(rows, start, start + span)
        assert (delay <= expected * span * (1 + 1e-5) + 1e-9).all()
        # The exact integrals and the default sum must agree with a fine sum.
        cuts = np.array([estimator.expected(rows, start, start + span * k / 400) for k in range(401)])
        assert delay == pytest.approx(np.trapezoid(cuts, axis=0) * span / 400, rel=0.02, abs=1e-6)


@every
def test_expectations_of_adjoining_intervals_add_up(kind: type[Estimator]) -> None:
    estimator = teach(kind, history(4))
    rows, a = np.arange(FEEDS), np.full(FEEDS, EPOCH + 40 * DAY)
    b, c = a + 5000.0, a + 2.3 * DAY
    parts = estimator.expected(rows, a, b) + estimator.expected(rows, b, c)
    assert parts == pytest.approx(estimator.expected(rows, a, c), rel=1e-4)


@every
def test_memory_is_bounded(kind: type[Estimator]) -> None:
    estimator = kind(FEEDS)
    before = estimator.bytes_per_feed
    for call in history(5, rounds=200):
        estimator.observe(*call)
    assert estimator.bytes_per_feed == before


@every
def test_two_estimators_share_no_state(kind: type[Estimator]) -> None:
    one, other = kind(FEEDS), kind(FEEDS)
    before = forecast_all(other)
    for call in history(6):
        one.observe(*call)
    assert np.array_equal(forecast_all(other), before)
    assert not any(np.shares_memory(a, b) for a, b in pair_arrays(one, other))


def pair_arrays(one: FeedColumns, other: FeedColumns) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return every array of one with its counterpart, those of adopted parts included."""
    pairs = [(one._shared[key], other._shared[key]) for key in one._shared]
    pairs += [(one._columns[key], other._columns[key]) for key in one._columns]
    return pairs + [pair for key in one._parts for pair in pair_arrays(one._parts[key], other._parts[key])]


@every
def test_the_order_of_rows_does_not_matter(kind: type[Estimator]) -> None:
    rng = np.random.default_rng(6)
    calls = history(6)
    moved = rng.permutation(FEEDS)  # feed f lives in row moved[f]
    shuffled = []
    for rows, start, end, new, saturated, published in calls:
        order = rng.permutation(len(rows))
        dates = published.take(order) if published is not None else None
        shuffled.append((moved[rows[order]], start[order], end[order], new[order], saturated[order], dates))
    assert forecast_all(teach(kind, shuffled))[:, :, moved] == pytest.approx(forecast_all(teach(kind, calls)), rel=1e-5)


@every
def test_does_not_change_its_inputs(kind: type[Estimator]) -> None:
    estimator = kind(FEEDS)
    for call in copy.deepcopy(history(7)):
        copies = [np.copy(a) if isinstance(a, np.ndarray) else a for a in call]
        estimator.observe(*call)
        for a, b in zip(call, copies, strict=True):
            if isinstance(a, np.ndarray):
                assert np.array_equal(a, b)
    rows, start = np.arange(FEEDS), np.full(FEEDS, EPOCH)
    end = start + DAY
    estimator.expected(rows, start, end)
    assert (start == EPOCH).all()
    assert (end == EPOCH + DAY).all()


@every
def test_is_the_same_after_saving_and_loading(kind: type[Estimator]) -> None:
    calls = history(8, rounds=20)
    whole = teach(kind, calls[:10])
    state = whole.save()
    again = kind(1)
    again.load(state)
    assert len(again) == FEEDS
    for call in calls[10:]:
        whole.observe(*call)
        again.observe(*call)
    assert np.array_equal(forecast_all(whole), forecast_all(again))
    untouched = kind(0)
    untouched.load(state)
    assert not np.array_equal(forecast_all(untouched), forecast_all(whole)) or kind.name in ("fixed", "learned_once")


@every
def test_resizing_keeps_state(kind: type[Estimator]) -> None:
    estimator = teach(kind, history(9))
    before = forecast_all(estimator)
    for feeds in (FEEDS + 1, FEEDS + 2, FEEDS + 40):
        estimator.resize(feeds)
    after = forecast_all(estimator)
    assert np.array_equal(after[:, :, :FEEDS], before)
    fresh = after[:, :, FEEDS:]
    assert np.isfinite(fresh).all()
    assert np.ptp(fresh, axis=2) == pytest.approx(0.0, abs=1e-9), "all new feeds are alike"
    if not estimator._shared:  # estimators that pool over feeds let new ones profit from the old ones
        assert fresh == pytest.approx(forecast_all(kind(42))[:, :, :40], rel=1e-6)
    estimator.resize(3)
    assert len(estimator) == FEEDS + 40


@every
def test_state_of_another_version_or_shape_is_refused_and_changes_nothing(kind: type[Estimator]) -> None:
    estimator = teach(kind, history(10))
    before, good = forecast_all(estimator), estimator.save()
    wrong = [
        good | {"_class": np.array(f"{kind.name}/999")},
        {key: value for key, value in good.items() if key != "_class"},
        good | {"_feeds": np.array(FEEDS + 1)},
        {},
    ]
    for state in wrong:
        with pytest.raises(StrategyError, match="start without it"):
            estimator.load(state)
        assert np.array_equal(forecast_all(estimator), before)


@every
def test_an_empty_call_and_no_feeds_are_fine(kind: type[Estimator]) -> None:
    none = np.empty(0)
    for estimator in (kind(), kind(4)):
        estimator.observe(np.empty(0, np.intp), none, none, none, none > 0)
        assert len(estimator.expected(np.empty(0, np.intp), none, none)) == 0


@every
def test_has_a_formula_a_source_and_an_example(kind: type[Estimator]) -> None:
    assert kind.__doc__ is not None
    assert ">>>" in kind.__doc__


@pytest.mark.parametrize("kind", [kind for kind in ESTIMATORS.values() if kind.name != "fixed"])  # fixed does not learn
def test_a_busier_feed_is_expected_to_bring_more(kind: type[Estimator]) -> None:
    """Every estimator that learns separates two feeds, one ten times as busy, after forty refreshes with dates."""
    estimator, rng = kind(2), np.random.default_rng(11)
    rows, last, rate = np.arange(2), np.full(2, -np.inf), np.array([0.2, 2.0]) / HOUR
    for k in range(40):
        now = EPOCH + k * 4 * HOUR
        span = 4 * HOUR if k else 2 * DAY
        dates = [np.sort(now - rng.random(rng.poisson(r * span)) * span) for r in rate]
        counts = np.array([len(d) for d in dates])
        ragged = Ragged(np.concatenate([[0], np.cumsum(counts)]).astype(np.intp), np.concatenate(dates))
        estimator.observe(rows, last.copy(), np.full(2, now), counts.astype(float), counts > 100, ragged)
        last[:] = now
    quiet, busy = estimator.expected(rows, last, last + 10 * DAY) / (10 * DAY)
    assert busy > 3 * quiet
    assert busy == pytest.approx(rate[1], rel=0.6)


LONGEST = 31 * DAY
CLOSED_FORM = sorted(name for name, kind in ESTIMATORS.items() if kind.time_until is not Estimator.time_until)


@pytest.mark.parametrize("name", CLOSED_FORM)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), items=st.floats(0.01, 50))
def test_closed_form_of_time_until_equals_bisection(name: str, seed: int, items: float) -> None:
    rng = np.random.default_rng(seed)
    believed, rows = ESTIMATORS[name](3), np.arange(3)
    start = np.full(3, -np.inf)
    for day in range(1, 6):
        end = 1.7e9 + day * DAY + rng.uniform(0, DAY / 2, 3)
        many = rng.integers(0, 6, 3)
        span = np.where(np.isfinite(start), start, end - 5 * DAY)
        times = [np.sort(rng.uniform(low, high, n)) for low, high, n in zip(span, end, many, strict=True)]
        dates = Ragged(np.concatenate([[0], np.cumsum(many)]), np.concatenate(times))
        believed.observe(rows, start, end, many.astype(float), np.zeros(3, bool), dates)
        start = end
    at = start + rng.uniform(0, DAY, 3)
    waits = believed.time_until(rows, at, items, LONGEST)
    # If nothing is expected for hours, any time in that gap is right, so the expected items are compared.
    reached = believed.expected(rows, at, at + waits)
    sure = waits < LONGEST
    np.testing.assert_allclose(reached[sure], items, rtol=2e-3, atol=2e-3)
    assert (reached[~sure] <= items + 1e-3).all()
    assert (waits <= Estimator.time_until(believed, rows, at, items * 1.01 + 2e-3, LONGEST) + 1).all()


@pytest.mark.skipif(not NUMBA_AVAILABLE, reason="numba is not installed")
@pytest.mark.parametrize(("slots", "period"), [(1, DAY), (24, DAY), (168, WEEK)])
def test_numba_and_numpy_expect_the_same_items(slots: int, period: float) -> None:
    chunk = range(0, 2 * WORTH_COMPILING, 500)
    rng, feeds = np.random.default_rng(slots), 3 * WORTH_COMPILING
    upto = np.cumsum(rng.exponential(1.0, (feeds, slots)), axis=1).astype(np.float32)
    lines = rng.permutation(feeds)
    start = 1.7e9 + rng.uniform(0, 3 * WEEK, feeds)
    start[:100] = np.floor(start[:100] / DAY) * DAY  # on the edge of a slot
    end = start + rng.exponential(DAY, feeds)
    by_numpy = np.maximum(running_items(upto, lines, period, end) - running_items(upto, lines, period, start), 0.0)
    assert items_between(upto, lines, period, start, end).tolist() == by_numpy.tolist()
    estimator = PeriodicRate(feeds, slots=slots, period=period)
    estimator.load({**estimator.save(), "upto": upto})
    waited = estimator.delay(lines, start, end)
    few = np.concatenate([estimator.delay(lines[k : k + 500], start[k : k + 500], end[k : k + 500]) for k in chunk])
    np.testing.assert_allclose(waited[: len(few)], few, rtol=1e-9, atol=1e-6)
    assert items_between(upto, lines[:5], period, start[:5], end[:5]).tolist() == by_numpy[:5].tolist()
