"""The papers' equations, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headwater.arrays import Ragged
from headwater.errors import SettingsError
from headwater.estimate.clustering import kmeans
from headwater.estimate.estimator import Estimator, estimate_first_rate
from headwater.estimate.models.cluster_pattern import ClusterPattern
from headwater.estimate.models.hour_histogram import HourlyRate, PostRate
from headwater.estimate.models.likelihood import Likelihood, log_likelihood_gradient, maximise_likelihood
from headwater.estimate.models.mean_gap import LearnedOnce, MovingAverage, compute_mean_gap
from headwater.estimate.models.smoothing import AdaptiveSmoothing, HybridRate, PeriodicRate, SingleRate
from headwater.estimate.poisson import expect_shown, poisson_pmf, poisson_tail
from headwater.times import DAY, HOUR

ROW, NO = np.array([0]), np.array([False])


def at(*times: float) -> np.ndarray:
    return np.array(times)


def dates(*times: float) -> Ragged:
    return Ragged(np.array([0, len(times)]), np.array(times))


def test_thesis_7_2_smooths_the_rate() -> None:
    e = SingleRate(1, alpha=0.3, rate=2.0)
    e.observe(ROW, at(10.0), at(14.0), at(20.0), NO)
    assert e.expected(ROW, at(14.0), at(15.0)) == pytest.approx([0.3 * 20 / 4 + 0.7 * 2])  # 2.9
    e.observe(ROW, at(14.0), at(24.0), at(0.0), NO)
    assert e.expected(ROW, at(24.0), at(34.0)) == pytest.approx([20.3])


def test_thesis_7_3_spreads_new_items_in_proportion_to_what_was_expected() -> None:
    """Slots of 10 with rates 1, 3, 1, 1; refreshed from 5 to 25: 5·1 + 10·3 + 5·1 = 40 expected, 60 came, α = .5."""
    e = PeriodicRate(1, slots=4, period=40.0, alpha=0.5, rate=1.0)
    e.set_slots(ROW, np.array([[10.0, 30.0, 10.0, 10.0]]))
    assert e.expected(ROW, at(5.0), at(25.0)) == pytest.approx([40.0])
    e.observe(ROW, at(5.0), at(25.0), at(60.0), NO)
    # λ_j ← .5·λ_j/40·60 + .5·λ_j = 1.25·λ_j where touched
    assert e.per_slot(ROW)[0] == pytest.approx([12.5, 37.5, 12.5, 10.0])


def test_the_periodic_divergence_wraps_round_the_period() -> None:
    e = PeriodicRate(1, slots=2, period=20.0)
    e.set_slots(ROW, np.array([[10.0, 40.0]]))
    assert e.expected(ROW, at(15.0), at(45.0)) == pytest.approx([20 + 10 + 40 + 5])
    # ∫Div from 15 to 25: slope 4 for five seconds, then slope 1: ½·4·25 + 20·5 + ½·1·25
    assert e.delay(ROW, at(15.0), at(25.0)) == pytest.approx([162.5])


def test_a_week_of_hours_differs_from_a_day_of_hours() -> None:
    e = PeriodicRate(1, slots=168, period=7 * DAY, alpha=1.0)
    monday = 4 * DAY  # the epoch was a Thursday
    e.observe(ROW, at(monday), at(monday + HOUR), at(50.0), NO)
    assert e.expected(ROW, at(monday + 7 * DAY), at(monday + 7 * DAY + HOUR)) == pytest.approx([50.0], rel=1e-5)
    assert e.expected(ROW, at(monday + 8 * DAY), at(monday + 8 * DAY + HOUR))[0] < 1


def test_the_hybrid_follows_the_model_that_erred_less() -> None:
    e = HybridRate(1, alpha=1.0, slots=2, period=20.0, rate=1.0)
    for k in range(6):
        e.observe(ROW, at(10.0 * k), at(10.0 * k + 10), at(30.0 if k % 2 == 0 else 0.0), NO)
    assert e.expected(ROW, at(60.0), at(70.0)) == pytest.approx([30.0], rel=1e-3)  # periodic; single says 0
    for k in range(6, 12):
        e.observe(ROW, at(10.0 * k), at(10.0 * k + 10), at(7.0), NO)
    assert e.expected(ROW, at(120.0), at(130.0)) == pytest.approx([7.0])


def test_a_hybrid_may_compare_the_mean_of_several_errors() -> None:
    last, mean = (HybridRate(1, alpha=1.0, slots=2, period=20.0, rate=1.0, errors=errors) for errors in (1, 4))
    for e in (last, mean):
        for k in range(8):  # a pattern that periodic knows, then one interval in which single errs less
            e.observe(ROW, at(10.0 * k), at(10.0 * k + 10), at(30.0 if k % 2 == 0 else 0.0), NO)
        e.observe(ROW, at(80.0), at(90.0), at(1.0), NO)
    periodic = last.expected(ROW, at(90.0), at(100.0))
    assert mean.expected(ROW, at(90.0), at(100.0)) == pytest.approx([0.0], abs=1e-3)
    assert periodic == pytest.approx([1.0])
    with pytest.raises(SettingsError, match="errors must be at least 1"):
        HybridRate(1, errors=0)


def test_smoothing_falls_while_errors_are_steady_and_rises_when_they_grow() -> None:
    e = AdaptiveSmoothing(
        1, alpha=0.2, rate=1.0, shrink=0.5, grow=2.0, n1=2, n2=4, lowest=0.05, highest=0.4, unstable=1
    )
    for _ in range(6):
        e.observe(ROW, at(0.0), at(10.0), at(10.0), NO)
    assert e.alpha(ROW) == pytest.approx([0.05])  # bounded below
    for k in range(8):
        e.observe(ROW, at(0.0), at(10.0), at(100.0 * 3**k), NO)
    assert e.alpha(ROW) == pytest.approx([0.4])  # bounded above


def test_smoothing_control_needs_a_short_and_a_long_memory() -> None:
    with pytest.raises(SettingsError, match="n1 must be less than n2"):
        AdaptiveSmoothing(1, n1=5, n2=5)
    with pytest.raises(SettingsError, match="n3 must be at least 1"):
        AdaptiveSmoothing(1, n3=0)
    with pytest.raises(SettingsError, match="single or periodic"):
        AdaptiveSmoothing(1, inner="bayes")


def test_urbansky_eq_1_is_the_mean_gap_of_the_first_window() -> None:
    assert compute_mean_gap(dates(0.0, 60.0, 240.0), 1) == pytest.approx([120.0])
    e = LearnedOnce(2)
    two = Ragged(np.array([0, 3, 4]), at(0.0, 60.0, 240.0, 5.0))
    e.observe(np.arange(2), np.full(2, -np.inf), np.full(2, 300.0), at(3.0, 1.0), np.zeros(2, bool), two)
    assert e.expected(np.arange(2), np.zeros(2), np.full(2, HOUR)) == pytest.approx([30.0, 1.0])  # one date: an hour
    e.observe(ROW, at(300.0), at(400.0), at(2.0), NO, dates(301.0, 302.0))
    assert e.expected(ROW, at(0.0), at(HOUR)) == pytest.approx([30.0]), "never changed again"


def simulate_smoothing(estimator: Estimator, rates: np.ndarray) -> float:
    """Refresh Poisson feeds every hour and return the error of eq. 7.4 after 50 refreshes; `rates` is hours × feeds."""
    rng, (hours, feeds) = np.random.default_rng(7), rates.shape
    rows, total = np.arange(feeds), 0.0
    first = Ragged(np.arange(feeds + 1) * 2, np.column_stack([-HOUR / rates[0], np.zeros(feeds)]).ravel())
    estimator.observe(rows, np.full(feeds, -np.inf), np.zeros(feeds), np.full(feeds, 2.0), rows < 0, first)
    for hour in range(hours):
        start, end = np.full(feeds, hour * HOUR), np.full(feeds, (hour + 1) * HOUR)
        new = rng.poisson(rates[hour]).astype(float)
        if hour >= 50:
            total += float(np.sqrt(np.mean((new - estimator.expected(rows, start, end)) ** 2)))
        estimator.observe(rows, start, end, new, rows < 0)
    return total / (hours - 50)


def test_smoothing_becomes_slower_on_stable_feeds() -> None:
    e = AdaptiveSmoothing(100)
    simulate_smoothing(e, np.full((300, 100), 20.0))
    assert e.alpha(np.arange(100)).mean() < 0.09  # it began at .1
    truth = e.expected(np.arange(100), np.zeros(100), np.full(100, HOUR)) / 20.0
    assert np.sqrt(np.mean((truth - 1) ** 2)) < 0.07


@pytest.mark.parametrize("inner", ["single", "periodic"])
@pytest.mark.parametrize("items", [0.05, 0.2, 1, 20])
def test_smoothing_becomes_slower_on_stable_feeds_however_slow_they_are(items: float, inner: str) -> None:
    """Four silent refreshes, and an item after twenty of them, are what chance gives a slow feed."""
    e = AdaptiveSmoothing(300, inner=inner)
    simulate_smoothing(e, np.full((300, 300), items))
    assert e.alpha(np.arange(300)).mean() < 0.095  # it began at .1


FIXED_ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)


def compare_with_fixed(rates: np.ndarray) -> float:
    """Return the error of `smoothed` as a ratio to that of the best fixed α."""
    feeds = rates.shape[1]
    fixed = min(simulate_smoothing(SingleRate(feeds, alpha=alpha), rates) for alpha in FIXED_ALPHAS)
    return simulate_smoothing(AdaptiveSmoothing(feeds), rates) / fixed


@pytest.mark.parametrize("items", [5, 20])
@pytest.mark.parametrize("every", [25, 50, 100])
def test_adaptive_smoothing_is_within_five_percent_of_the_best_fixed_one_on_changing_feeds(
    every: int, items: float
) -> None:
    rng = np.random.default_rng(1)
    levels = np.exp(rng.normal(np.log(items), 0.8, (400 // every, 100)))
    assert compare_with_fixed(np.repeat(levels, every, axis=0)) <= 1.05


@pytest.mark.parametrize("items", [5, 20])
@pytest.mark.parametrize("step", [0.03, 0.08])
def test_adaptive_smoothing_is_within_five_percent_of_the_best_fixed_one_on_drifting_feeds(
    step: float, items: float
) -> None:
    """A random walk keeps the size of the errors constant: only their common side shows that the rate drifts."""
    rng = np.random.default_rng(2)
    walk = np.exp(np.log(items) + np.cumsum(rng.normal(0, step, (400, 100)), axis=0))
    assert compare_with_fixed(np.clip(walk, 0.2, 400.0)) <= 1.05


def test_a_drift_raises_alpha_only_where_errors_stay_on_one_side() -> None:
    e = AdaptiveSmoothing(1, alpha=0.2, rate=1.0, n1=2, n2=4, n3=3, shrink=0.5, drift_grow=1.5, unstable=9, drift=0.9)
    for _ in range(3):
        e.observe(
            ROW, at(0.0), at(10.0), at(20.0), NO
        )  # always more than expected: .2 stays one refresh, then ½, then 1.5
    assert e.alpha(ROW) == pytest.approx([0.2 * 0.5 * 1.5])
    e.observe(ROW, at(0.0), at(10.0), at(0.0), NO)
    assert e.alpha(ROW) == pytest.approx([0.2 * 0.5 * 1.5 * 0.5])


def test_urbansky_eq_2_puts_a_virtual_item_at_an_empty_poll() -> None:
    e = MovingAverage(1)
    e.observe(ROW, at(-np.inf), at(500.0), at(5.0), NO, dates(100.0, 200.0, 250.0, 400.0, 500.0))
    assert e.gap(ROW) == pytest.approx([100.0])
    e.observe(ROW, at(500.0), at(600.0), at(0.0), NO)
    assert e.gap(ROW) == pytest.approx([100 - 100 / 4 + 100 / 4])  # (i₁ − i₀) = 100, p − i₄ = 100
    e.observe(ROW, at(600.0), at(900.0), at(0.0), NO)
    assert e.gap(ROW) == pytest.approx([100 - 25 + 400 / 4])  # the silence is measured from the last real item
    e.observe(ROW, at(900.0), at(1000.0), at(1.0), NO, dates(1000.0))
    assert e.gap(ROW) == pytest.approx([(100 + 50 + 150 + 100 + 500) / 5])  # the virtual item is forgotten


def test_the_moving_average_keeps_only_its_window() -> None:
    e = MovingAverage(1, window=3)
    e.observe(ROW, at(-np.inf), at(100.0), at(2.0), NO, dates(0.0, 100.0))
    e.observe(ROW, at(100.0), at(400.0), at(5.0), NO, dates(200.0, 201.0, 202.0, 300.0, 310.0))
    assert e.gap(ROW) == pytest.approx([(98 + 10) / 2])


def test_undated_items_are_spread_over_their_interval() -> None:
    e = MovingAverage(1)
    e.observe(ROW, at(0.0), at(100.0), at(4.0), NO)
    assert e.gap(ROW) == pytest.approx([25.0])


def test_urbansky_eq_3_sums_the_minutes_rates() -> None:
    e = PostRate(1, rate=0.0)
    for day in range(4):
        noon = day * DAY + 12 * HOUR
        e.observe(ROW, at(day * DAY), at((day + 1) * DAY), at(2.0), NO, dates(noon, noon + 90))
    # eight items in five days (the prior counts as one), in minutes 720 and 721
    assert e.expected(ROW, at(10 * DAY), at(11 * DAY)) == pytest.approx([8 / 5])
    assert e.expected(ROW, at(10 * DAY + 12 * HOUR), at(10 * DAY + 12 * HOUR + 60)) == pytest.approx([4 / 5])
    assert e.expected(ROW, at(10 * DAY), at(10 * DAY + 12 * HOUR)) == pytest.approx([0.0], abs=1e-6)


def test_advarss_eq_1_integrates_the_hourly_rates() -> None:
    e = HourlyRate(1)
    rates = np.full((1, 24), 1.0)
    rates[0, 1] = 4.0
    e.set_slots(ROW, rates)
    assert e.expected(ROW, at(1800.0), at(1.75 * HOUR)) == pytest.approx([0.5 * 1 + 0.75 * 4])


def test_advarss_keeps_silent_feeds_above_zero() -> None:
    e = HourlyRate(1, least=0.01)
    for day in range(200):
        e.observe(ROW, at(day * DAY), at((day + 1) * DAY), at(0.0), NO)
    assert e.expected(ROW, at(0.0), at(DAY)) == pytest.approx([0.24], rel=1e-3)


def test_the_example_profile_of_the_thesis_has_its_mean_as_most_likely_rate() -> None:
    span, count = np.array([[10.0, 15, 8, 20]]), np.array([[5.0, 1, 3, 8]])
    cut = np.zeros((1, 4), bool)
    assert maximise_likelihood(at(1.0), span, count, cut, stop=1e-9) == pytest.approx([17 / 53])
    assert log_likelihood_gradient(at(17 / 53), span, count, cut) == pytest.approx([0.0], abs=1e-9)


def test_thesis_7_5_the_gradient_of_a_cut_count_is_the_derivative_of_its_log_probability() -> None:
    for rate, span, window in ((0.3, 10.0, 4.0), (2.0, 10.0, 10.0), (0.01, 10.0, 10.0)):
        h = rate * 1e-5
        slope = (
            stats.poisson.logsf(window - 1, (rate + h) * span) - stats.poisson.logsf(window - 1, (rate - h) * span)
        ) / (2 * h)
        ours = log_likelihood_gradient(at(rate), np.array([[span]]), np.array([[window]]), np.array([[True]]))
        assert ours == pytest.approx([slope], rel=1e-4)


def test_algorithm_7_1_with_a_small_constant_step_climbs_to_the_same_rate() -> None:
    span, count = np.array([[10.0, 10.0, 10.0]]), np.array([[10.0, 6.0, 10.0]])
    cut = np.array([[True, False, True]])
    rate = at(0.2)
    for _ in range(1_500):
        rate = rate + 2e-3 * log_likelihood_gradient(rate, span, count, cut)
    assert maximise_likelihood(at(0.2), span, count, cut, stop=1e-10, rounds=10_000) == pytest.approx(rate, rel=1e-4)


def test_overflowing_windows_do_not_pull_the_likely_rate_down() -> None:
    rng = np.random.default_rng(1)
    single, likely = SingleRate(1, alpha=0.1), Likelihood(1, observations=50)
    for _ in range(200):
        new = min(int(rng.poisson(9.5)), 10)
        for e in (single, likely):
            e.observe(ROW, at(0.0), at(DAY), at(float(new)), np.array([new == 10]))
    assert single.expected(ROW, at(0.0), at(DAY))[0] < 9.1
    assert likely.expected(ROW, at(0.0), at(DAY))[0] == pytest.approx(9.5, rel=0.1)


def test_poisson_probabilities_agree_with_scipy() -> None:
    w, mu = np.meshgrid(
        np.array([0.0, 1, 2, 5, 10, 20, 50, 200, 1000]), np.array([0.0, 1e-6, 0.1, 1, 7, 19.5, 60, 300, 990])
    )
    assert poisson_tail(w, mu) == pytest.approx(stats.poisson.sf(w - 1, mu), abs=1e-11)
    assert poisson_pmf(w, mu) == pytest.approx(stats.poisson.pmf(w, mu), abs=1e-11)
    k = np.arange(3000)
    shown = [
        [(np.minimum(k, a) * stats.poisson.pmf(k, b)).sum() for a, b in zip(x, y, strict=True)]
        for x, y in zip(w, mu, strict=True)
    ]
    assert expect_shown(w, mu) == pytest.approx(np.array(shown), abs=1e-8)


def test_first_window_gives_a_rate_that_includes_the_silence_after_it() -> None:
    assert estimate_first_rate(dates(0.0, 10.0, 20.0), at(20.0)) == pytest.approx([0.1])
    assert estimate_first_rate(dates(0.0, 10.0, 20.0), at(200.0)) == pytest.approx([0.01])
    assert np.isnan(estimate_first_rate(dates(5.0), at(200.0))).all()
    assert np.isnan(estimate_first_rate(None, at(200.0))).all()


def test_patterns_are_found_and_assigned() -> None:
    """Thirty feeds post at 9, thirty at 21: two clusters, and each is expected when it posts."""
    rng = np.random.default_rng(2)
    e, feeds = ClusterPattern(60, clusters=2), 60
    hour = np.where(np.arange(feeds) < 30, 9, 21)
    for day in range(14):
        times = np.sort(day * DAY + (hour[:, None] + rng.random((feeds, 4))) * HOUR, axis=1)
        ragged = Ragged(np.arange(feeds + 1) * 4, times.ravel())
        start, end = np.full(feeds, day * DAY), np.full(feeds, (day + 1) * DAY)
        e.observe(np.arange(feeds), start, end, np.full(feeds, 4.0), np.zeros(feeds, bool), ragged)
    e.recluster()
    cluster = e.cluster(np.arange(feeds))
    assert len(set(cluster[:30])) == 1
    assert len(set(cluster[30:])) == 1
    assert cluster[0] != cluster[59]
    day = np.full(feeds, 20 * DAY)
    whole = e.expected(np.arange(feeds), day, day + DAY)
    assert whole == pytest.approx(np.full(feeds, 4.0), rel=0.1)
    in_hour = e.expected(np.arange(feeds), day + hour * HOUR, day + (hour + 1) * HOUR)
    assert (in_hour > 0.9 * whole).all()


def test_kmeans_finds_the_clusters_in_any_order() -> None:
    rng = np.random.default_rng(3)
    truth = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    points = np.repeat(truth, 50, axis=0) + rng.normal(0, 0.5, (150, 2))
    centres, label = kmeans(points, 3)
    order = rng.permutation(150)
    again, moved = kmeans(points[order], 3)
    assert again == pytest.approx(centres)
    assert np.array_equal(moved, label[order])
    assert np.sort(centres.sum(axis=1)) == pytest.approx([0, 10, 10], abs=0.5)
    assert len(kmeans(np.zeros((5, 2)), 3)[0]) == 1, "equal points are one cluster"


def test_a_million_feeds_with_168_slots_fit_into_a_gigabyte() -> None:
    assert PeriodicRate(10, slots=168).bytes_per_feed * 1_000_000 < 1e9
