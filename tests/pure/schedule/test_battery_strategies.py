"""Runs the same checks on every registered strategy."""

from __future__ import annotations

import copy
import sys
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Ragged
from headwater.errors import StrategyError
from headwater.estimate.models.smoothing import PeriodicRate
from headwater.schedule import STRATEGIES
from headwater.schedule.selection import Budget, Choice, take_best
from headwater.schedule.strategies.two_steps import TopUtility
from headwater.schedule.strategy import Observed, Strategy, Table
from headwater.times import DAY, HOUR

EPOCH = 20_000 * DAY + 7 * HOUR
FEEDS = 12

every = pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in STRATEGIES.items()])
fair = pytest.mark.parametrize("kind", [pytest.param(k, id=n) for n, k in STRATEGIES.items() if k.fair])
monotone = pytest.mark.parametrize("kind", [pytest.param(k, id=n) for n, k in STRATEGIES.items() if k.monotone])


class PolledFeeds:
    """Feeds that publish with given rates, polled by a strategy at regular ticks; `order` is the row of each feed.

    Randomness is tied to the feed, not to its row, so that two worlds differ only in the decisions of the strategy.
    """

    def __init__(self, strategy: Strategy, rates: np.ndarray, order: np.ndarray | None = None, seed: int = 1) -> None:
        self.strategy = strategy
        feeds = len(rates)
        self.row = np.arange(feeds) if order is None else order  # feed f lives in row[f]
        self.feed = np.argsort(self.row)
        self.table = Table.of(feeds)
        self.items = [
            EPOCH - 20 * DAY + np.sort(np.random.default_rng([seed, f]).random(int(r * 80 * DAY)) * 80 * DAY)
            for f, r in enumerate(rates)
        ]
        self.table.window[:] = 10.0
        self.polls: list[tuple[float, int]] = []

    def tick(self, now: float, budget: Budget, candidates: np.ndarray | None = None) -> Choice:
        choice = self.strategy.choose(self.table, now, budget, candidates)
        if len(choice.rows):
            seen = self.seen(choice.rows, now)
            self.strategy.observe(self.table, seen)
            self.table.last[choice.rows] = now
            self.polls += [(now, int(f)) for f in self.feed[choice.rows]]
        return choice

    def seen(self, rows: np.ndarray, now: float) -> Observed:
        last = self.table.last[rows]
        shown, fresh = [], []
        for row, since in zip(rows, last, strict=True):
            past = self.items[self.feed[row]]
            window = past[past <= now][-10:]
            shown.append(window)
            fresh.append(window[window > since])
        count = np.array([len(f) for f in fresh], float)
        size = np.array([len(s) for s in shown], float)
        return Observed(
            rows, last, np.full(len(rows), now), count, size,
            (count >= 10) & np.isfinite(last), Ragged.of(fresh), Ragged.of(shown), np.full(len(rows), 2000.0),
        )  # fmt: skip

    def run(self, ticks: int, every: float = HOUR, now: int = 3, rate: float | None = None) -> PolledFeeds:
        for k in range(ticks):
            self.tick(EPOCH + k * every, Budget(now, now / every if rate is None else rate))
        return self


RATES = np.array([0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 0.02, 6.0, 0.3, 12.0]) / DAY * 4


@every
def test_answers_before_it_has_learned_anything(kind: type[Strategy]) -> None:
    choice = kind(FEEDS).choose(Table.of(FEEDS), EPOCH, Budget(3, 0.001))
    assert len(choice.rows) == (3 if kind.within_budget else FEEDS)
    assert not np.isnan(choice.value).any()
    assert kind(FEEDS).why(Table.of(FEEDS), 4, EPOCH)


@every
@given(
    ticks=st.lists(
        st.tuples(
            st.builds(Budget, st.integers(0, 20), st.sampled_from([0.0, 1e-6, 1e-3, 1.0])),
            st.lists(st.booleans(), min_size=FEEDS, max_size=FEEDS),
            st.sampled_from([60.0, HOUR, 3 * DAY]),
        ),
        min_size=15,
        max_size=15,
    )
)
@settings(max_examples=4, deadline=None)
def test_chooses_only_candidates_once_each_within_the_budget(
    kind: type[Strategy], ticks: list[tuple[Budget, list[bool], float]]
) -> None:
    world, now = PolledFeeds(kind(FEEDS), RATES), EPOCH
    for budget, mask, pause in ticks:
        now += pause
        allowed = np.array(mask)
        choice = world.tick(now, budget, allowed)
        assert allowed[choice.rows].all()
        assert len(np.unique(choice.rows)) == len(choice.rows)
        assert not np.isnan(choice.value).any()
        assert len(choice.rows) <= budget.now or not kind.within_budget


@every
def test_keeps_within_the_room_of_each_host(kind: type[Strategy]) -> None:
    if not kind.within_budget:
        return  # `reference` ignores limits
    world = PolledFeeds(kind(FEEDS), RATES).run(40)
    host, room = np.arange(FEEDS) % 3, np.array([1, 0, 2])
    for days in range(40):
        now = EPOCH + (3 + days) * DAY
        chosen = world.strategy.choose(world.table, now, Budget(9, 0.001, host, room)).rows
        assert (np.bincount(host[chosen], minlength=3) <= room).all()


@every
def test_does_not_change_its_inputs(kind: type[Strategy]) -> None:
    world = PolledFeeds(kind(FEEDS), RATES).run(20)
    table, mask = copy.deepcopy(world.table), np.ones(FEEDS, bool)
    seen = world.seen(np.arange(5), EPOCH + 2 * DAY)
    kept = copy.deepcopy(seen)
    world.strategy.choose(world.table, EPOCH + 2 * DAY, Budget(4, 0.001), mask)
    world.strategy.observe(world.table, seen)
    world.strategy.why(world.table, 2, EPOCH + 2 * DAY)
    world.strategy.observe_failures(world.table, np.array([7]), np.array([EPOCH]), np.array([4]))
    assert mask.all()
    for field in fields(Table):
        old, new = getattr(table, field.name), getattr(world.table, field.name)
        assert old is new or np.array_equal(old, new, equal_nan=True), field.name
    for field in fields(Observed):
        old, new = getattr(kept, field.name), getattr(seen, field.name)
        if isinstance(new, np.ndarray):
            assert np.array_equal(old, new), field.name


@every
def test_reasons_of_many_feeds_are_those_of_each(kind: type[Strategy]) -> None:
    world = PolledFeeds(kind(FEEDS), RATES).run(4)  # at two or three feeds a tick not all have been refreshed
    now = EPOCH + 2 * DAY
    each = [world.strategy.why(world.table, row, now) for row in range(FEEDS)]
    assert world.strategy.reasons(world.table, np.arange(FEEDS), now) == each


@every
def test_the_order_of_rows_does_not_matter(kind: type[Strategy]) -> None:
    """The same feeds in other rows have the same value at every tick. Rows may break ties, so the second world follows
    the choices of the first.
    """
    here = PolledFeeds(kind(FEEDS), RATES)
    there = PolledFeeds(kind(FEEDS), RATES, np.random.default_rng(5).permutation(FEEDS))
    for k in range(120):
        now = EPOCH + k * HOUR * 0.99
        a, b = (w.strategy.choose(w.table, now, Budget(2, 2 / HOUR)) for w in (here, there))
        assert np.sort(a.value) == pytest.approx(np.sort(b.value), rel=1e-5)
        for world, rows in ((here, a.rows), (there, there.row[here.feed[a.rows]])):
            world.strategy.observe(world.table, world.seen(rows, now))
            world.table.last[rows] = now


@every
def test_is_the_same_after_saving_and_loading(kind: type[Strategy]) -> None:
    whole = PolledFeeds(kind(FEEDS), RATES).run(60)
    again = copy.deepcopy(whole)
    again.strategy = kind(0)
    again.strategy.load(whole.strategy.save())
    assert len(again.strategy) == FEEDS
    for k in range(200):
        now = EPOCH + 60 * HOUR + k * HOUR
        a, b = (w.tick(now, Budget(2, 2 / HOUR)) for w in (whole, again))
        assert a.rows.tolist() == b.rows.tolist()
        assert a.value == pytest.approx(b.value)


@every
def test_state_of_another_version_is_refused(kind: type[Strategy]) -> None:
    strategy = kind(FEEDS)
    state = strategy.save() | {"_class": np.array("something/1")}
    with pytest.raises(StrategyError, match="start without it"):
        strategy.load(state)


@every
def test_memory_is_bounded_and_resizing_keeps_state(kind: type[Strategy]) -> None:
    world = PolledFeeds(kind(FEEDS), RATES)
    before = world.strategy.bytes_per_feed
    world.run(150)
    assert world.strategy.bytes_per_feed == before
    state = world.strategy.save()
    world.strategy.resize(FEEDS + 5)
    assert len(world.strategy) == FEEDS + 5
    for key, array in world.strategy.save().items():
        if key in state and array.shape[:1] == (FEEDS + 5,):
            assert np.array_equal(array[:FEEDS], state[key], equal_nan=True)
    world.table = Table.of(FEEDS + 5)
    world.table.last[:FEEDS] = EPOCH
    choice = world.strategy.choose(world.table, EPOCH + 200 * HOUR, Budget(5, 5 / HOUR))
    if kind.name != "only_sat":
        assert set(range(FEEDS, FEEDS + 5)) <= set(choice.rows.tolist()), "new feeds come first"


@fair
def test_no_feed_starves(kind: type[Strategy]) -> None:
    """With one poll every two hours for twelve feeds, a fair strategy refreshes each again within forty days."""
    world = PolledFeeds(kind(FEEDS), RATES)
    for k in range(480):
        world.tick(EPOCH + k * 2 * HOUR, Budget(1, 1 / (2 * HOUR)))
    late = [f for at, f in world.polls if at > EPOCH + 2 * DAY]
    assert set(late) == set(range(FEEDS))


@monotone
def test_a_higher_rate_never_lowers_the_priority(kind: type[Strategy]) -> None:
    """Of two feeds with the same history of polls, the busier one is never refreshed less often afterwards."""
    rates = np.full(FEEDS, 0.5 / HOUR)
    rates[1] = 2.0 / HOUR
    world = PolledFeeds(kind(FEEDS), rates)
    for k in range(60):  # both learn from refreshes at the same times
        now = EPOCH + k * 3 * HOUR
        world.strategy.observe(world.table, world.seen(np.arange(FEEDS), now))
        world.table.last[:] = now
    start = EPOCH + 60 * 3 * HOUR
    for k in range(240):
        world.tick(start + k * HOUR / 2, Budget(2, 4 / HOUR))
    count = np.bincount([f for at, f in world.polls], minlength=FEEDS)
    assert count[1] >= np.sort(count)[len(count) // 2] - 1


@every
def test_empty_budget_and_empty_table_choose_nothing(kind: type[Strategy]) -> None:
    if kind.within_budget:
        assert len(kind(FEEDS).choose(Table.of(FEEDS), EPOCH, Budget(0, 0.0)).rows) == 0
    assert len(kind(0).choose(Table.of(0), EPOCH, Budget(5, 1.0)).rows) == 0


@every
def test_explains_every_feed_in_words_and_numbers(kind: type[Strategy]) -> None:
    world = PolledFeeds(kind(FEEDS), RATES).run(60)
    for row in range(FEEDS):
        decision = world.strategy.explain(world.table, row, EPOCH + 3 * DAY)
        assert decision.reason
        assert decision.value is None or not np.isnan(decision.value)
        assert decision.due is None or not np.isnan(decision.due)


@every
def test_has_a_rule_a_source_and_an_example(kind: type[Strategy]) -> None:
    documentation = (kind.__doc__ or "") + (sys.modules[kind.__module__].__doc__ or "")
    assert len(documentation) > 100
    assert ">>>" in documentation


def test_lazy_choice_of_the_best_utilities_equals_the_eager_one() -> None:
    """`top_utility` integrates only the promising feeds; scoring all of them must choose the same."""
    rng, feeds = np.random.default_rng(8), 500
    estimator = PeriodicRate(feeds)
    estimator.set_slots(np.arange(feeds), rng.gamma(0.3, 1.0, (feeds, 24)))
    strategy, table = TopUtility(feeds, estimator=estimator), Table.of(feeds)
    table.last[:] = EPOCH - rng.uniform(0, 3 * DAY, feeds)
    table.last[3] = -np.inf
    for budget in (1, 7, 40):
        lazy = strategy.choose(table, EPOCH, Budget(budget))
        eager = take_best(np.arange(feeds), strategy.value_feeds(table, np.arange(feeds), EPOCH), Budget(budget))
        assert lazy.rows.tolist() == eager.rows.tolist()
        assert lazy.value == pytest.approx(eager.value)
