"""Lossless polling has the same delays as a simulation of single items."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Bools
from headwater.errors import TraceError
from headwater.lab.experiment import make_strategy
from headwater.lab.simulation.cycles import make_rng
from headwater.lab.simulation.lossless_polling import simulate_polling
from headwater.lab.traces.synthetic_world import WorldSettings, draw_world
from headwater.lab.traces.trace import Trace
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategy import Observed, Strategy, Table
from headwater.times import DAY


class Diary(Strategy):
    """Refreshes random feeds and records when."""

    name = "diary"

    def __init__(self, feeds: int = 0, seed: int = 0) -> None:
        super().__init__(feeds)
        self._rng = np.random.default_rng(seed)
        self.seen: list[Observed] = []

    def observe(self, table: Table, seen: Observed) -> None:
        self.seen.append(seen)

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        assert candidates is not None
        rows = self._rng.permutation(np.flatnonzero(candidates))[: budget.now]
        return Choice(rows, np.ones(len(rows)))

    def why(self, table: Table, row: int, now: float) -> str:
        return "chance"


@given(st.integers(0, 10_000), st.sampled_from([0.5, 2.0, 6.0]))
@settings(max_examples=15, deadline=None)
def test_delays_are_those_of_every_single_item(seed: int, per_day: float) -> None:
    trace = draw_world(WorldSettings(feeds=5, days=6, low=0, high=9), make_rng(seed)).trace
    diary = Diary(seed=seed)
    found = simulate_polling(diary, trace, per_day, 2.0, make_rng(seed, 1), tick=3600.0)
    since, end = trace.start + 3 * DAY, trace.end
    polls: dict[int, list[float]] = {feed: [] for feed in range(5)}
    for seen in diary.seen[1:]:
        for row, at in zip(seen.rows, seen.end, strict=True):
            polls[int(row)].append(float(at))
    delays = [
        min([at for at in polls[feed] if at >= when], default=end) - when
        for feed in range(5)
        for when in trace.feed_times(feed)
        if since < when <= end
    ]
    assert found.items == len(delays)
    assert found.mean_delay == pytest.approx(np.mean(delays) if delays else 0.0, abs=1e-3)
    assert found.sd_delay == pytest.approx(np.std(delays) if delays else 0.0, abs=1.0)
    assert found.max_delay == pytest.approx(max(delays, default=0.0), abs=1e-3)
    assert found.requests == sum(at >= since for times in polls.values() for at in times)


@given(st.integers(0, 10_000), st.sampled_from([0.5, 2.0]))
@settings(max_examples=10, deadline=None)
def test_age_and_freshness_are_those_of_copies_looked_at_every_minute(seed: int, per_day: float) -> None:
    trace = draw_world(WorldSettings(feeds=3, days=5, low=0, high=4), make_rng(seed)).trace
    diary = Diary(seed=seed)
    found = simulate_polling(diary, trace, per_day, 1.0, make_rng(seed, 1), tick=3600.0)
    begin, since, end = trace.start + DAY, trace.start + 2 * DAY, trace.end
    ages, fresh = [], []
    for feed in range(3):
        items = trace.feed_times(feed)
        polls = [begin] + [float(seen.end[k]) for seen in diary.seen[1:] for k in np.flatnonzero(seen.rows == feed)]
        for now in np.arange(since, end, 60.0):
            last = max(at for at in polls if at <= now)
            waiting = items[(items > last) & (items <= now)]
            ages.append(now - waiting.min() if len(waiting) else 0.0)
            fresh.append(not len(waiting))
    assert found.mean_age == pytest.approx(np.mean(ages), rel=0.01, abs=120)
    assert found.fresh_copies == pytest.approx(np.mean(fresh), abs=0.005)


def test_a_copy_is_as_old_as_its_oldest_waiting_item() -> None:
    """One item, published six hours before the end and never read: stale for a quarter of the day, three hours old on
    average in that time."""
    trace = Trace.from_lists([[0.0, 2.75 * DAY, 3.0 * DAY]])

    class Silent(Diary):
        def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
            return Choice(np.empty(0, dtype=np.intp), np.empty(0))

    found = simulate_polling(Silent(), trace, 1.0, 1.0, make_rng(1))
    assert found.fresh_copies == pytest.approx(0.75)
    assert found.mean_age == pytest.approx(0.25 * 0.125 * DAY)


def test_a_strategy_learns_the_whole_history_once_and_then_only_what_is_new() -> None:
    trace = draw_world(WorldSettings(feeds=4, days=8, low=5, high=9), make_rng(1)).trace
    diary = Diary()
    simulate_polling(diary, trace, 3.0, 5.0, make_rng(2))
    first = diary.seen[0]
    assert first.rows.tolist() == [0, 1, 2, 3]
    until = trace.start + 5 * DAY
    expected = [((trace.feed_times(feed) > trace.start) & (trace.feed_times(feed) <= until)).sum() for feed in range(4)]
    assert first.new.tolist() == expected  # the very first item lies on the edge of the history, not in it
    dates = np.concatenate([seen.published.times for seen in diary.seen if seen.published is not None])
    assert len(dates) == len(set(dates.tolist()))


def test_a_trace_shorter_than_its_learning_is_refused() -> None:
    trace = draw_world(WorldSettings(feeds=2, days=3), make_rng(1)).trace
    with pytest.raises(TraceError, match="leave nothing to measure"):
        simulate_polling(make_strategy("uniform", 2), trace, 1.0, 14.0, make_rng(1))


def test_round_robin_polls_every_feed_equally_often() -> None:
    trace = draw_world(WorldSettings(feeds=48, days=9), make_rng(1)).trace
    found = simulate_polling(make_strategy("uniform", 48), trace, 1.0, 1.0, make_rng(1))
    assert found.requests / 48 / ((trace.end - trace.start) / DAY - 2) == pytest.approx(1.0, abs=0.05)
    assert found.mean_delay == pytest.approx(DAY / 2, rel=0.1)
