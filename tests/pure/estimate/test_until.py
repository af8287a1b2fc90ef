"""When the next item is expected: estimators that tell at once agree with halving."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Ragged
from headwater.estimate import ESTIMATORS
from headwater.estimate.estimator import Estimator
from headwater.times import DAY

LONGEST = 31 * DAY
AT_ONCE = sorted(name for name, kind in ESTIMATORS.items() if kind.time_until is not Estimator.time_until)


@pytest.mark.parametrize("name", AT_ONCE)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), items=st.floats(0.01, 50))
def test_the_moment_told_at_once_is_the_one_that_halving_finds(name: str, seed: int, items: float) -> None:
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
    told = believed.time_until(rows, at, items, LONGEST)
    # Where nothing is expected for hours both ends of the gap are the answer; what is expected by then is not.
    reached = believed.expected(rows, at, at + told)
    sure = told < LONGEST
    np.testing.assert_allclose(reached[sure], items, rtol=2e-3, atol=2e-3)
    assert (reached[~sure] <= items + 1e-3).all()
    assert (told <= Estimator.time_until(believed, rows, at, items * 1.01 + 2e-3, LONGEST) + 1).all()
