"""What budgets buy: more never buys less, the budget is spent, and nothing that manners forbid is promised."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.schedule.quality.what_if import quality_by_budget

FEEDS = st.lists(st.tuples(st.floats(1e-7, 1e-2), st.integers(1, 100), st.floats(0.1, 10.0)), min_size=1, max_size=12)


@given(FEEDS, st.floats(0.01, 50.0))
@settings(max_examples=20, deadline=None)
def test_a_larger_budget_never_buys_less_and_none_is_overspent(
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


def test_a_budget_that_suffices_is_spent() -> None:
    rates, windows = np.array([1e-3, 1e-4, 1e-5]), np.full(3, 20.0)
    (one,) = quality_by_budget(rates, windows, np.ones(3), [0.3])
    assert abs(one.used - 0.3) < 0.01


def test_without_feeds_there_is_nothing_to_buy() -> None:
    assert quality_by_budget(np.empty(0), np.empty(0), np.empty(0), [1.0]) == []
