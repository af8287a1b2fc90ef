"""The compiled look-up of running sums and the one by numpy agree to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.estimate.models.smoothing import PeriodicRate
from headwater.estimate.slot_rates import WORTH_COMPILING, items_between, running_items
from headwater.numba_support import NUMBA_AVAILABLE
from headwater.times import DAY, WEEK


@pytest.mark.skipif(not NUMBA_AVAILABLE, reason="numba is not installed")
@pytest.mark.parametrize(("slots", "period"), [(1, DAY), (24, DAY), (168, WEEK)])
def test_compiled_and_by_numpy_the_same_items_are_expected(slots: int, period: float) -> None:
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
