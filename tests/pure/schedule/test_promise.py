"""The plan keeps its constraints, spends its budget, and its predictions agree with a simulation of its own model."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Ragged
from headwater.estimate.models.bayes import Bayes
from headwater.lab.traces.daily_shapes import wave_shape
from headwater.schedule.politeness.rules import Reason
from headwater.schedule.promise import Beliefs, Calibration, Constraints, Plan, Why, plan
from headwater.schedule.quality.overflow import DISPERSIONS, GEOMETRIC, MEANS, compute_curves, find_losses
from headwater.schedule.strategy import Observed
from headwater.schedule.value.feed_habits import FeedHabits
from headwater.times import DAY, HOUR, MINUTE


def draw_world(seed: int, feeds: int = 40) -> tuple[Beliefs, Constraints]:
    rng = np.random.default_rng(seed)
    burst = rng.dirichlet(np.full(len(DISPERSIONS), 0.3), feeds)
    beliefs = replace(
        Beliefs.of(
            10 ** rng.uniform(-2, 3, feeds), rng.choice([1, 5, 20, 33, 100], feeds), 10 ** rng.uniform(-1, 1, feeds)
        ),
        burst=burst,
        sure=10 ** rng.uniform(-0.5, 3, feeds),
        fail=rng.choice([0, 0, 0.1, 0.4], feeds),
        heavy=rng.choice([1, 1, 20.0], feeds),
    )
    hinted = rng.random(feeds) < 0.3
    constraints = replace(
        Constraints.of(feeds),
        earliest=np.where(hinted, rng.choice([300, 1800, DAY / 2], feeds), 120.0),
        reason=np.where(hinted, int(Reason.FRESH), int(Reason.LEAST)).astype(np.int8),
        at_most=np.where(rng.random(feeds) < 0.15, rng.choice([120, 600, HOUR], feeds), np.inf),
        pushed=rng.random(feeds) < 0.1,
        active=rng.random(feeds) < 0.9,
        away=rng.random(feeds) < 0.05,
        host=rng.integers(0, 12, feeds),
        pace=rng.choice([np.inf, 6.0, 0.5], 12),
    )
    return beliefs, constraints


def count_requests(made: Plan) -> np.ndarray:
    """Return requests per minute of each feed, counted independently: polls per success over the time between
    successes.
    """
    fail = made.beliefs.fail
    cycle = made.interval + 600 * fail + 1200 * fail**2
    return np.where(made.constraints.away, 0.0, (1 + fail + fail**2) * MINUTE / cycle)


def draw_counts(rng: np.random.Generator, law: int, mean: float, many: int | tuple[int, int]) -> np.ndarray:
    """Return numbers of items of this mean under a law of batches."""
    phi = DISPERSIONS[law]
    if phi == 1:
        return rng.poisson(mean, many)
    if GEOMETRIC[law]:
        batches = rng.poisson(2 * mean / (phi + 1), many)
        more = rng.negative_binomial(np.maximum(batches, 1), 2 / (phi + 1))
        return np.where(batches > 0, batches + more, 0)
    return rng.negative_binomial(mean / (phi - 1), 1 / phi, many)


@pytest.mark.parametrize("dispersion", [0, 3, 7, 10, 15, 22])
@pytest.mark.parametrize("window", [1, 20, 33])
def test_losses_in_bursts_agree_with_a_simulation(window: int, dispersion: int) -> None:
    rng = np.random.default_rng(7)
    curves = compute_curves(np.array([float(window)]), np.eye(len(DISPERSIONS))[dispersion][None])
    for mean in (0.05 * window, 0.5 * window, window, 4.0 * window):
        drawn = draw_counts(rng, dispersion, mean, 200_000)
        over = np.maximum(drawn - window, 0)
        expected = float(curves.read_lost(np.array([mean]))[0])
        doubt = 4 * over.std() / np.sqrt(len(over)) + 0.012 * mean
        assert abs(expected - over.mean()) < doubt, (mean, expected, over.mean())
        chance = float(curves.read(curves.chance, np.array([mean]))[0])
        assert abs(chance - (over > 0).mean()) < 0.02


@pytest.mark.parametrize("law", [10, 22], ids=["logarithmic", "geometric"])
def test_the_law_of_batches_is_learned_from_counts(law: int) -> None:
    """At the same variance the two laws lose different shares; a law that is not the feed's own would be 2 × off."""
    rng, feeds, mean = np.random.default_rng(5), 40, 3.0
    habits, rows = FeedHabits(feeds), np.arange(feeds)
    counts = draw_counts(rng, law, mean, (120, feeds))
    for poll, new in enumerate(counts.astype(float)):
        start = np.full(feeds, -np.inf) if poll == 0 else np.full(feeds, poll * HOUR)
        shown, end = np.minimum(new, 100.0), np.full(feeds, (poll + 1) * HOUR)
        habits.observe(Observed(rows, start, end, shown, np.full(feeds, 100.0), new > 100), np.full(feeds, 72.0))
    curves = compute_curves(np.full(feeds, 20.0), habits.burst(rows))
    said = float(curves.read_lost(np.full(feeds, mean)).mean() / mean)
    truth = compute_curves(np.array([20.0]), np.eye(len(DISPERSIONS))[law][None])
    assert said == pytest.approx(float(truth.read_lost(np.array([mean]))[0] / mean), rel=0.2)


def test_busy_hours_are_not_taken_for_bursts() -> None:
    """Single items, most of them by day, in a window of two that is read once an hour and so overflows."""
    feeds, days, rng = 12, 14, np.random.default_rng(11)
    beliefs, habits, rows = Bayes(feeds), FeedHabits(feeds), np.arange(feeds)
    wave = wave_shape(top=15.0)
    posted = []
    for _ in rows:
        slots = rng.choice(48, 120 * days, p=wave / wave.sum())
        posted.append(np.sort(rng.integers(0, days, len(slots)) * DAY + (slots + rng.random(len(slots))) * HOUR / 2))
    for hour in range(1, 24 * days):
        start, end = (np.full(feeds, at * HOUR) for at in (hour - 1 if hour > 1 else -np.inf, hour))
        came = [times[(times > (hour - 1) * HOUR) & (times <= hour * HOUR)] for times in posted]
        full = np.array([len(times) >= 2 for times in came]) & (hour > 1)
        dates = Ragged.of([times[-2:].tolist() for times in came])
        new = dates.counts.astype(np.float64)
        beliefs.observe(rows, start, end, new, full, dates)
        seen = Observed(rows, start, end, new, np.full(feeds, 2.0), full, dates)
        habits.observe(seen, beliefs.slow_rate(rows), beliefs.measure_own_time(rows, start, end))
    often = habits.rate(rows) * 2 * MINUTE / DAY
    lost = compute_curves(np.full(feeds, 2.0), habits.burst(rows)).read_lost(often) / often
    assert float(lost.mean()) < 0.03  # .007 by the true rates; .17 while busy hours were bursts


@pytest.mark.parametrize("dated", [True, False])
def test_the_rate_of_batches_larger_than_the_window_is_learned(dated: bool) -> None:
    """Batches of 12 items on average, of which a full window of 20 hides the beginning."""
    feeds, rng = 30, np.random.default_rng(3)
    habits, rows = FeedHabits(feeds), np.arange(feeds)
    for k in range(700):
        begin, end = k * HOUR / 4, (k + 1) * HOUR / 4
        came = []
        for _ in rows:
            sizes = rng.geometric(1 / 12, rng.poisson(0.1))
            came.append(np.sort(np.repeat(rng.uniform(begin, end, len(sizes)), sizes)))
        counts = np.array([len(items) for items in came], np.float64)
        dates = Ragged.of([items[-20:].tolist() for items in came]) if dated else None
        spans = np.full(feeds, begin), np.full(feeds, end)
        shown = np.minimum(counts, 20)
        habits.observe(Observed(rows, *spans, shown, np.full(feeds, 20.0), counts > 20, dates), np.full(feeds, 115.0))
    assert float(habits.rate(rows).mean()) == pytest.approx(12 * 0.1 * 96, rel=0.1)
    assert float((habits.burst(rows) @ DISPERSIONS).mean()) == pytest.approx(23, abs=3)


def test_a_burst_larger_than_the_window_is_lost_at_any_budget() -> None:
    batches = np.eye(len(DISPERSIONS))[9][None]
    curves = compute_curves(np.array([10.0]), batches)
    tiny = np.array([1e-3])
    assert float(curves.read_lost(tiny)[0] / tiny[0]) > 0.05


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.5, 3.0, 30.0]))
def test_politeness_and_paces_hold_at_every_budget(seed: int, budget: float) -> None:
    beliefs, constraints = draw_world(seed)
    made = plan(beliefs, constraints, budget)
    asked = constraints.active
    assert (made.interval[asked] >= constraints.earliest[asked] * (1 - 1e-9)).all()
    assert np.isinf(made.interval[~asked]).all()
    requests = count_requests(made)
    assert requests.sum() <= budget * 1.001
    by_host = np.bincount(constraints.host, requests, minlength=12)
    assert (by_host <= constraints.pace * 1.001).all()
    assert ((made.lost >= 0) & (made.lost <= 1) & (made.stale >= 0) & (made.stale <= 1)).all()


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_more_budget_never_costs_quality(seed: int) -> None:
    beliefs, constraints = draw_world(seed)
    beliefs = replace(beliefs, sure=np.full(len(beliefs), 1e18))  # nothing to explore
    made = [plan(beliefs, constraints, budget) for budget in (0.2, 0.5, 2.0, 10.0, 50.0)]
    assert all(a.price >= b.price for a, b in itertools.pairwise(made))
    assert all((a.interval >= b.interval * (1 - 1e-6)).all() for a, b in itertools.pairwise(made))
    promises = [one.promise() for one in made]
    assert all(a.completeness <= b.completeness + 1e-9 for a, b in itertools.pairwise(promises))


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_deadlines_hold_where_politeness_and_the_budget_allow(seed: int) -> None:
    beliefs, constraints = draw_world(seed)
    constraints = replace(constraints, pace=np.full(12, np.inf))
    made = plan(beliefs, constraints, 1000.0)
    free = constraints.active & ~constraints.pushed
    allowed = np.maximum(constraints.at_most, constraints.earliest)
    assert (made.interval[free] <= allowed[free] * (1 + 1e-9)).all()


def test_the_budget_is_spent_to_the_last_request_when_it_is_short() -> None:
    beliefs, constraints = draw_world(3)
    made = plan(beliefs, replace(constraints, pace=np.full(12, np.inf)), 0.5)
    assert made.price > 0
    assert made.spent == pytest.approx(0.5, rel=1e-3)
    assert made.spare < 0.001


def test_deadlines_that_nearly_fill_the_budget_leave_the_rest_of_it_to_the_others() -> None:
    """A queue has made the plan cautious; deadlines are kept all the same, so only the rest may shrink."""
    constraints = Constraints.of(30)
    constraints.at_most[:26] = HOUR
    beliefs = Beliefs.of(np.full(30, 3.0), np.full(30, 20.0))
    for calibration in (Calibration(), Calibration(use=0.74, demand=1.26)):
        made = plan(beliefs, constraints, 0.5, calibration=calibration)
        assert made.interval[:26] == pytest.approx(HOUR)
        assert (made.interval[26:] < 4 * HOUR).all()
        assert made.price < 1
        assert made.spent <= 0.5 * (1 + 1e-6)


def test_thrift_leaves_a_large_budget_unspent_and_a_small_one_unchanged() -> None:
    rates = np.array([1.0, 10.0, 0.1, 0.01])
    rich = plan(replace(Beliefs.of(rates, np.full(4, 20.0)), sure=np.full(4, 1e9)), Constraints.of(4), 120.0)
    # √(2·reserve/λ): an item a day every 5 minutes, ten a day every 2, one in ten days every 16, in a hundred every 50
    assert (rich.interval / MINUTE).round().tolist() == [5, 2, 16, 50]
    assert (rich.binding == Why.THRIFT)[[0, 2, 3]].all()
    assert rich.price == 0
    assert rich.spare > 119
    poor = plan(Beliefs.of(rates, np.full(4, 20.0)), Constraints.of(4), 0.01)
    assert (poor.binding == Why.BUDGET).all()


def test_spare_budget_explores_feeds_of_uncertain_rate() -> None:
    beliefs = replace(Beliefs.of(np.array([1.0, 1.0]), np.full(2, 20.0)), sure=np.array([0.25, 1e6]))
    made = plan(beliefs, Constraints.of(2), 60.0)
    assert made.interval[0] < 0.7 * made.interval[1]


def test_unmet_demand_raises_the_price() -> None:
    beliefs, constraints = draw_world(5)
    calm = plan(beliefs, constraints, 0.5)
    hungry = plan(beliefs, constraints, 0.5, calibration=Calibration(demand=1.5))
    assert hungry.price > calm.price


def test_the_binding_constraint_is_named() -> None:
    beliefs = Beliefs.of(np.array([1000.0, 1000.0, 0.001, 1.0, 1.0, 1.0]), np.full(6, 20.0))
    base = Constraints.of(6)
    made = plan(
        replace(beliefs, sure=np.full(6, 1e9)),
        replace(
            base,
            earliest=np.array([120, 300, 120, 120, 120, 120.0]),
            reason=np.array([Reason.LEAST, Reason.FRESH, *[Reason.LEAST] * 4], np.int8),
            at_most=np.array([np.inf, 120, np.inf, 120, np.inf, np.inf]),
            pushed=np.arange(6) == 4,
            active=np.arange(6) != 5,
        ),
        100.0,
    )
    names = [Why(why).name for why in made.binding.tolist()]
    assert names == ["LEAST", "SERVER", "THRIFT", "DEADLINE", "PUSHED", "INACTIVE"]


@pytest.mark.parametrize("dispersion", [0, 6])
def test_delay_and_loss_agree_with_a_simulated_feed(dispersion: int) -> None:
    """A feed of batches, polled at a fixed interval: the formulas of loss, delay and freshness against counting."""
    rng = np.random.default_rng(11)
    rate, window, phi, every, days = 120.0, 20, float(DISPERSIONS[dispersion]), 3 * HOUR, 2000
    if phi == 1:
        times = np.sort(rng.uniform(0, days, rng.poisson(rate * days)))
        sizes = np.ones(len(times), int)
    else:  # a negative binomial process is a Poisson process of logarithmic batches
        batches = rng.poisson(rate * days * np.log(phi) / (phi - 1))
        times = np.sort(rng.uniform(0, days, batches))
        sizes = rng.logseries(1 - 1 / phi, batches)
    at = np.repeat(times, sizes) * DAY
    poll = np.ceil(at / every) * every
    later = np.searchsorted(at, poll, side="right") - 1 - np.arange(len(at))
    caught = later < window
    beliefs = replace(
        Beliefs.of(np.array([rate]), np.array([float(window)])), burst=np.eye(len(DISPERSIONS))[dispersion][None]
    )
    made = plan(beliefs, replace(Constraints.of(1), earliest=np.array([every])), 100.0)
    assert float(made.lost[0]) == pytest.approx(1 - caught.mean(), abs=0.01)
    assert float(made.delay[0]) == pytest.approx((poll - at)[caught].mean(), rel=0.05)
    assert 0 < made.promise().completeness_doubt < 0.2


@pytest.mark.parametrize("law", [0, 16, 22])
def test_nineteen_days_of_twenty_lie_within_twice_the_stated_doubt_of_the_delay(law: int) -> None:
    rng, days = np.random.default_rng(12), 400
    rates, every = np.array([100.0, 20.0, 2.0]), np.array([600.0, 3600.0, 6 * HOUR])
    beliefs = replace(
        Beliefs.of(rates, np.full(3, 500.0)), burst=np.tile(np.eye(len(DISPERSIONS))[law], (3, 1)), sure=np.full(3, 1e9)
    )
    said = plan(beliefs, replace(Constraints.of(3), earliest=every), 100.0).promise()
    waited, items = np.zeros(days), np.zeros(days)
    for rate, gap in zip(rates, every, strict=True):
        sizes = draw_counts(rng, law, rate / 48, (days, 48)).astype(float)  # the items of half an hour wait together
        items += sizes.sum(1)
        waited += (sizes * rng.uniform(0, gap, sizes.shape)).sum(1)
    came = waited / items
    assert said.delay == pytest.approx(waited.sum() / items.sum(), rel=0.05)
    inside = (np.abs(came - said.delay) <= 2 * said.delay_doubt).mean()
    assert inside >= 0.93
    assert np.std(came) > 0.4 * said.delay_doubt  # not by an idle doubt


def test_an_uncertain_law_of_batches_widens_the_doubt_of_completeness() -> None:
    sure = Beliefs.of(np.full(4, 50.0), np.full(4, 20.0))
    unsure = replace(
        sure, burst=np.tile(0.5 * np.eye(len(DISPERSIONS))[0] + 0.5 * np.eye(len(DISPERSIONS))[22], (4, 1))
    )
    limits = replace(Constraints.of(4), earliest=np.full(4, 2 * HOUR))
    doubts = [plan(one, limits, 100.0).promise().completeness_doubt for one in (sure, unsure)]
    assert doubts[0] is not None
    assert doubts[1] is not None
    assert doubts[1] > 2 * doubts[0]


def test_the_promise_of_a_query_weighs_what_it_keeps() -> None:
    beliefs, constraints = Beliefs.of(np.array([100.0, 1.0]), np.full(2, 20.0)), Constraints.of(2)
    made = plan(beliefs, replace(constraints, earliest=np.array([120.0, 3600.0])), 100.0)
    both, second = made.promise(), made.promise(np.array([1]), np.array([0.5]))
    assert both.delay is not None
    assert second.delay is not None
    assert both.delay < second.delay == pytest.approx(1800, rel=0.01)
    assert second.items == 0.5
    assert made.promise(np.empty(0, np.intp)).delay is None


def test_one_point_of_the_curves_is_found_without_them() -> None:
    beliefs, _ = draw_world(5, 300)
    items = 10 ** np.random.default_rng(5).uniform(-5, 4.5, 300)
    curves = compute_curves(beliefs.window, beliefs.burst)
    lost, chance = find_losses(beliefs.window, items, beliefs.burst)
    assert lost == pytest.approx(curves.read_lost(items), rel=1e-9, abs=1e-12)
    inside = items <= MEANS[-1]
    assert chance[inside] == pytest.approx(curves.read(curves.chance, items)[inside], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("per_day", [20.0, 140.0])
def test_what_comes_after_skipped_hours_agrees_with_a_simulated_feed(per_day: float) -> None:
    """Of a busy feed only the newest items of the night are still shown in the morning, and these waited least."""
    beliefs = Beliefs.of(np.array([per_day]), np.array([20.0]))
    beliefs = replace(beliefs, closed=np.array([6 / 24 * 3 * HOUR]))
    constraints = replace(Constraints.of(1), at_most=np.array([0.5 * HOUR]), open=np.array([18 / 24]))
    made = plan(beliefs, constraints, 10.0, calibration=Calibration(demand=1.0))
    rng, waited, caught, came = np.random.default_rng(1), 0.0, 0, 0
    for _ in range(150):
        times = np.sort(rng.uniform(0, 24, rng.poisson(per_day)))
        polls = np.arange(6.0, 24.01, float(made.interval[0]) / HOUR)
        for begin, end in itertools.pairwise([0.0, *polls]):
            new = times[(times > begin) & (times <= end)]
            came += len(new)
            caught += len(new[-20:])
            waited += float((end - new[-20:]).sum()) * HOUR
    said = made.promise()
    assert said.delay == pytest.approx(waited / caught, rel=0.06)
    assert said.completeness == pytest.approx(caught / came, abs=0.02)
