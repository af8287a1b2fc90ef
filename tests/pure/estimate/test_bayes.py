"""`bayes` learns rates, shapes and changes, with and without dates."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from headwater.arrays import Ragged
from headwater.estimate.models.bayes import Bayes, expect_given_at_least
from headwater.estimate.models.week_rhythm import WeekRhythm, to_own_time
from headwater.times import DAY

ROW, NO, YES = np.array([0]), np.array([False]), np.array([True])


def one(x: float) -> np.ndarray:
    return np.array([x])


def feed_days(estimator: Bayes, per_day: float, days: range, dated: bool = True) -> None:
    for day in days:
        times = (day + (np.arange(per_day) + 0.5) / per_day) * DAY if per_day else np.empty(0)
        published = Ragged(np.array([0, len(times)]), times) if dated else None
        estimator.observe(ROW, one(day * DAY), one((day + 1) * DAY), one(len(times)), NO, published)


def tomorrow(estimator: Bayes, day: int) -> float:
    return float(estimator.expected(ROW, one(day * DAY), one((day + 1) * DAY))[0])


@pytest.mark.parametrize("dated", [True, False])
def test_a_steady_feed_is_learned_with_and_without_dates(dated: bool) -> None:
    estimator = Bayes(1, shaped=False)
    feed_days(estimator, 4, range(60), dated)
    assert tomorrow(estimator, 60) == pytest.approx(4.0, rel=0.05)


def test_a_burst_is_expected_to_go_on_for_a_while_and_then_to_end() -> None:
    estimator = Bayes(1, shaped=False)
    feed_days(estimator, 1, range(60))
    feed_days(estimator, 20, range(60, 61))
    assert tomorrow(estimator, 61) > 4.0
    assert tomorrow(estimator, 68) < 2.5


def test_own_time_stands_nearly_still_at_night_and_a_week_has_seven_days() -> None:
    rhythm = WeekRhythm(1)
    noons = np.arange(200) * DAY + DAY / 2
    rhythm.learn(ROW, np.zeros(200, dtype=np.intp), noons, np.zeros(1))
    rhythm.update_shapes()
    clocks = rhythm.clocks(ROW)
    at = to_own_time(clocks, np.zeros(3, dtype=np.intp), np.array([0.0, DAY / 4, 7 * DAY]))
    assert at[1] - at[0] < 0.1
    assert at[2] - at[0] == pytest.approx(7.0)


def weeks(rng: np.random.Generator, days: Sequence[int], hour: float, items: int) -> np.ndarray:
    """Return times over ten weeks from a Thursday on: on some days of the week, around an hour."""
    day = rng.choice(np.array(days), items) + 7 * rng.integers(0, 10, items)
    return np.sort((day + (hour + rng.normal(0, 1, items)) / 24) * DAY)


def test_feed_with_few_items_has_the_week_of_its_kind() -> None:
    """Thirty offices publish on weekdays at ten, thirty clubs at weekends at ten; then each kind gains a newcomer."""
    rng = np.random.default_rng(8)
    rhythm = WeekRhythm(62)
    weekdays, weekends = (0, 1, 4, 5, 6), (2, 3)
    for turn in range(25):
        for kind, days in enumerate((weekdays, weekends)):
            rows = np.arange(30) + 30 * kind
            moments = weeks(rng, days, 10.0, 300)
            rhythm.learn(rows, rng.integers(0, 30, 300), moments, np.full(30, 7.0 if turn else 0.0))
        rhythm.update_shapes()
    for row, days in ((60, weekdays), (61, weekends)):
        rhythm.learn(np.array([row]), np.zeros(6, np.intp), weeks(rng, days, 10.0, 6), np.zeros(1))
    office, club = (np.diff(line[::48]) for line in rhythm.clocks(np.array([60, 61])))
    assert office[list(weekends)].max() < 0.2 * office[list(weekdays)].min()
    assert club[list(weekdays)].max() < 0.2 * club[list(weekends)].min()


def test_share_in_a_kind_does_not_depend_on_other_rows() -> None:
    rng = np.random.default_rng(9)
    rhythm = WeekRhythm(7)
    rhythm.learn(np.arange(7), rng.integers(0, 7, 90), rng.uniform(0, 30 * DAY, 90), np.zeros(7))
    rhythm.update_shapes()
    together = rhythm.clocks(np.arange(7))
    alone = np.concatenate([rhythm.clocks(np.array([row])) for row in range(7)])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(rhythm.kind_shares(np.arange(7)).sum(1), 1.0)


def test_numba_and_numpy_compute_the_same_clocks() -> None:
    pytest.importorskip("numba")
    rhythm, rng = WeekRhythm(5), np.random.default_rng(2)
    owner = np.repeat(np.arange(5), 30)
    rhythm.learn(np.arange(5), owner, rng.uniform(0, 50 * DAY, 150), np.zeros(5))
    rhythm.update_shapes()
    rows = np.array([4, 0, 2])
    np.testing.assert_allclose(rhythm.clocks(rows, fast=True), rhythm.clocks(rows, fast=False), rtol=1e-9)


def test_after_an_overflow_only_the_span_shown_was_observed() -> None:
    """With twenty items in the last two hours of a day, the 22 hours before were not quiet but unobserved."""
    times = 6 * DAY - np.arange(20)[::-1] * 360.0 - 1.0
    forecasts = []
    for full in (YES, NO):
        seen = Bayes(1, shaped=False, trusting=False)
        feed_days(seen, 1, range(5))
        seen.observe(ROW, one(5 * DAY), one(6 * DAY), one(20.0), full, Ragged(np.array([0, 20]), times))
        forecasts.append(float(seen.expected(ROW, one(6 * DAY), one(6 * DAY + 3600))[0]))
    assert forecasts[0] > 1.3 * forecasts[1]


def test_a_short_window_that_often_overflows_does_not_lower_the_rate() -> None:
    """A window of two at five items an hour: the hours in which it did not overflow alone would say two."""
    rng, seen = np.random.default_rng(4), Bayes(1, shaped=False)
    times = np.sort(rng.uniform(0, 30 * DAY, 30 * 120))
    for hour in range(30 * 24):
        new = times[(times >= hour * 3600) & (times < (hour + 1) * 3600)][-2:]
        full = np.array([len(new) == 2])
        seen.observe(
            ROW, one(hour * 3600), one((hour + 1) * 3600), one(len(new)), full, Ragged(np.array([0, len(new)]), new)
        )
    assert tomorrow(seen, 30) == pytest.approx(120.0, rel=0.15)


def test_a_full_window_without_dates_is_a_lower_bound() -> None:
    mean = np.array([5.0, 10.0, 40.0])
    expectations = expect_given_at_least(np.full(3, 10.0), mean)
    assert expectations[0] == pytest.approx(10.8, abs=0.3)
    assert expectations[2] == pytest.approx(40.0, abs=0.1)
    blind, knowing = (Bayes(1, shaped=False, trusting=False, prior=(1.0, 0.5)) for _ in range(2))
    for day in range(40):
        for estimator, full in ((blind, NO), (knowing, YES)):
            estimator.observe(ROW, one(day * DAY), one((day + 1) * DAY), one(10.0), full)
    assert tomorrow(knowing, 40) > 1.15 * tomorrow(blind, 40)


def test_a_lasting_change_resets_the_slow_memory() -> None:
    slow, quick = (
        Bayes(1, scales=(100.0,), doubts=(), prior=(1.0, 0.5), shaped=False, trusting=False, dispersion=1.0, reset=h)
        for h in (np.inf, 4.0)
    )
    for estimator in (slow, quick):
        feed_days(estimator, 2, range(100), dated=False)
        feed_days(estimator, 12, range(100, 106), dated=False)
    assert tomorrow(quick, 106) > 8.0
    assert tomorrow(slow, 106) < 4.0


def test_observed_items_correct_the_forecast_of_all_feeds_of_a_rate() -> None:
    """The rate of feeds that fall silent is estimated too high for months; the common correction learns that."""
    feeds = 200
    rows = np.arange(feeds)
    trusting, naive = Bayes(feeds, shaped=False), Bayes(feeds, shaped=False, trusting=False)
    rng = np.random.default_rng(5)
    for day in range(250):
        new = np.where(day < 10, rng.poisson(2.0, feeds), 0).astype(float)
        for estimator in (trusting, naive):
            estimator.observe(rows, np.full(feeds, day * DAY), np.full(feeds, (day + 1) * DAY), new, new < 0)
    start, end = np.full(feeds, 250 * DAY), np.full(feeds, 251 * DAY)
    assert trusting.expected(rows, start, end).sum() < 0.7 * naive.expected(rows, start, end).sum()


def test_dates_after_the_refresh_count_as_now() -> None:
    estimator = Bayes(1, shaped=False)
    estimator.observe(ROW, one(0.0), one(DAY), one(2.0), NO, Ragged(np.array([0, 2]), np.array([100.0, 9e9])))
    assert 0 < tomorrow(estimator, 1) < 20


def test_numba_is_imported_only_by_the_lab() -> None:
    """Importing numba takes a second or two, which every command would pay."""
    program = "import sys, headwater.cli.main, headwater.schedule; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
