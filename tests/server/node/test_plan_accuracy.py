"""The plan's predictions against what came, with hints, faults, shared hosts and bursts, from 36 hours on."""

from __future__ import annotations

import pytest

from headwater.schedule.promise import Promise
from headwater.times import HOUR
from support.publisher_world import Comparison, World, make_mixed_publishers


def compare_day(seed: int, budget: float, feeds: int) -> tuple[Promise, Comparison]:
    """Return what was forecast after 36 hours for the next day, and what came."""
    world = World(make_mixed_publishers(seed, feeds, 61), budget, seed)
    world.run(36 * HOUR)
    forecast, world.compared = world.predict(), Comparison()
    world.run(24 * HOUR)
    assert world.broken_words() == []
    return forecast, world.compared


def test_the_delay_of_what_came_was_predicted_within_fifteen_per_cent_pooled_over_seeds() -> None:
    runs = [compare_day(seed, 0.5, 24) for seed in (2, 3)]
    pooled = sum((came for _, came in runs), Comparison())
    assert pooled.caught > 500
    assert pooled.quoted_delay == pytest.approx(pooled.delay, rel=0.15)
    for said, came in runs:  # twice the standard deviation is the doubt that is shown
        assert said.delay is not None
        assert said.completeness is not None
        assert abs(said.delay - came.delay) <= 2 * (said.delay_doubt or 0.0)
        assert abs(said.completeness - came.completeness) <= 2 * (said.completeness_doubt or 0.0)
