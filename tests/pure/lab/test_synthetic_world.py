"""Synthetic worlds have the rates, hours, bursts, changes and words of their settings."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.errors import TraceError
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.traces.synthetic_world import MONDAY, WorldSettings, draw_world
from headwater.times import DAY


def hours(times: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return np.bincount(((times % DAY) // 3600).astype(int), minlength=24) / len(times)


@pytest.mark.parametrize("burst", [1.0, 5.0])
@pytest.mark.parametrize("weekend", [1.0, 0.3])
def test_feeds_publish_at_their_rates_whatever_their_bursts_and_weekends(burst: float, weekend: float) -> None:
    world = draw_world(WorldSettings(feeds=60, days=56, burst=burst, weekend=weekend), make_rng(1))
    expected = world.rates.sum() * 56
    # The variance of a sum of geometric bursts of mean m is (2m − 1) times that of single items.
    assert abs(len(world.trace.times) - expected) < 4 * np.sqrt((2 * burst - 1) * expected)
    assert all((np.diff(world.trace.feed_times(feed)) >= 0).all() for feed in range(60))


def test_weekends_are_as_quiet_as_the_settings_say() -> None:
    world = draw_world(WorldSettings(feeds=100, days=28, weekend=0.25), make_rng(2))
    day = ((world.trace.times - MONDAY) // DAY).astype(int) % 7
    assert (day >= 5).sum() / 2 / ((day < 5).sum() / 5) == pytest.approx(0.25, rel=0.1)


def test_waves_sleep_at_night_peaks_have_silent_hours_and_uniform_neither() -> None:
    waves = hours(draw_world(WorldSettings(shape="waves"), make_rng(3)).trace.times)
    assert waves[14] > 2.5 * waves[2]
    one = draw_world(WorldSettings(feeds=1, low=50, shape="peaks", high=50), make_rng(3))
    assert (hours(one.trace.times) == 0).sum() >= 12
    flat = hours(draw_world(WorldSettings(shape="uniform"), make_rng(3)).trace.times)
    assert flat.max() < 1.1 * flat.min()


def test_after_a_change_feeds_have_other_rates() -> None:
    world = draw_world(WorldSettings(feeds=40, changes=(0.5,), low=5, high=50), make_rng(4))
    middle = MONDAY + 14 * DAY
    first = np.array([(world.trace.feed_times(k) < middle).sum() for k in range(40)]) / 14
    second = np.array([(world.trace.feed_times(k) >= middle).sum() for k in range(40)]) / 14
    assert np.corrcoef(first, world.rates)[0, 1] > 0.98
    assert abs(np.corrcoef(second, world.rates)[0, 1]) < 0.5


def test_a_power_law_gives_many_slow_feeds_and_few_fast_ones() -> None:
    world = draw_world(WorldSettings(feeds=3000, days=1, low=1 / 90, high=1000 / 90, exponent=0.78), make_rng(5))
    # P(x ≤ m) = (m^.22 − 1) / (1000^.22 − 1), so the median is 105 items in 90 days.
    assert np.median(world.rates * 90) == pytest.approx(105, rel=0.15)


def test_words_windows_and_dates_are_drawn_per_feed() -> None:
    world = draw_world(WorldSettings(feeds=300, words=10, windows=(10, 15, 25), undated=0.2), make_rng(6))
    titles = world.trace.titles
    assert titles is not None
    assert len(titles) == len(world.trace.times)
    assert {len(title.split()) for title in titles if title} == {1, 2}
    assert world.trace.windows is not None
    assert world.trace.dated is not None
    assert set(world.trace.windows.tolist()) == {10, 15, 25}
    assert (~world.trace.dated).mean() == pytest.approx(0.2, abs=0.08)


def test_the_same_seed_draws_the_same_world() -> None:
    settings = WorldSettings(feeds=20, burst=3, weekend=0.5, shape="mixed", changes=(0.3, 0.6), words=8)
    one, other = draw_world(settings, make_rng(7)), draw_world(settings, make_rng(7))
    assert (one.trace.times == other.trace.times).all()
    assert one.trace.titles == other.trace.titles
    assert len(draw_world(settings, make_rng(8)).trace.times) != len(one.trace.times)


@pytest.mark.parametrize(
    "wrong",
    [{"feeds": 0}, {"days": 0}, {"low": 5, "high": 1}, {"low": 0, "exponent": 1}, {"burst": 0.5}, {"changes": (1.5,)}],
)
def test_impossible_worlds_are_refused_with_a_sentence(wrong: dict[str, float]) -> None:
    with pytest.raises(TraceError, match=r"\.$"):
        WorldSettings(**wrong)  # type: ignore[arg-type]
