"""The learned forecast corrects `bayes`, goes on learning, and is not misled by the calendar or by single feeds."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from importlib.resources import files
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from headwater.arrays import Floats, Ragged, Rows
from headwater.errors import StrategyError
from headwater.estimate.learned.forecast_record import ForecastRecord
from headwater.estimate.learned.inputs import BIN_INPUTS, BINS, REFRESH_INPUTS, Belief, compute_inputs
from headwater.estimate.learned.network import (
    WEIGHTS,
    Adam,
    Network,
    Samples,
    compute_gradient,
    measure_loss,
)
from headwater.estimate.learned.online_learning import BATCH, BUFFER, KEPT, choose_bins, weigh_evidence
from headwater.estimate.models.bayes import Bayes, expect_steps
from headwater.estimate.models.learned_forecast import LearnedForecast, load_network
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.traces.trace import Trace
from headwater.numba_support import NUMBA_AVAILABLE
from headwater.schedule.registry import make_strategy
from headwater.schedule.strategy import Observed, Table
from headwater.schedule.value.value import Value
from headwater.times import DAY, HOUR

YEAR = 52 * 7 * DAY
EPOCH = 20_000 * DAY
SETTINGS = ReplaySettings(history_days=2.0, warmup_days=2.0)


def make_trace(feeds: int = 12, days: int = 9, seed: int = 5, shift: float = 0.0) -> Trace:
    """Make feeds that publish at a few fixed minutes of the day, on most days, in whole seconds."""
    rng = np.random.default_rng(seed)
    lists = []
    for feed in range(feeds):
        minutes = rng.integers(0, 1440, 1 + feed % 4)
        times = [
            EPOCH + shift + day * DAY + float(minute) * 60 + float(rng.integers(0, 30))
            for day in range(days)
            for minute in minutes
            if rng.random() < 0.9
        ]
        lists.append(sorted(times))
    return Trace.from_lists(lists)


def poll(trace: Trace, estimator: Bayes | None = None, price: float = 0.05) -> Value:
    strategy = Value(price=price, estimator=LearnedForecast() if estimator is None else estimator)
    replay_trace(strategy, trace, SETTINGS)
    return strategy


def forecast_anew(strategy: Value, rows: Rows, step: float) -> Floats:
    """Return the items expected in the steps of a plan made now."""
    estimator = strategy.beliefs
    assert isinstance(estimator, LearnedForecast)
    return estimator.compare_steps(rows, estimator.forecast(rows), np.full(len(rows), step))[0][:, -1]


@pytest.fixture(scope="module")
def polled() -> Value:
    return poll(make_trace())


def make_samples(count: int = 40, seed: int = 1) -> Samples:
    rng = np.random.default_rng(seed)
    return Samples(
        rng.normal(size=(count, REFRESH_INPUTS)).astype(np.float32),
        rng.normal(size=(count, BIN_INPUTS)).astype(np.float32),
        rng.uniform(0.05, 2.0, count).astype(np.float32),
        rng.poisson(1.0, count).astype(np.float32),
        np.ones(count, np.float32),
    )


def test_the_weights_of_the_package_are_small_and_finite() -> None:
    network = load_network()
    assert network.weights.shape == (WEIGHTS,)
    assert network.weights.nbytes < 100_000
    file = files("headwater.estimate.learned").joinpath("weights.npz").read_bytes()
    assert len(file) < 100_000
    made = str(np.load(io.BytesIO(file))["made"]).splitlines()
    assert made[0].startswith("headwater lab train-forecast --trace ")
    assert len(made) == 1 + made[0].count("--trace ")
    assert np.isfinite(network.weights).all()
    assert (network.scaling.low <= network.scaling.high).all()


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    samples = make_samples()
    weights = Network.random(load_network().scaling, np.random.default_rng(2)).weights.copy()
    weights += np.random.default_rng(3).normal(0, 0.05, WEIGHTS).astype(np.float32)
    gradient = compute_gradient(weights, samples)
    for place in np.argsort(-np.abs(gradient))[:: WEIGHTS // 12][:8]:
        more, less = weights.copy(), weights.copy()
        more[place] += 1e-2
        less[place] -= 1e-2
        slope = (measure_loss(more, samples)[0] - measure_loss(less, samples)[0]) / 2e-2
        assert slope == pytest.approx(float(gradient[place]), rel=0.1, abs=2e-4)


def test_training_finds_what_the_inputs_tell() -> None:
    samples = make_samples(2000)
    told = Samples(
        samples.refresh,
        samples.bin,
        samples.believed,
        np.random.default_rng(4).poisson(samples.believed * np.exp(samples.bin[:, 0])).astype(np.float32),
        samples.weight,
    )
    weights = Network.random(load_network().scaling, np.random.default_rng(2)).weights.copy()
    adam = Adam.new()
    for _ in range(150):
        adam.step(weights, compute_gradient(weights, told), 3e-3)
    loss, belief = measure_loss(weights, told)
    assert loss < belief - 0.3


def test_a_shift_by_a_year_changes_no_forecast() -> None:
    near, far = poll(make_trace()), poll(make_trace(shift=YEAR))
    np.testing.assert_allclose(far.due - YEAR, near.due, atol=1.0)
    rows, estimators = np.arange(12), (near.beliefs, far.beliefs)
    at = near.due + HOUR
    found = [one.expected(rows, at + k * YEAR, at + k * YEAR + DAY) for k, one in enumerate(estimators)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)


def observe_at_fixed_times(shift: float) -> Floats:
    """Observe steady, daily, bursting, hourly, dead and new feeds at given moments; return the items of each plan."""
    rng, day = np.random.default_rng(31), np.arange(20.0) * DAY
    kinds = (
        np.cumsum(rng.exponential(DAY / 8, 150)),
        np.add.outer(day, [7 * HOUR, 7.1 * HOUR]).ravel(),
        np.repeat(day[::3] + 13 * HOUR, 12),
        np.arange(480) * HOUR + 300.0,
        np.sort(rng.uniform(0, 4 * DAY, 30)),
        np.sort(rng.uniform(14 * DAY, 20 * DAY, 40)),
    )
    estimator, rows, last = LearnedForecast(6), np.arange(6), np.full(6, -np.inf)
    found = []
    for k in range(1, 64):
        end = np.full(6, EPOCH + shift + k * 7.3 * HOUR)
        new = [(EPOCH + shift + times).tolist() for times in kinds]
        new = [[at for at in times if begin < at <= end[0]] for times, begin in zip(new, last, strict=True)]
        counts = np.array([float(len(times)) for times in new])
        estimator.observe(rows, last, end, counts, counts >= 20, Ragged.of(new))
        found.append(estimator.expect_steps(rows, estimator.forecast(rows), np.geomspace(0.002, 0.4, 6)))
        last = end
    return np.array(found)


def test_five_years_later_the_forecasts_are_the_same() -> None:
    np.testing.assert_allclose(observe_at_fixed_times(5 * YEAR), observe_at_fixed_times(0.0), rtol=1e-5, atol=1e-9)


def test_the_forecast_differs_from_the_belief_where_a_feed_is_punctual(polled: Value) -> None:
    estimator = polled.beliefs
    assert isinstance(estimator, LearnedForecast)
    rows = np.arange(12)
    forecast = estimator.forecast(rows)
    corrected, believed = estimator.compare_steps(rows, forecast, np.full(12, 1 / 48))
    factor = np.diff(corrected, axis=1) / np.diff(believed, axis=1)
    assert factor.shape == (12, BINS)
    assert factor.min() > 0
    assert factor.max() < np.exp(3) + 1e-6
    assert (np.abs(np.log(factor)) > 0.1).mean() > 0.3
    assert (np.diff(believed, axis=1) >= 0).all()


def test_neighbours_in_a_batch_do_not_change_a_forecast(polled: Value) -> None:
    estimator = polled.beliefs
    at = polled.due
    together = estimator.expected(np.arange(12), at, at + DAY)
    alone = [estimator.expected(np.array([k]), at[k : k + 1], at[k : k + 1] + DAY)[0] for k in range(12)]
    np.testing.assert_array_equal(together, alone)


def test_a_saved_forecast_goes_on_as_if_nothing_had_happened(polled: Value) -> None:
    other = Value(price=0.05, estimator=LearnedForecast())
    other.load(polled.save())
    rows = np.arange(12)
    np.testing.assert_array_equal(
        polled.beliefs.expected(rows, polled.due, polled.due + DAY),
        other.beliefs.expected(rows, polled.due, polled.due + DAY),
    )
    grown = Value(price=0.05, estimator=LearnedForecast())
    grown.load(polled.save())
    grown.resize(20)
    assert len(grown.beliefs) == 20
    np.testing.assert_array_equal(
        grown.beliefs.expected(rows, polled.due, polled.due + DAY),
        other.beliefs.expected(rows, polled.due, polled.due + DAY),
    )


def test_the_state_of_bayes_is_taken_over() -> None:
    old = poll(make_trace(), Bayes())
    new = Value(price=0.05, estimator=LearnedForecast())
    new.load(old.save())
    rows = np.arange(12)
    np.testing.assert_array_equal(new.due, old.due)
    np.testing.assert_allclose(
        new.beliefs.expected(rows, old.due, old.due + DAY), old.beliefs.expected(rows, old.due, old.due + DAY)
    )
    with pytest.raises(StrategyError):
        LearnedForecast(3).load({})


def test_a_memory_of_another_layout_is_begun_anew_without_losing_the_rest(polled: Value) -> None:
    state = polled.save()
    missing = ("estimator/correction", "estimator/memory/recent")
    old = {key: array for key, array in state.items() if key not in missing}
    new = Value(price=0.05, estimator=LearnedForecast())
    new.load(old)
    taken = new.save()
    np.testing.assert_array_equal(new.due, polled.due)
    for key in ("estimator/items", "estimator/rhythm/daily", "estimator/learning/*weights", "estimator/step"):
        np.testing.assert_array_equal(taken[key], state[key])
    assert not new.beliefs.memory.is_dated(np.arange(12)).any()  # type: ignore[attr-defined]


def test_other_weights_of_the_package_learn_from_the_start(polled: Value) -> None:
    """What was learned belongs to the network that it began with: samples are scaled by its scaling."""
    package = load_network()
    other = LearnedForecast(network=package.with_weights(package.weights * np.float32(0.9)))
    other.load(polled.beliefs.save())
    state, before = other.save(), polled.beliefs.save()
    np.testing.assert_array_equal(state["memory/recent"], before["memory/recent"])
    np.testing.assert_array_equal(state["learning/*weights"], package.weights * np.float32(0.9))
    assert float(before["learning/*came"]) > 0
    assert float(state["learning/*came"]) == 0


def test_samples_of_former_days_are_given_up_without_the_rest(polled: Value) -> None:
    state = {
        **polled.save(),
        "estimator/learning/_class": np.array("online_learning/1"),
        "estimator/learning/*samples": np.zeros((32_768, 61), np.int8),
    }
    new = Value(price=0.05, estimator=LearnedForecast())
    new.load(state)
    taken = new.save()
    np.testing.assert_array_equal(new.due, polled.due)
    np.testing.assert_array_equal(taken["estimator/memory/recent"], state["estimator/memory/recent"])
    assert float(taken["estimator/learning/*came"]) == 0


def test_feeds_without_dates_keep_the_belief() -> None:
    trace = make_trace()
    undated = Trace(trace.names, trace.offsets, trace.times, dated=np.zeros(trace.feeds, bool))
    learned, plain = poll(undated), poll(undated, Bayes())
    np.testing.assert_allclose(learned.due, plain.due, atol=1e-3)


def test_new_and_dead_feeds_get_finite_forecasts() -> None:
    estimator, rows = LearnedForecast(2), np.arange(2)
    first = Ragged.of([[EPOCH - 300 * DAY], [EPOCH - 5.0]])
    estimator.observe(rows, np.full(2, -np.inf), np.full(2, EPOCH), np.ones(2), np.zeros(2, bool), first)
    for day in range(1, 60):
        start = np.full(2, EPOCH + (day - 1) * DAY)
        estimator.observe(rows, start, start + DAY, np.zeros(2), np.zeros(2, bool), Ragged.of([[], []]))
        items = estimator.expect_steps(rows, estimator.forecast(rows), np.full(2, 0.1))
        assert np.isfinite(items).all()
        assert (np.diff(items, axis=1) >= 0).all()


@pytest.mark.skipif(not NUMBA_AVAILABLE, reason="numba is not installed")
@pytest.mark.parametrize("step", [0.002, 1 / 48, 0.4, 3.0])
def test_compiled_loops_give_the_same_inputs(polled: Value, step: float) -> None:
    estimator, rows = polled.beliefs, np.arange(12)
    assert isinstance(estimator, LearnedForecast)
    forecast, steps = estimator.forecast(rows), np.full(12, step)
    believed, own = expect_steps(forecast, steps, BINS)
    shape = np.random.default_rng(1).uniform(0.2, 3.0, (12, BINS))
    belief = Belief(forecast.base, forecast.parts.sum(1), steps, believed, own, shape)
    plain, fast = (compute_inputs(estimator.memory, rows, belief, fast=compiled) for compiled in (False, True))
    for one, other in zip(plain, fast, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(not NUMBA_AVAILABLE, reason="numba is not installed")
def test_compiled_loops_remember_and_correct_alike() -> None:
    trace, kinds = make_trace(feeds=30), (False, True)
    plain, fast = (LearnedForecast(30, learning=False, fast=compiled) for compiled in kinds)
    rows, start = np.arange(30), np.full(30, -np.inf)
    for day in (1.0, 1.3, 4.0, 8.9):
        end = np.full(30, EPOCH + day * DAY) + rows * 60.0
        came = [
            times[(times > begin) & (times <= upto)].tolist()
            for times, begin, upto in zip(map(trace.feed_times, range(30)), start, end, strict=True)
        ]
        counts = np.array([float(len(times)) for times in came])
        for one in (plain, fast):
            one.observe(rows, start, end, counts, counts < 0, Ragged.of(came))
        found = [one.expect_steps(rows, one.forecast(rows), np.full(30, 1 / 40)) for one in (plain, fast)]
        np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-6)
        start = end
    np.testing.assert_array_equal(fast.memory.columns["recent"], plain.memory.columns["recent"])
    assert fast.memory.columns["recent"].sum() > 30


def test_a_fast_strategy_makes_its_estimator_fast() -> None:
    for fast in (False, True):
        made = make_strategy("value(estimator=forecast)", price=0.1, fast=fast)
        assert isinstance(made, Value)
        assert made.beliefs.fast is fast


@pytest.mark.parametrize(("ahead", "bound"), [(400 * DAY, 0.01), (-HOUR, 0.1)])
def test_a_poisoned_feed_hardly_moves_the_others(ahead: float, bound: float) -> None:
    """10,000 items at once, dated in the future or an hour ago, day after day, beside some 200 items of 12 feeds."""
    trace = make_trace()
    clean, foul = poll(trace), poll(trace)
    for strategy, many in ((clean, 1), (foul, 10_000)):
        estimator = strategy.beliefs
        estimator.resize(13)
        row, end = np.array([12]), float(trace.end)
        last = -np.inf
        for day in range(1, 6):
            now = end + day * DAY
            dates = Ragged.of([[now + ahead] * many])
            estimator.observe(
                row, np.array([last]), np.array([now]), np.array([float(many)]), np.array([many > 1]), dates
            )
            estimator.expect_steps(row, estimator.forecast(row), np.array([0.01]))
            last = now
    rows = np.arange(12)
    weights = [strategy.beliefs.learning.weights for strategy in (clean, foul)]  # type: ignore[attr-defined]
    assert np.abs(weights[0] - weights[1]).max() < 0.01
    for step in (DAY / BINS, 3 * DAY / BINS):
        a, b = (forecast_anew(strategy, rows, step / DAY) for strategy in (clean, foul))
        np.testing.assert_allclose(a / b, 1.0, atol=bound)


def test_the_forecast_of_a_feed_and_its_record_are_described_in_words(polled: Value) -> None:
    estimator = polled.beliefs
    assert isinstance(estimator, LearnedForecast)
    said = [estimator.describe_feed(row, float(polled.due[row]) - HOUR) for row in range(12)]
    assert any("times as many items as the plain estimate around" in one for one in said)
    assert all(one.endswith(estimator.record().describe()) for one in said)
    assert not any(" 0 of the last 7 days" in one for one in said)
    for one in said:  # a number of days is named where it speaks for the correction
        times, days = re.search(r"expects ([\d.]+) times", one), re.search(r"on (only )?(\d) of the last 7 days", one)
        if times is not None and days is not None:
            assert (float(times[1]) < 1) == bool(days[1])
            assert float(times[1]) > 1 or int(days[2]) < 4
    row = next(row for row, one in enumerate(said) if "around" in one)
    there = estimator.describe_feed(row, float(polled.due[row]) - HOUR, ZoneInfo("Asia/Tokyo"))
    assert " UTC, in about " in said[row]
    assert " JST, in about " in there
    assert estimator.record().items > 0
    assert "and that time has passed" in estimator.describe_feed(row, float(polled.due[row]) + 300 * DAY)
    assert LearnedForecast(1).describe_feed(0, EPOCH) == ""
    assert "a chance 10 % lower than the plain estimate" in ForecastRecord(-0.1, 100, 0.3).describe()


def test_a_correction_is_described_beside_a_plain_estimate_that_has_changed_since(polled: Value) -> None:
    """The plan took away more items than the plain estimate now expects: the forecast expects none, never −3 times."""
    estimator = polled.beliefs
    moved = estimator._columns["moved"].copy()
    try:
        estimator._columns["moved"][:] = -50.0
        said = [estimator.describe_feed(row, float(polled.due[row]) - HOUR) for row in range(12)]  # type: ignore[attr-defined]
        assert any("expects hardly any of the items of the plain estimate around" in one for one in said)
        assert not any("times as many" in one for one in said)
        estimator._columns["moved"][:] = 0.001
        said = [estimator.describe_feed(row, float(polled.due[row]) - HOUR) for row in range(12)]  # type: ignore[attr-defined]
        assert not any(" around " in one for one in said)
    finally:
        estimator._columns["moved"][:] = moved


def test_days_with_items_around_a_time_are_counted() -> None:
    estimator, row = LearnedForecast(1), np.array([0])
    times = [EPOCH + day * DAY + 7.5 * HOUR for day in (0, 1, 3, 4, 6)]
    now = EPOCH + 7 * DAY + HOUR
    estimator.observe(row, np.full(1, -np.inf), np.full(1, now), np.full(1, 5.0), row > 0, Ragged.of([times]))
    counts = [estimator.memory.count_days(0, now + hours * HOUR) for hours in (6.5, 7.2, 5.8, 12.0)]
    assert counts == [5, 5, 5, 0]

    busy, hours = LearnedForecast(1), EPOCH + HOUR * np.arange(9 * 24)
    spans = np.full(1, -np.inf), np.full(1, hours[-1])
    busy.observe(row, *spans, np.full(1, 216.0), row > 0, Ragged.of([hours.tolist()]))
    assert {busy.memory.count_days(0, hours[-1] + k * HOUR / 2) for k in range(48)} == {7}


def test_kept_bins_depend_on_feed_and_time_only() -> None:
    rows, at = np.array([4, 9, 2]), np.array([1e9, 1.5e9, 1.7e9])
    bins = choose_bins(rows, at)
    np.testing.assert_array_equal(choose_bins(rows[::-1], at[::-1])[::-1], bins)
    assert (bins // 4 == np.arange(KEPT)).all()


def test_it_learns_once_a_day_from_bounded_samples(polled: Value) -> None:
    estimator = polled.beliefs
    assert isinstance(estimator, LearnedForecast)
    state = estimator.learning.save()
    assert float(state["*came"]) > 0
    assert len(state["*samples"]) == BUFFER
    assert float(state["*steps"]) > 0
    assert 0 <= estimator.learning.trust <= 1
    assert estimator.bytes_per_feed - Bayes(1).bytes_per_feed < 2048


@pytest.mark.parametrize(("came", "steps"), [(100.0, 0), (1000.0, 2), (1025.0, 3), (1e6, BUFFER // BATCH)])
def test_a_pass_takes_the_samples_of_its_day_once(came: float, steps: int) -> None:
    """Its cost follows what has come since the one before, within the size of the buffer."""
    learning = LearnedForecast().learning
    for day in range(1, 4):
        learning.load({**learning.save(), "*came": np.array(came)})
        learning.run_pass()
        assert float(learning.save()["*steps"]) == day * steps
        assert float(learning.save()["*came"]) == 0.0


def test_a_correction_that_is_wrong_loses_its_trust() -> None:
    """A network that always expects e times too many items is not believed after a few days."""
    weights = np.zeros(WEIGHTS, np.float32)
    weights[-1] = 1.0
    wrong = LearnedForecast(network=Network(weights, load_network().scaling))
    poll(make_trace(feeds=40), wrong)
    assert wrong.learning.trust < 0.5


def test_a_correction_that_was_right_for_long_loses_its_trust_within_weeks() -> None:
    """On a small server eight samples a day are wrong: they expect e times too many items in bins without any."""
    learning = LearnedForecast().learning
    for day in range(215):
        figures = np.zeros((BUFFER, 4), np.float32)
        figures[:8] = (0.1, float(day < 200), 1.0, 1.0)  # believed, published, weight, correction
        learning.load({**learning.save(), "*figures": figures, "*came": np.array(8.0)})
        learning.run_pass()
        assert learning.trust > 0.99 or day > 200
    assert learning.trust < 0.5


@pytest.mark.parametrize("believed", [0.001, 0.02, 0.3, 2.0, 20.0])
@pytest.mark.parametrize("correction", [-2.0, -0.5, 0.5, 2.0])
def test_evidence_favours_the_side_that_is_right(believed: float, correction: float) -> None:
    """Items come as the correction says, then as the belief says; the evidence expected of a bin follows."""
    both = np.full(2, believed), np.full(2, correction)
    nats = weigh_evidence(*both, np.array([True, False]))
    assert np.abs(nats).max() <= 3.0
    for rate, sign in ((believed * np.exp(correction), 1), (believed, -1)):
        chance = -np.expm1(-rate)
        expected = sign * (chance * nats[0] + (1 - chance) * nats[1])
        assert expected > (0.0 if min(believed, believed * np.exp(correction)) < 2.5 else -0.02)


def make_observed(estimator: LearnedForecast, lists: list[list[float]], days: int, claimed: float = 0.0) -> Floats:
    """Observe feeds once a day, their dates moved by `claimed`; return the items expected after the last refresh."""
    rows = np.arange(len(lists))
    for day in range(days):
        end = np.full(len(rows), EPOCH + (day + 1) * DAY)
        new = [[at + claimed for at in times if end[0] - DAY < at <= end[0]] for times in lists]
        counts = np.array([float(len(times)) for times in new])
        start = end - DAY if day else np.full(len(rows), -np.inf)
        estimator.observe(rows, start, end, counts, counts >= 20, Ragged.of(new))
        items = estimator.expect_steps(rows, estimator.forecast(rows), np.full(len(rows), 1 / 30))
        assert np.isfinite(items).all()
        assert (np.diff(items, axis=1) >= 0).all()
    return items


@pytest.mark.parametrize("claimed", [-4000 * DAY, -30 * DAY, 3 * DAY, 4000 * DAY], ids=lambda days: f"{days / DAY:g}")
def test_false_dates_bend_a_forecast_only_within_bounds(claimed: float) -> None:
    lists = [[EPOCH + day * DAY + 8 * HOUR for day in range(12)], [EPOCH + day * 2 * DAY for day in range(6)]]
    plain = LearnedForecast(2, learning=False)
    true, false = make_observed(plain, lists, 12), make_observed(LearnedForecast(2), lists, 12, claimed)
    assert (false[:, -1] > 0.02 * true[:, -1]).all()
    assert (false[:, -1] < 20 * true[:, -1]).all()


def test_items_in_batches_are_forecast_as_batches() -> None:
    """A feed with twelve items at one moment of each day is expected to publish about twelve a day, not more."""
    lists = [[EPOCH + day * DAY + 8 * HOUR + k for day in range(20) for k in range(12)]]
    items = make_observed(LearnedForecast(1), lists, 20)
    a_day = items[0, 30]  # of 30 bins
    assert 4 < a_day < 36


def test_a_learned_forecast_expects_to_save_waiting(polled: Value) -> None:
    table = Table.of(12, window=20.0)
    table.last[:] = polled.beliefs.forecast(np.arange(12)).now
    before = polled.save()
    record = polled.record_forecast(table)
    assert record is not None
    assert record.saving is not None
    assert 0.01 < record.saving < 1.0
    assert "is expected to save" in replace(record, items=100, gain=0.1).describe()
    assert "save" not in replace(record, items=100, gain=-0.1).describe()  # its predictions have not held
    for key, value in polled.save().items():  # looking changes nothing
        np.testing.assert_array_equal(value, before[key])
    assert Value(price=0.05).record_forecast(table) is None
    table.cost[:] = 0.0  # free refreshes: there is nothing to save
    free = polled.record_forecast(table)
    assert free is not None
    assert free.saving is None


@pytest.mark.parametrize(("ahead", "used"), [((3.0, 1.0), True), ((1.0, 1.0), False), ((-9.0, 1.0), False)])
def test_learned_weights_are_used_only_while_they_are_ahead_beyond_doubt(
    polled: Value, ahead: tuple[float, float], used: bool
) -> None:
    estimator = LearnedForecast()
    assert isinstance(polled.beliefs, LearnedForecast)
    estimator.learning.load({**polled.beliefs.learning.save(), "*ahead": np.array(ahead)})
    learned = polled.beliefs.learning.save()["*weights"]
    assert np.abs(learned - load_network().weights).max() > 0
    np.testing.assert_array_equal(estimator.learning.weights, learned if used else load_network().weights)


def test_a_plan_looks_as_far_as_politeness_lets_it_act() -> None:
    """Where refreshes are cheap but a feed may be polled every two hours, bins of seconds would teach nothing."""
    strategy, table = Value(1, price=1e-5, estimator=LearnedForecast()), Table.of(1, window=20.0)
    table.pause[:] = 2 * HOUR
    one, row = np.ones(1), np.array([0])
    for k in range(1, 4):
        seen = Observed(row, (k - 1) * 2 * HOUR * one + EPOCH, k * 2 * HOUR * one + EPOCH, one, 20 * one, one > 1)
        strategy.observe(table, seen)
    assert strategy.beliefs.save()["step"][0] * 15 * DAY == pytest.approx(2 * HOUR)
