"""Losses are estimated without bias for steady feeds and for batches; beforehand a lost batch counted as hundreds."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.novelty import estimate_lost_items
from headwater.times import DAY, HOUR


def publish(per_day: float, batch: float, days: float) -> np.ndarray:
    """Return the dates of a Poisson process of batches, each within two minutes."""
    rng = np.random.default_rng(7)
    moments = rng.uniform(0, days * DAY, rng.poisson(per_day / batch * days))
    if batch > 1:
        moments = np.repeat(moments, rng.geometric(1 / batch, len(moments)))
        moments += rng.uniform(0, 120.0, len(moments))
    return np.sort(moments)


@pytest.mark.parametrize(
    ("window", "per_day", "batch", "gap"),
    [
        (20, 200, 1, 3 * HOUR),
        (20, 200, 4, 2 * HOUR),
        (20, 50, 12, HOUR / 4),
        (20, 50, 12, HOUR),
        (20, 50, 12, 4 * HOUR),
        (10, 20, 4, HOUR),
        (2, 115, 1, HOUR),
        (5, 200, 1, HOUR),
    ],
)
def test_losses_are_estimated_without_bias(window: int, per_day: float, batch: float, gap: float) -> None:
    times = publish(per_day, batch, 400)
    polls = np.arange(0.0, 400 * DAY, gap)
    upto = np.searchsorted(times, polls)
    lost = estimated = 0.0
    for k in np.flatnonzero(np.diff(upto) >= window).tolist():
        shown = times[upto[k + 1] - window : upto[k + 1]].tolist()
        estimated += estimate_lost_items(shown, polls[k], polls[k + 1], per_day / DAY)
        lost += upto[k + 1] - upto[k] - window
    assert lost > 100
    assert estimated == pytest.approx(lost, rel=0.25)


def test_items_older_than_the_last_refresh_tell_of_no_loss() -> None:
    assert estimate_lost_items([10.0, 20.0, 30.0], last=40.0, now=50.0, rate=1.0) == 0.0
