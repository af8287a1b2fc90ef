"""The replay agrees with a plain event loop, and the scores with counting by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Floats
from headwater.errors import TraceError
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.replay import MIN_INTERVAL, Replay, ReplaySettings, replay_trace
from headwater.lab.simulation.scores import score_replay
from headwater.lab.traces.synthetic_world import WorldSettings
from headwater.lab.traces.synthetic_world import draw_world as draw_world
from headwater.lab.traces.trace import Trace
from headwater.schedule import STRATEGIES
from headwater.schedule.selection import Budget
from headwater.schedule.strategies.round_robin import Uniform
from headwater.schedule.strategy import IntervalStrategy, Observed, Table
from headwater.times import DAY


class Adaptive(IntervalStrategy):
    """Halves its interval after news and doubles it otherwise, so that each poll depends on the one before."""

    name = "adaptive"
    steering = 3600.0

    def __init__(self, feeds: int = 0) -> None:
        super().__init__(feeds)
        self.steered: list[float] = []

    def steer(self, table: Table, now: float, budget: Budget) -> None:
        self.steered.append(now)

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        before = np.where(np.isfinite(seen.start), seen.end - seen.start, 7200.0)
        return np.clip(np.where(seen.new > 0, before / 2, before * 2), 300.0, 2 * DAY)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    feeds = draw(st.integers(1, 4))
    lists = [
        sorted(float(x) for x in draw(st.lists(st.integers(0, 6 * 86_400), min_size=0, max_size=30)))
        for _ in range(feeds)
    ]
    lists[0] = [0.0, *lists[0], 6.0 * DAY]
    trace = Trace.from_lists(lists)
    if draw(st.booleans()):
        windows = np.array(draw(st.lists(st.integers(1, 6), min_size=feeds, max_size=feeds)))
        trace = dataclasses.replace(trace, windows=windows)
    return trace


PROTOCOL = ReplaySettings(window=3, history_days=1.0, warmup_days=1.0, tick=3600.0)


def by_event_loop(trace: Trace, protocol: ReplaySettings) -> tuple[list[list[float | None]], list[list[float]]]:
    """Run Adaptive poll by poll with lists; return when each item was obtained, and each feed's polls."""
    begin, _, end = protocol.time_span(trace)
    obtained: list[list[float | None]] = []
    polls: list[list[float]] = []
    for feed in range(trace.feeds):
        window = protocol.window if trace.windows is None else int(trace.windows[feed])
        items = trace.feed_times(feed).tolist()
        got: list[float | None] = [None] * len(items)
        poll_times: list[float] = []
        at = begin + (feed * 0.6180339887498949 % 1.0) * DAY
        gap, known = 7200.0, 0
        while at < end:
            upto = sum(1 for t in items if t <= at)
            new = [k for k in range(known, upto) if k >= upto - window]
            for k in new:
                got[k] = at
            if poll_times:
                gap = at - poll_times[-1]
            poll_times.append(at)
            known = upto
            at += max(min(max(gap / 2 if new else gap * 2, 300.0), 2 * DAY), MIN_INTERVAL)
        obtained.append(got)
        polls.append(poll_times)
    return obtained, polls


@given(traces())
@settings(max_examples=60, deadline=None)
def test_waves_poll_exactly_as_a_plain_event_loop(trace: Trace) -> None:
    run = replay_trace(Adaptive(), trace, PROTOCOL)
    obtained, polls = by_event_loop(trace, PROTOCOL)
    flat = [np.nan if t is None else t for got in obtained for t in got]
    np.testing.assert_allclose(run.obtained, flat, atol=1e-3)
    assert run.polls.tolist() == [sum(t >= run.measured for t in poll_times) for poll_times in polls]


def brute_force(run: Replay, steps: int = 4000) -> dict[str, float]:
    """Compute completeness and delay by counting, freshness at `steps` moments."""
    lost = pending = 0
    delays = []
    for feed in range(run.trace.feeds):
        items = run.trace.feed_times(feed).tolist()
        got = run.obtained[run.trace.offsets[feed] : run.trace.offsets[feed + 1]]
        for k, t in enumerate(items):
            if t < run.measured:
                continue
            if not math.isnan(got[k]):
                delays.append(got[k] - t)
            elif k >= len(items) - run.windows[feed] and np.isnan(got[k:]).all():
                pending += 1
                delays.append(run.end - t)
            else:
                lost += 1
    total = 0.0
    moments = run.measured + (np.arange(steps) + 0.5) * (run.end - run.measured) / steps
    for feed in range(run.trace.feeds):
        items = run.trace.feed_times(feed)
        got = run.obtained[run.trace.offsets[feed] : run.trace.offsets[feed + 1]]
        for now in moments:
            upto = int(np.searchsorted(items, now, side="right"))
            window = got[max(upto - run.windows[feed], 0) : upto]
            total += 1.0 if not len(window) else float((window <= now).mean())
    return {
        "lost": lost,
        "pending": pending,
        "delay": float(np.mean(delays)) if delays else 0.0,
        "freshness": total / run.trace.feeds / steps,
    }


@given(traces())
@settings(max_examples=12, deadline=None)
def test_scores_agree_with_counting(trace: Trace) -> None:
    run = replay_trace(Adaptive(), trace, PROTOCOL)
    ours, counted = score_replay(run), brute_force(run)
    assert (ours.lost, ours.pending) == (counted["lost"], counted["pending"])
    assert ours.mean_delay_s == pytest.approx(counted["delay"], abs=1.0)
    assert ours.freshness.mean == pytest.approx(counted["freshness"], abs=2e-3)
    assert ours.completeness.mean == pytest.approx(1 - ours.lost / max(ours.items, 1))


def test_an_item_obtained_at_once_has_no_delay_and_a_burst_beyond_the_window_is_lost() -> None:
    burst = [3.5 * DAY + k for k in range(10)]
    trace = Trace.from_lists([[0.0, *burst, 6 * DAY]])
    run = replay_trace(Adaptive(), trace, PROTOCOL)
    scores = score_replay(run)
    assert scores.lost == 7
    assert scores.items == 11
    assert scores.completeness.mean == pytest.approx(4 / 11)


def test_a_feed_without_dates_shows_its_items_and_no_times() -> None:
    trace = Trace.from_lists([[0.0, 2.2 * DAY, 6 * DAY], [0.0, 2.2 * DAY, 6 * DAY]])
    trace = dataclasses.replace(trace, dated=np.array([True, False]))
    strategy = Adaptive()
    new, dates = np.zeros(2), np.zeros(2)
    remember = strategy.next_interval

    def interval(table: Table, seen: Observed) -> Floats:
        assert seen.published is not None
        new[seen.rows] += seen.new
        dates[seen.rows] += seen.published.counts
        return remember(table, seen)

    strategy.next_interval = interval  # type: ignore[method-assign]
    run = replay_trace(strategy, trace, PROTOCOL)
    assert new.tolist() == [2, 2]
    assert dates.tolist() == [2, 0]
    assert score_replay(run).lost == 0


def test_a_real_strategy_copes_with_windows_of_many_sizes_and_feeds_without_dates() -> None:
    described = WorldSettings(feeds=60, days=30, low=1, high=30, windows=(5, 40), undated=0.5)
    trace = draw_world(described, make_rng(11)).trace
    assert trace.windows is not None
    lost = {}
    for name in ("value", "commafeed", "two_steps"):
        run = replay_trace(STRATEGIES[name](), trace, ReplaySettings(warmup_days=7.0), per_day=4.0)
        missed = np.isnan(run.obtained) & (trace.times > run.measured) & (trace.times < run.end - DAY)
        share = np.bincount(trace.item_feeds()[missed], minlength=60) / trace.counts
        lost[name] = [share[trace.windows == size].mean() for size in (5, 40)]
    assert all(short >= long for short, long in lost.values())
    assert lost["value"][0] < 0.1


def test_a_ranking_strategy_spends_its_budget_tick_by_tick() -> None:
    trace = Trace.from_lists([[0.0, 9 * DAY]] * 6)
    run = replay_trace(
        Uniform(), trace, ReplaySettings(window=3, history_days=1, warmup_days=2, tick=3600.0), per_day=4.0
    )
    assert run.per_day == pytest.approx(4.0, rel=0.02)
    assert run.polls.max() - run.polls.min() <= 1


def test_strategies_are_steered_at_regular_times() -> None:
    strategy = Adaptive()
    run = replay_trace(strategy, Trace.from_lists([[0.0, 3.0 * DAY]]), PROTOCOL)
    assert np.diff(strategy.steered).tolist() == [3600.0] * (len(strategy.steered) - 1)
    assert strategy.steered[0] == run.begin


def test_stretch_lengthens_all_intervals() -> None:
    trace = Trace.from_lists([[0.0, 40 * DAY]] * 3)
    protocol = ReplaySettings(window=3, history_days=1, warmup_days=1)
    base = replay_trace(Adaptive(), trace, protocol).requests
    assert replay_trace(Adaptive(), trace, protocol, stretch=0.5).requests > 1.4 * base


def test_a_trace_that_is_too_short_is_refused_with_a_sentence() -> None:
    with pytest.raises(TraceError, match="leave nothing to measure"):
        replay_trace(Adaptive(), Trace.from_lists([[0.0, DAY]]), ReplaySettings())
    with pytest.raises(TraceError, match="The window is 0"):
        ReplaySettings(window=0)
