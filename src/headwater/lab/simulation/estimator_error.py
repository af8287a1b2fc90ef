"""Measures how well an estimator predicts the divergence of feeds refreshed at random moments (thesis 7.3.2).

Time runs in cycles of ten minutes. A feed is refreshed at irregular intervals, uniformly distributed around a mean; at
every cycle the estimated divergence is compared with the true one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats
from headwater.estimate.estimator import Estimator

CYCLE_SECONDS = 600.0
CYCLES_PER_DAY = 144  # cycles
ItemCounts = NDArray[np.int64]  # items by cycle and feed


def draw_refreshes(cycles: int, feeds: int, mean_hours: float, rng: np.random.Generator) -> Bools:
    """Draw which feeds are refreshed in which cycle: intervals are uniform from one cycle to twice the mean less
    one."""
    mean = max(round(mean_hours * 6), 1)
    plan = np.zeros((cycles, feeds), dtype=bool)
    for feed in range(feeds):
        steps = rng.integers(1, 2 * mean, size=2 * cycles // mean + 10)
        at = np.cumsum(steps) - 1
        plan[at[at < cycles], feed] = True
    return plan


@dataclass(frozen=True, slots=True)
class EstimatorErrors:
    """Errors of an estimator.

    `divergence` is eq. 7.4 (root mean square over the feeds of a group) averaged over the measured cycles; `models` has
    one row per week: the expected items per hour of the day at the end of that week.
    """

    divergence: Floats
    models: Floats


def measure_error(
    estimator: Estimator,
    counts: ItemCounts,
    plan: Bools,
    groups: NDArray[np.int64],
    warmup: int,
    weekly: bool = False,
    learn_until: int | None = None,
) -> EstimatorErrors:
    """Let an estimator learn from planned refreshes and measure its error by group of feeds.

    From the cycle `learn_until` on it learns no more (thesis 7.3.4).
    """
    cycles, feeds = counts.shape
    rows = np.arange(feeds)
    estimator.resize(feeds)
    published = counts.cumsum(0)
    read = np.zeros(feeds, dtype=np.int64)
    last = np.zeros(feeds)
    size = np.bincount(groups)
    total = np.zeros(len(size))
    models = []
    for cycle in range(cycles):
        now = (cycle + 1) * CYCLE_SECONDS
        waiting = published[cycle] - read
        if cycle >= warmup:
            believed = estimator.expected(rows, last, np.full(feeds, now))
            squared = np.bincount(groups, weights=(waiting - believed) ** 2)
            total += np.sqrt(squared / size)
        due = np.flatnonzero(plan[cycle])
        if len(due):
            none = np.zeros(len(due), dtype=bool)
            if learn_until is None or cycle < learn_until:
                estimator.observe(due, last[due], np.full(len(due), now), waiting[due].astype(float), none)
            read[due] = published[cycle, due]
            last[due] = now
        if weekly and (cycle + 1) % (7 * CYCLES_PER_DAY) == 0:
            models.append(expect_day(estimator, feeds))
    return EstimatorErrors(total / max(cycles - warmup, 1), np.array(models))


def expect_day(estimator: Estimator, feeds: int) -> Floats:
    """Return the items that every feed is expected to publish in each hour of a day: feeds × 24."""
    rows = np.repeat(np.arange(feeds), 24)
    start = np.tile(np.arange(24) * 3600.0, feeds)
    return estimator.expected(rows, start, start + 3600.0).reshape(feeds, 24)


def average_day(counts: ItemCounts, week: int) -> Floats:
    """Return the true items per hour of the day over the seven days before the end of a week: feeds × 24."""
    days = counts[(week - 1) * 7 * CYCLES_PER_DAY : week * 7 * CYCLES_PER_DAY].reshape(7, 24, 6, -1)
    return np.asarray(days.sum(2).mean(0).T)
