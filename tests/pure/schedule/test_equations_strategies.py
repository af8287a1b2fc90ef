"""The rules of papers and peers, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.arrays import Ragged
from headwater.errors import SettingsError
from headwater.estimate.models.fixed import FixedRate
from headwater.estimate.models.smoothing import PeriodicRate
from headwater.schedule import STRATEGIES, load
from headwater.schedule.selection import Budget
from headwater.schedule.strategies.advarss import AdvaRSS
from headwater.schedule.strategies.peer_rules import (
    CommaFeed,
    LemonReader,
    MediaCloud,
    Miniflux,
    MinifluxEntryFrequency,
    NewsBlur,
    StormCrawler,
)
from headwater.schedule.strategies.resource_allocation import (
    allocate_for_age,
    allocate_for_delay,
    allocate_for_freshness,
)
from headwater.schedule.strategies.retrieval_schedule import (
    PostingCurve,
    Retrieval,
    plan_retrieval_times,
    refine_times,
    search_times,
    spread_many_times,
)
from headwater.schedule.strategies.two_steps import OnlyTau, TopUtility, TwoSteps, adjust_threshold, compute_utility
from headwater.schedule.strategy import IntervalStrategy, Observed, Table
from headwater.schedule.weights import combine_query_weights
from headwater.times import DAY, HOUR, MINUTE

ROW = np.array([0])


def seen(
    end: float, new: float, dates: list[float] | None = None, start: float = -np.inf, window: float = 10
) -> Observed:
    one = np.ones(1)
    times = None if dates is None else Ragged(np.array([0, len(dates)]), np.array(dates))
    return Observed(ROW, start * one, end * one, new * one, window * one, one > 1, times, times)


def known(feeds: int, last: float = 0.0) -> Table:
    table = Table.of(feeds)
    table.last[:] = last
    return table


# Horincar: the utility and the two steps


@pytest.mark.parametrize("window", [1e9, 8.0])
@pytest.mark.parametrize("seed", range(4))
def test_utility_rises_monotonically(seed: int, window: float) -> None:
    """Thesis 4.1.2: ∂Uti/∂t = age · ∂Div/∂t ≥ 0, also where the day is bursty, and where the window is full."""
    model = PeriodicRate(1, slots=24, period=DAY, alpha=0.0)
    model.set_slots(ROW, np.random.default_rng(seed).gamma(0.2, 2.0, (1, 24)))
    table = known(1)
    table.window[:] = window
    times = np.arange(10 * MINUTE, 3 * DAY, 10 * MINUTE)
    utility = np.array([float(compute_utility(model, table, ROW, now)[0]) for now in times])
    assert (np.diff(utility) >= -1e-6 * utility[1:]).all()
    if window > 1e6:
        items = np.array([float(model.expected(ROW, np.zeros(1), np.array([now]))[0]) for now in times])
        ages = (times[1:] + times[:-1]) / 2
        assert np.diff(utility) == pytest.approx(ages * np.diff(items), rel=1e-4, abs=1e-6 * utility[-1])


def test_thesis_4_5_is_the_area_above_the_divergence_curve() -> None:
    """Nothing for 10 s, then 10 items in 10 s: 20·10 − ½·10·10 = 150. The other way round: 20·10 − (50 + 100) = 50."""
    table, late, early = known(1), PeriodicRate(1, slots=2, period=20.0), PeriodicRate(1, slots=2, period=20.0)
    late.set_slots(ROW, np.array([[0.0, 10.0]]))
    early.set_slots(ROW, np.array([[10.0, 0.0]]))
    assert compute_utility(late, table, ROW, 20.0) == pytest.approx([150.0])
    assert compute_utility(early, table, ROW, 20.0) == pytest.approx([50.0])


def test_for_a_constant_rate_the_utility_is_half_of_age_times_divergence() -> None:
    table = known(1)
    assert compute_utility(FixedRate(1, rate=0.5), table, ROW, 8.0) == pytest.approx([0.5 * 8 * 4])
    table.divergence[0] = 4.0
    assert compute_utility(None, table, ROW, 8.0) == pytest.approx([16.0])


def test_exact_relevant_divergence_is_used_as_given() -> None:
    table = known(1)
    table.divergence[0], table.relevant = 25.0, np.array([3.0])
    assert compute_utility(None, table, ROW, 4.0) == pytest.approx([6.0])  # ½·4·Div_A
    table.relevant = None
    table.selectivity[0] = 0.5
    assert compute_utility(None, table, ROW, 4.0) == pytest.approx([10.0])  # ½·4·.5·min(25, 10)


def test_weight_multiplies_and_cost_divides_what_a_refresh_is_worth() -> None:
    table = known(1)
    table.divergence[0], table.weight[0], table.cost[0] = 4.0, 3.0, 2.0
    assert compute_utility(None, table, ROW, 8.0) == pytest.approx([24.0])


def test_algorithm_4_2_moves_tau_by_five_percent_outside_ninety_percent_of_the_budget() -> None:
    assert adjust_threshold(2.0, 31, 30) == pytest.approx(2.1)
    assert adjust_threshold(2.0, 26, 30) == pytest.approx(1.9)
    assert adjust_threshold(2.0, 27, 30) == 2.0
    assert adjust_threshold(2.0, 30, 30) == 2.0


def test_algorithm_4_1_raises_the_threshold_by_the_budget_that_is_left() -> None:
    table = known(5)
    table.divergence[:] = [11.0, 10.0, 6.0, 5.0, 0.0]  # two saturated; utilities ½·2·Div = 6 and 5 for the next two
    choose = TwoSteps(5, tau=3.0, capped=False).choose
    # b/(b − b_sat)·τ = 4/2·3 = 6
    assert choose(table, 2.0, Budget(4)).rows.tolist() == [0, 1, 2] or choose(table, 2.0, Budget(4)).rows.tolist() == [
        1,
        0,
        2,
    ]


def test_the_second_step_is_capped_for_a_server_and_not_for_the_papers_world() -> None:
    table = known(6)
    table.divergence[:] = 5.0
    assert len(TwoSteps(6, tau=0.1).choose(table, 2.0, Budget(2)).rows) == 2
    free = TwoSteps(6, tau=0.1, capped=False)
    assert len(free.choose(table, 2.0, Budget(2)).rows) == 6
    assert free.price == pytest.approx(0.105)


def test_saturated_feeds_without_relevant_items_are_skipped() -> None:
    table = known(2)
    table.divergence[:], table.relevant = 20.0, np.array([0.0, 1.0])
    assert TwoSteps(2, tau=1e9).choose(table, 2.0, Budget(2)).rows.tolist() == [1]


def test_tau_finds_its_level_from_far_below_and_far_above() -> None:
    ends = []
    for tau in (1e-3, 1e4):
        rng, strategy, table = np.random.default_rng(1), OnlyTau(100, tau=tau, capped=False), known(100)
        rates = rng.uniform(0, 6.5, 100)
        table.divergence[:] = 0
        for cycle in range(1, 600):
            table.divergence += rng.poisson(rates)
            chosen = strategy.choose(table, float(cycle), Budget(30)).rows
            table.divergence[chosen], table.last[chosen] = 0.0, cycle
        ends.append(strategy.price)
    assert ends[0] == pytest.approx(ends[1], rel=0.25)


def test_only_the_given_generator_decides_ties() -> None:
    table = known(50)
    table.divergence[:] = 1.0
    picks = [TopUtility(50, rng=seed).choose(table, 5.0, Budget(5)).rows.tolist() for seed in (1, 1, 2)]
    assert picks[0] == picks[1] != picks[2]
    assert (
        sorted(TopUtility(50).choose(table, 5.0, Budget(5)).rows.tolist())
        == TopUtility(50).choose(table, 5.0, Budget(5)).rows.tolist()
    )


# advaRSS


def test_advarss_eq_2_weighs_articles_by_subscribers_and_waits_ten_minutes() -> None:
    table = known(3)
    table.divergence[:], table.subscribers[:] = [10.0, 6.0, 100.0], [0.0, 4.0, 0.0]
    table.last[2] = 3600.0 - 9 * MINUTE
    choice = AdvaRSS(3, c=0.5).choose(table, 3600.0, Budget(3))
    assert choice.rows.tolist() == [1, 0]  # 6·(1 + .5·4) = 18 before 10; the third is too fresh
    assert choice.value == pytest.approx([18.0, 10.0])


@pytest.mark.parametrize("name", ["advarss", "min_delay"])
def test_explanations_know_the_ten_minutes_between_two_refreshes(name: str) -> None:
    strategy, table = load(name)(1), known(1, last=1000.0)
    now = 1000.0 + 5 * MINUTE
    decision = strategy.explain(table, 0, now)
    assert decision.due == 1000.0 + 10 * MINUTE
    assert decision.reason.endswith("in about 5 min")
    assert strategy.reasons(table, np.array([0]), now) == [decision.reason]
    assert not len(strategy.choose(table, now, Budget(1)).rows)
    assert strategy.explain(table, 0, 1000.0 + 11 * MINUTE).reason.endswith("now")


# Sia & Cho, Cho & Garcia-Molina


def test_theorem_1_allots_by_the_root_of_weight_and_rate() -> None:
    assert allocate_for_delay(np.array([1.0, 4.0, 4.0]), np.array([1.0, 1.0, 4.0]), 14.0) == pytest.approx(
        [2.0, 4.0, 8.0]
    )


def test_theorem_2_and_example_1_one_retrieval_right_after_the_activity() -> None:
    """λ = 1 in [0, 1], 0 in [1, 2]: best at 1 with a delay of ½, worst at 0 with 3/2."""
    step = np.repeat([1.0, 0.0], 100)
    curve = PostingCurve(step, 2.0)
    assert plan_retrieval_times(step, 1, period=2.0) == pytest.approx([1.0])
    assert curve.total_delay(np.array([[1.0], [0.0]])) == pytest.approx([0.5, 1.5])


@pytest.mark.parametrize("method", ["refine", "search"])
@pytest.mark.parametrize(("hours", "mean_delay"), [((12,), 0.5), ((10, 11), 1.0), ((23,), 0.5)])
def test_postings_of_an_hour_are_retrieved_at_its_end(hours: tuple[int, ...], mean_delay: float, method: str) -> None:
    """The histogram of 4.3 is the rate: postings between 12 and 13 h are retrieved at 13.0, half an hour late."""
    shape = np.zeros(24)
    shape[list(hours)] = 1.0 / len(hours)
    (time,) = plan_retrieval_times(shape, 1, period=24.0, method=method)
    assert time == pytest.approx((hours[-1] + 1) % 24)
    assert PostingCurve(shape, 24.0).total_delay(np.array([[time]]))[0] == pytest.approx(mean_delay)


def test_theorem_3_holds_at_the_retrieval_points_of_example_2() -> None:
    """λ(t) = 2 + 2·sin 2πt, six retrievals: λ(τ_j)(τ_{j+1} − τ_j) = ∫ λ between τ_{j−1} and τ_j."""
    hours = (np.arange(240) + 0.5) / 240
    curve = PostingCurve(2 + 2 * np.sin(2 * np.pi * hours), 1.0)
    tau = refine_times(curve, 6)
    after, before = np.append(tau[1:], tau[0] + 1), np.append(tau[-1] - 1, tau[:-1])
    dark, light = curve.integrate(tau) - curve.integrate(before), curve.rate(tau) * (after - tau)
    assert light == pytest.approx(dark, abs=0.02)
    assert curve.total == pytest.approx(2.0)


T = np.arange(24)
SHAPES = {
    "sine": 2 + 2 * np.sin(2 * np.pi * T / 24),
    "working day": np.exp(-(((T - 14) / 4.0) ** 2)),
    "two peaks": np.exp(-(((T - 9) / 1.5) ** 2)) + 0.7 * np.exp(-(((T - 20) / 2.0) ** 2)) + 0.05,
    "burst": np.where((T == 10) | (T == 11), 1.0, 0.02),
    "late": np.where(T >= 22, 1.0, 0.1),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_exhaustive_search_and_iterative_refinement_find_the_same_delay(shape: np.ndarray, m: int) -> None:
    curve = PostingCurve(shape, 24.0)
    by_search, by_refining = (curve.total_delay(way(curve, m)[None, :])[0] for way in (search_times, refine_times))
    assert by_search == pytest.approx(by_refining, rel=0.01)
    assert by_refining <= curve.total_delay(np.array([np.arange(m) * 24 / m]))[0]
    assert by_refining <= by_every_plan(curve, m) * 1.002


def by_every_plan(curve: PostingCurve, m: int, grid: int = 96) -> float:
    """Return the least delay of all plans on a grid, by dynamic programming over the points."""
    at = np.arange(2 * grid + 1) * (curve.period / grid)
    pile = curve.integrate(at)
    fine = np.array([[curve.integrate(np.array([a]))[0] for a in at]])[0]
    area = np.concatenate([[0.0], np.cumsum((fine[1:] + fine[:-1]) / 2 * (curve.period / grid))])
    cost = area[None, :] - area[:, None] - (at[None, :] - at[:, None]) * pile[:, None]
    least = np.inf
    for first in range(grid):
        reach = cost[first, first : first + grid + 1].copy()
        for _ in range(m - 1):
            reach = np.array([(reach[: k + 1] + cost[first : first + k + 1, first + k]).min() for k in range(grid + 1)])
        least = min(least, float(reach[-1]))
    return least


def test_very_many_retrievals_follow_the_root_of_the_rate() -> None:
    steps = np.repeat([9.0, 1.0], 12)
    times = spread_many_times(PostingCurve(steps, 24.0), 40, np.full((1, 1), 0.5 / 40))[0]
    assert (times < 12).sum() == pytest.approx(30, abs=1)  # 3 : 1


def test_cho_and_garcia_molinas_five_pages() -> None:
    pages = np.arange(1.0, 6.0)
    assert allocate_for_freshness(pages, np.ones(5), 5.0) == pytest.approx([1.15, 1.36, 1.35, 1.14, 0.0], abs=0.005)
    assert allocate_for_age(pages, np.ones(5), 5.0) == pytest.approx([0.84, 0.97, 1.03, 1.07, 1.09], abs=0.006)
    for way in (allocate_for_age, allocate_for_freshness, allocate_for_delay):
        assert way(pages, np.ones(5), 2.5).sum() == pytest.approx(2.5)


def test_unknown_method_of_retrieval_times_is_refused() -> None:
    with pytest.raises(SettingsError, match="refine or search"):
        Retrieval(1, method="guess")


def test_both_ways_of_planning_keep_the_days_number_of_refreshes() -> None:
    for method in ("refine", "search"):
        strategy, table = Retrieval(4, method=method), Table.of(4)
        polls = 0
        for tick in range(96 * 6):
            now = tick * 900.0
            rows = strategy.choose(table, now, Budget(9, rate=8 / DAY)).rows
            if len(rows):
                one = np.ones(len(rows))
                times = np.floor(now / DAY) * DAY + 10 * HOUR
                came = Ragged(
                    np.arange(len(rows) + 1) * 3, np.repeat(times, 3 * len(rows)) + np.tile([0, 60, 120], len(rows))
                )
                strategy.observe(table, Observed(rows, table.last[rows], now * one, 3 * one, 9 * one, one > 1, came))
                table.last[rows] = now
                polls += len(rows) if tick >= 96 else 0
        assert polls == pytest.approx(5 * 8, abs=6)


# The peers


def due_after(strategy: IntervalStrategy, *what: Observed, table: Table | None = None) -> float:
    for one in what:
        strategy.observe(table if table is not None else Table.of(1), one)
    return float(strategy.due[0] - what[-1].end[0])


def test_miniflux_takes_a_hundred_an_hour_and_gives_up_after_three_errors() -> None:
    strategy, table = Miniflux(300), Table.of(300)
    assert len(strategy.choose(table, 0.0, Budget(1000)).rows) == 100
    assert len(strategy.choose(table, 1800.0, Budget(1000)).rows) == 0
    assert len(strategy.choose(table, 3600.0, Budget(1000)).rows) == 100
    strategy.observe_failures(table, np.arange(2), np.zeros(2), np.array([2, 3]))
    assert strategy.due[:2].tolist() == [-np.inf, np.inf]
    assert due_after(Miniflux(1), seen(0, 1)) == HOUR


def test_miniflux_entry_frequency_follows_the_week() -> None:
    dates = [k * 3 * HOUR for k in range(10)]
    assert due_after(MinifluxEntryFrequency(1), seen(dates[-1], 10, dates)) == pytest.approx(3 * HOUR)
    assert due_after(MinifluxEntryFrequency(1), seen(dates[-1], 1, dates[:1])) == DAY
    assert due_after(MinifluxEntryFrequency(1), seen(60.0, 10, list(range(10)))) == 5 * MINUTE


def test_commafeed_slows_with_silence() -> None:
    dates = [0.0, 1 * HOUR, 2 * HOUR]
    for silent, pause in ((0.0, 30 * MINUTE), (8 * DAY, HOUR), (15 * DAY, 2 * HOUR), (31 * DAY, 4 * HOUR)):
        assert due_after(CommaFeed(1), seen(2 * HOUR + silent, 3, dates)) == pause
    assert due_after(CommaFeed(1), seen(0.0, 3)) == 4 * HOUR
    strategy = CommaFeed(1)
    strategy.observe_failures(Table.of(1), ROW, np.zeros(1), np.array([4]))
    assert strategy.due[0] == 2 * HOUR


@pytest.mark.parametrize(
    ("stories", "readers", "minutes"),
    [
        (30, 10, 6),
        (30, 2, 15),
        (30, 1, 45),
        (15, 2, 30),
        (15, 1, 180),
        (3, 1, 240),
        (0, 2, 240),
        (0, 1, 240),
        (0, 0, 1440),
    ],
)
def test_newsblur_asks_by_stories_and_readers(stories: int, readers: int, minutes: float) -> None:
    table = Table.of(1)
    table.subscribers[0] = readers
    dates = [100 * DAY - k * HOUR for k in range(stories)][::-1]
    assert due_after(NewsBlur(1), seen(100 * DAY, stories, dates), table=table) == pytest.approx(minutes * 60 * 1.125)


def test_reader_waits_for_the_grid_and_scale_stretches_it() -> None:
    assert due_after(LemonReader(1), seen(5000.0, 1)) == 2200
    assert due_after(LemonReader(1, scale=2.0), seen(5000.0, 1)) == 2200
    assert due_after(LemonReader(1, scale=2.0), seen(8000.0, 1)) == 6400


def test_mediacloud_goes_by_overlap() -> None:
    first, all_new = seen(0.0, 10), seen(0.0, 9, start=-1.0)
    nothing, half = seen(0.0, 0, start=-1.0), seen(0.0, 5, start=-1.0)
    assert due_after(MediaCloud(1), first) == 12 * HOUR
    assert due_after(MediaCloud(1), all_new) == 11 * HOUR
    assert due_after(MediaCloud(1), half) == 12 * HOUR
    assert due_after(MediaCloud(1), nothing) == 12 * HOUR + 10 * MINUTE
    assert due_after(MediaCloud(1), first, seen(40 * DAY, 0, start=0.0)) == 12 * HOUR + 70 * MINUTE
    assert due_after(MediaCloud(1), *[all_new] * 20) == 10 * MINUTE


def test_stormcrawler_multiplies() -> None:
    changed, same = seen(0.0, 1, start=-1.0), seen(0.0, 0, start=-1.0)
    assert due_after(StormCrawler(1), changed, same) == pytest.approx(12 * HOUR * 0.8 * 1.5)
    assert due_after(StormCrawler(1), *[changed] * 40) == 90 * MINUTE


@pytest.mark.parametrize("name", [name for name, kind in STRATEGIES.items() if issubclass(kind, IntervalStrategy)])
def test_a_scale_stretches_every_interval_rule(name: str) -> None:
    def pause(scale: float) -> float:
        strategy = load(name)(1, scale=scale)
        assert isinstance(strategy, IntervalStrategy)
        dates = [30_000 * DAY - k * 5 * HOUR for k in range(10)][::-1]
        return due_after(strategy, seen(30_000 * DAY + HOUR, 10, dates))

    if name == "reader":  # its grid moves as a whole
        assert pause(3.0) <= 3 * HOUR
    else:
        assert pause(3.0) == pytest.approx(3 * pause(1.0), rel=1e-3)


def test_urbanskys_intervals_stay_between_two_minutes_and_31_days() -> None:
    assert due_after(load("fix_1h")(1, scale=1e-6), seen(0.0, 1)) == 2 * MINUTE  # type: ignore[arg-type]
    assert due_after(load("fix_1d")(1, scale=1e6), seen(0.0, 1)) == 31 * DAY  # type: ignore[arg-type]
    quick = [k * 0.5 for k in range(10)]
    assert due_after(load("moving_average")(1), seen(5.0, 10, quick)) == 2 * MINUTE  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [5, 10, 50])
def test_the_moving_average_takes_the_window_of_the_feed(window: int) -> None:
    """Gaps change from 1000 s to 200 s; once the document shows only new items, eq. 1 gives 200 s."""
    slow = [1000.0 * k for k in range(window)]
    fast = [slow[-1] + 200.0 * (k + 1) for k in range(window)]
    strategy = load("moving_average")(1)
    assert isinstance(strategy, IntervalStrategy)
    first, later = seen(slow[-1], window, slow, window=window), seen(fast[-1], window, fast, slow[-1], window)
    assert due_after(strategy, first, later) == pytest.approx(200.0)
    silent = seen(fast[-1] + 100.0, 0, None, fast[-1], 0)  # a 304 has no document; the window is still known
    assert due_after(strategy, silent) == pytest.approx(200.0 + (100.0 - 200.0) / (window - 1))


def test_several_queries_add_their_worth() -> None:
    weight, sel = combine_query_weights(
        3, np.array([0, 0, 2]), np.array([1.0, 1.0, 5.0]), np.array([0.5, 1.0, 0.2]), np.array([0.0, 2.0, 1.0])
    )
    assert weight * sel == pytest.approx([1.5, 2.0, 2.0])
    assert sel == pytest.approx([1.0, 1.0, 1.0])


def test_misspelt_strategy_gets_a_suggestion() -> None:
    with pytest.raises(SettingsError, match="Did you mean two_steps"):
        load("two_step")
