"""The plan's predictions against what came, with hints, faults, shared hosts and bursts, from 36 hours on."""

from __future__ import annotations

import pytest

from headwater.schedule.promise import Promise
from headwater.times import DAY, HOUR
from support.publisher_world import Comparison, World, make_mixed_publishers


def compare_days(seed: int, budget: float, feeds: int, days: int) -> list[tuple[Promise, Comparison]]:
    """Return what was forecast after 36 hours, and each day after, for the next day, and what came."""
    world = World(make_mixed_publishers(seed, feeds, 37 + 24 * days), budget, seed)
    world.run(36 * HOUR)
    found = []
    for _ in range(days):
        forecast, world.compared = world.predict(), Comparison()
        world.run(DAY)
        found.append((forecast, world.compared))
    assert world.broken_words() == []
    return found


def is_completeness_within_doubt(said: Promise, came: Comparison) -> bool:
    """Return whether completeness came within twice the standard deviation, the doubt that is shown."""
    assert said.completeness is not None
    return abs(said.completeness - came.completeness) <= 2 * (said.completeness_doubt or 0.0)


def test_what_came_was_predicted_pooled_over_seeds() -> None:
    runs = [day for seed in (2, 3) for day in compare_days(seed, 0.5, 24, 1)]
    pooled = sum((came for _, came in runs), Comparison())
    assert pooled.caught > 500
    assert pooled.quoted_delay == pytest.approx(pooled.delay, rel=0.15)
    assert all(is_completeness_within_doubt(*run) for run in runs)


@pytest.mark.soak
@pytest.mark.parametrize("budget", [0.125, 0.25, 0.5, 1.0, 2.0, 4.0])
def test_what_came_was_predicted_at_six_budgets(budget: float) -> None:
    runs = [day for seed in range(301, 309) for day in compare_days(seed, budget, 24, 2)]
    pooled = sum((came for _, came in runs), Comparison())
    assert pooled.quoted_delay == pytest.approx(pooled.delay, rel=0.15)
    assert pooled.quoted_completeness == pytest.approx(pooled.completeness, abs=0.01)
    within = [is_completeness_within_doubt(*run) for run in runs]  # the delay was only in 27 of 32 (decision 0260)
    assert sum(within) >= 0.95 * len(within)
