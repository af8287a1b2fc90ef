"""`value` plans refreshes, keeps its budget, uses signals and explains itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headwater.arrays import Ragged
from headwater.estimate.models.bayes import Bayes, RateForecast, expect_steps
from headwater.lab.simulation.equal_cost import choose_knob, price_knob, replay_at_cost
from headwater.lab.simulation.replay import ReplaySettings, replay_trace
from headwater.lab.simulation.scores import score_replay
from headwater.lab.traces.trace import Trace, load_trace
from headwater.schedule.selection import Budget
from headwater.schedule.strategies.peer_rules import MinifluxEntryFrequency
from headwater.schedule.strategies.round_robin import Uniform
from headwater.schedule.strategy import Observed, Table
from headwater.schedule.value.refresh_plan import STEPS, USUAL_STEPS, PlanTask, measure_saving, plan_next_refresh
from headwater.schedule.value.value import Value
from headwater.times import DAY


def task(feeds: int = 40, seed: int = 1, fast: bool = False) -> PlanTask:
    rng = np.random.default_rng(seed)
    base = 10 ** rng.uniform(-2, 2.5, feeds)
    clocks = np.zeros((feeds, 337))
    np.cumsum(rng.gamma(0.5, 1.0, (feeds, 336)) + 0.05, axis=1, out=clocks[:, 1:])
    price = 10 ** rng.uniform(-2, 0.5, feeds)
    usual = np.clip(np.minimum(np.sqrt(2 * price / base), 10 / base + 0.02), 0.002, 31.0)
    forecast = RateForecast(
        now=rng.uniform(1.6e9, 1.61e9, feeds),
        clocks=clocks * (7 / clocks[:, -1:]),
        base=base,
        parts=(base * rng.uniform(-0.9, 3.0, feeds))[:, None],
        scales=np.array([0.5]),
    )
    return PlanTask(
        items=expect_steps(forecast, usual / USUAL_STEPS, STEPS, fast)[0],
        worth=rng.uniform(0.5, 2.0, feeds),
        loss=np.full(feeds, 3.0),
        price=price,
        window=np.full(feeds, 20.0),
        usual=usual,
        dispersion=6.0,
    )


def test_numba_and_numpy_plan_the_same_times() -> None:
    pytest.importorskip("numba")
    for seed in range(3):
        np.testing.assert_allclose(
            plan_next_refresh(task(seed=seed, fast=True), fast=True), plan_next_refresh(task(seed=seed)), rtol=1e-9
        )


@pytest.mark.parametrize("fast", [False, True])
def test_a_free_refresh_comes_at_the_first_step(fast: bool) -> None:
    free = replace(task(), price=np.zeros(40))
    assert (plan_next_refresh(free, fast) <= 1.5 * free.usual / USUAL_STEPS).all()


def test_a_plan_for_an_even_feed_is_the_root_rule() -> None:
    feeds = np.array([1.0, 4.0, 16.0])
    usual = np.sqrt(0.04 / feeds)
    even = PlanTask(
        items=(feeds * usual / USUAL_STEPS)[:, None] * np.arange(STEPS + 1),
        worth=np.ones(3),
        loss=np.full(3, 3.0),
        price=np.full(3, 0.02),
        window=np.full(3, 1000.0),
        usual=usual,
        dispersion=1.0,
    )
    np.testing.assert_allclose(plan_next_refresh(even), np.sqrt(0.04 / feeds), rtol=0.06)


def test_the_saving_of_a_forecast_is_one_of_waiting_whatever_would_be_lost() -> None:
    """A feed that shows two items loses most of them at any pause; that says nothing about the waiting of others."""
    short = replace(task(), window=np.full(40, 2.0))
    plain = short.items * np.linspace(0.3, 3.0, 40)[:, None]
    saving = measure_saving(short, plain)
    assert 0.01 < saving < 0.9
    assert saving == measure_saving(replace(short, loss=np.full(40, 300.0)), plain)
    assert measure_saving(short, short.items) == 0


def test_the_plan_waits_for_the_hour_at_which_a_feed_publishes() -> None:
    """If all items come at noon, the refresh comes just after it, not at the even interval."""
    speed = np.full(336, 0.001)
    speed[24::48] = 1.0
    clocks = np.concatenate([[0.0], np.cumsum(speed)])[None] * (7 / speed.sum())
    one = np.ones(1)
    usual = np.sqrt(0.6) * one
    midnight = RateForecast(
        now=np.array([0.0]), clocks=clocks, base=one, parts=np.zeros((1, 1)), scales=np.array([0.5])
    )
    noon = PlanTask(
        items=expect_steps(midnight, usual / USUAL_STEPS, STEPS)[0],
        worth=one,
        loss=3 * one,
        price=0.3 * one,
        window=20 * one,
        usual=usual,
        dispersion=6.0,
    )
    hour = float(plan_next_refresh(noon)[0]) * 24
    assert 12.2 <= hour % 24 <= 15.0


def test_a_risk_of_overflow_shortens_the_interval() -> None:
    wide, narrow = task(), task()
    narrow.window[:] = 3.0
    assert (plan_next_refresh(narrow) <= plan_next_refresh(wide) + 1e-9).mean() > 0.9
    assert plan_next_refresh(narrow).sum() < plan_next_refresh(wide).sum()


def daily_trace(feeds: int = 30, days: int = 60, seed: int = 3) -> Trace:
    """Make feeds that publish in working hours, at rates from one a week to twenty a day."""
    rng = np.random.default_rng(seed)
    lists = []
    for rate in 10 ** rng.uniform(-0.8, 1.3, feeds):
        day = np.repeat(np.arange(days), rng.poisson(rate, days))
        hour = rng.normal(14, 2.5, len(day)) % 24
        lists.append(np.sort(np.floor((day + hour / 24) * DAY)).tolist())
    lists[0] = [0.0, *lists[0]]
    return Trace.from_lists(lists)


PROTOCOL = ReplaySettings(window=20)


def delay_of(name: str, trace: Trace, per_day: float = 2.0) -> tuple[float, float]:
    if name == "value":
        fitted = replay_at_cost(
            price_knob(lambda p: Value(price=p, fast=True), per_day, 0.05), trace, PROTOCOL, per_day
        )
    elif name == "bare":
        fitted = replay_at_cost(
            price_knob(lambda p: Value(price=p, plan=False, fast=True), per_day, 0.05), trace, PROTOCOL, per_day
        )
    else:
        kind = {"uniform": Uniform, "miniflux": MinifluxEntryFrequency}[name]
        fitted = replay_at_cost(choose_knob(kind, per_day), trace, PROTOCOL, per_day)
    assert abs(fitted.off) < 0.02
    scores = score_replay(fitted.replay)
    return scores.mean_delay_s, scores.completeness.mean


def test_at_equal_cost_it_beats_round_robin_miniflux_and_its_own_index() -> None:
    trace = daily_trace()
    ours, complete = delay_of("value", trace)
    assert complete > 0.99
    assert ours < 0.7 * delay_of("uniform", trace)[0]
    assert ours < 0.7 * delay_of("miniflux", trace)[0]
    assert ours < 0.95 * delay_of("bare", trace)[0]


def test_the_price_found_online_keeps_the_budget() -> None:
    trace = daily_trace(feeds=60)
    run = replay_trace(Value(fast=True), trace, PROTOCOL, per_day=2.0)
    assert run.per_day == pytest.approx(2.0, rel=0.05)


def test_the_same_replay_gives_the_same_numbers() -> None:
    trace = daily_trace(feeds=10, days=40)
    first, second = replay_trace(Value(fast=True), trace, PROTOCOL), replay_trace(Value(fast=True), trace, PROTOCOL)
    np.testing.assert_array_equal(first.obtained, second.obtained)


def learned(feeds: int = 2) -> tuple[Value, Table]:
    strategy, table = Value(feeds, price=2.0, estimator=Bayes(shaped=False)), Table.of(feeds, 20.0)
    rows, none = np.arange(feeds), np.zeros(feeds, dtype=bool)
    for day in range(30):
        table.last[:] = day * DAY
        end = np.full(feeds, (day + 1) * DAY)
        strategy.observe(table, Observed(rows, table.last.copy(), end, np.ones(feeds), np.full(feeds, 20.0), none))
    table.last[:] = 30 * DAY
    return strategy, table


def test_signal_brings_only_its_own_feed_forward() -> None:
    strategy, table = learned()
    before = strategy.due.copy()
    table.divergence[0] = 2.0
    strategy.choose(table, 30 * DAY + 60, Budget(0))
    assert strategy.due[0] < before[0]
    assert strategy.due[1] == before[1]


def test_value_explains_itself_in_words_and_numbers() -> None:
    strategy, table = learned()
    decision = strategy.explain(table, 0, 30.5 * DAY)
    assert "items a day" in decision.reason
    assert "a refresh saves" in decision.reason
    assert decision.price == 2.0
    assert decision.value is not None
    assert decision.value < 2.0
    assert decision.due is not None
    assert decision.due > 30.5 * DAY
    later = strategy.explain(table, 0, 60 * DAY).value
    assert later is not None
    assert later > decision.value


def test_heavier_feeds_come_sooner_and_dearer_ones_later() -> None:
    strategy, table = learned(3)
    table.weight[1], table.cost[2] = 9.0, 9.0
    none, end = np.zeros(3, dtype=bool), np.full(3, 31 * DAY)
    strategy.observe(table, Observed(np.arange(3), table.last, end, np.ones(3), np.full(3, 20.0), none))
    assert strategy.due[1] < strategy.due[0] < strategy.due[2]


def news(shared_data: Path, part: int) -> Trace:
    trace = load_trace(shared_data / "traces" / "news.parquet")
    return trace.select_feeds(np.arange(0, trace.feeds, part)) if part > 1 else trace


def test_on_a_sample_of_real_news_it_is_far_ahead_of_miniflux_at_its_own_cost(shared_data: Path) -> None:
    trace = news(shared_data, 100)
    peer = replay_trace(MinifluxEntryFrequency(), trace, PROTOCOL)
    ours = replay_at_cost(
        price_knob(lambda p: Value(price=p, fast=True), peer.per_day, 0.05), trace, PROTOCOL, peer.per_day
    )
    assert ours.is_close
    assert score_replay(ours.replay).mean_delay_s <= 0.6 * score_replay(peer).mean_delay_s


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("per_day", "hours", "complete"), [(0.25, 11.8, 0.985), (1.0, 2.65, 0.995), (4.0, 0.69, 0.996)]
)
def test_on_all_of_the_news_it_meets_its_figures(
    shared_data: Path, per_day: float, hours: float, complete: float
) -> None:
    trace = news(shared_data, 1)
    fitted = replay_at_cost(
        price_knob(lambda p: Value(price=p, fast=True), per_day, 0.08 / per_day**2), trace, PROTOCOL, per_day
    )
    scores = score_replay(fitted.replay)
    assert scores.mean_delay_s / 3600 <= hours
    assert scores.completeness.mean >= complete
    online = replay_trace(Value(fast=True), trace, PROTOCOL, per_day)
    assert online.per_day == pytest.approx(per_day, rel=0.05)


def test_a_budget_that_wavers_is_not_planned_for_at_every_step() -> None:
    """Where bytes or parallel fetches limit the budget, each document moves it a little."""
    strategy, table = Value(1), Table.of(1, 20.0)
    table.last[0] = start = 1.6e9
    plans = []
    for second, rate in enumerate([1.0, 1.01, 0.99, 1.02, *[2.0] * 30]):
        strategy.choose(table, start + second, Budget(1, rate))
        plans.append(strategy.current)
    assert plans[0] is plans[3]
    assert plans[-1] is not plans[0]
    assert len({id(one) for one in plans}) == 2
    strategy.note_change()
    strategy.choose(table, start + 34, Budget(1, 2.0))
    assert strategy.current is not plans[-1]


def test_with_a_large_budget_a_very_fast_feed_is_polled_every_two_minutes_from_the_start() -> None:
    """The intervals of the first price (hours) are replaced once the budget is known."""
    strategy, table, gap, start = Value(1), Table.of(1, 20.0), 60.0, 1.6e9
    now, polls, row = start, [], np.array([0])
    while now < start + 2 * 3600:
        if len(strategy.choose(table, now, Budget(1, rate=1 / 60)).rows):
            since = max(now - 20 * gap, float(table.last[0]))
            dates = np.arange(np.floor(since / gap) + 1, np.floor(now / gap) + 1) * gap
            full = np.array([bool(np.isfinite(table.last[0])) and len(dates) >= 20])
            new, came = np.array([float(len(dates))]), Ragged(np.array([0, len(dates)]), dates)
            strategy.observe(
                table, Observed(row, table.last.copy(), np.array([now]), new, np.full(1, 20.0), full, came)
            )
            table.last[0] = now
            polls.append(now)
        now += 10.0
    assert np.diff(polls).max() <= 180.0
    assert "the price is" in strategy.why(table, 0, now)


def saturated_server(important: tuple[int, ...]) -> list[float]:
    """Run 60 lively feeds with 10 requests a minute for an hour; return the mean delay of the first and other feeds."""
    rng = np.random.default_rng(5)
    feeds, start = 60, 1.6e9
    rates = rng.uniform(20, 150, feeds)
    times = [np.sort(rng.uniform(start - 2 * DAY, start + DAY / 12, rng.poisson(rate * 25 / 12))) for rate in rates]
    strategy, table = Value(feeds), Table.of(feeds, 20.0)
    table.pause[:] = 120.0
    table.weight[list(important)] = 10.0
    delays: list[list[float]] = [[], []]
    for step in range(6 * 120):
        now = start + 10 * step
        budget = Budget(2 if step % 6 < 4 else 1, 10 / 60)
        allowed = table.last + table.pause <= now
        rows = strategy.choose(table, now, budget, allowed).rows
        if not len(rows):
            continue
        new = [t[(t > table.last[row]) & (t <= now)][-20:] for row, t in ((row, times[row]) for row in rows.tolist())]
        end, count = np.full(len(rows), now), np.array([float(len(one)) for one in new])
        first = np.isneginf(table.last[rows])
        seen = Observed(rows, table.last[rows], end, count, np.full(len(rows), 20.0), count > 99, Ragged.of(new))
        strategy.observe(table, seen)
        table.last[rows] = now
        for row, one, is_first in zip(rows.tolist(), new, first.tolist(), strict=True):
            if not is_first:
                delays[row not in important].extend((now - one).tolist())
    return [float(np.mean(group)) for group in delays if group]


def test_importance_changes_delays_at_once_when_the_budget_is_short() -> None:
    five = (0, 1, 2, 3, 4)
    important, others = saturated_server(five)
    (even,) = saturated_server(())
    assert important < 0.6 * even
    assert others < 1.6 * even


def test_overdue_feeds_are_taken_by_their_worth_and_deadlines_first() -> None:
    strategy, table = learned(4)
    table.weight[:] = [1.0, 5.0, 1.0, 1.0]
    table.at_most[3] = 600.0
    strategy.due[:] = 30 * DAY + np.array([0.0, 3000.0, 1000.0, 3500.0])  # the longest overdue feed has the least value
    now = 31 * DAY
    strategy._columns["gain"][:] = 0.5 * table.weight
    assert strategy.choose(table, now, Budget(2)).rows.tolist() == [3, 1]
