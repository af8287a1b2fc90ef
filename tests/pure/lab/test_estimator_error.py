"""Divergence errors and daily models follow their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.estimate.models.fixed import FixedRate
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.estimator_error import (
    CYCLE_SECONDS,
    CYCLES_PER_DAY,
    average_day,
    draw_refreshes,
    expect_day,
    measure_error,
)


def test_refreshes_come_at_irregular_intervals_around_their_mean() -> None:
    plan = draw_refreshes(60_000, 1, 2.0, make_rng(1))
    gaps = np.diff(np.flatnonzero(plan[:, 0]))
    assert gaps.min() >= 1
    assert gaps.max() <= 23
    assert gaps.mean() == pytest.approx(12, rel=0.03)


def test_the_divergence_error_is_the_root_mean_square_over_a_group() -> None:
    rng = make_rng(2)
    counts = rng.poisson(0.7, (50, 4))
    plan = draw_refreshes(50, 4, 0.5, rng)
    groups = np.array([0, 0, 1, 1])
    rate = 0.5 / CYCLE_SECONDS
    found = measure_error(FixedRate(rate=rate), counts, plan, groups, warmup=10)
    waiting, age = np.zeros(4), np.zeros(4)
    errors: list[list[float]] = []
    for cycle in range(50):
        waiting += counts[cycle]
        age += 1
        if cycle >= 10:
            squared = (waiting - 0.5 * age) ** 2
            errors.append([np.sqrt(squared[:2].mean()), np.sqrt(squared[2:].mean())])
        waiting[plan[cycle]] = age[plan[cycle]] = 0
    assert found.divergence == pytest.approx(np.mean(errors, axis=0), rel=1e-5)


def test_the_reference_is_the_mean_day_of_the_week_before() -> None:
    counts = np.zeros((14 * CYCLES_PER_DAY, 2), dtype=np.int64)
    counts[7 * CYCLES_PER_DAY + 6 * 9, 0] = 14  # nine o'clock on the first day of the second week
    truth = average_day(counts, 2)
    assert truth.shape == (2, 24)
    assert truth[0, 9] == 2.0
    assert truth.sum() == 2.0
    assert average_day(counts, 1).sum() == 0.0


def test_a_daily_model_is_asked_hour_by_hour() -> None:
    assert expect_day(FixedRate(3, rate=2 / 3600), 3) == pytest.approx(np.full((3, 24), 2.0))
