"""Measures one decision over many feeds, beside the floor: one numpy pass over the bytes of beliefs and table.

`python -m bench.schedule [--small]` prints, for 10k, 100k and 1M feeds with 24 and 168 slots, the CPU time of one
decision (score every feed, take the best), its ratio to the floor, and the bytes per feed. Floor and decisions are
measured in turn. `value`, the server's default, has its own slots (336 shared by all feeds, 48 factors for each) and is
listed at 0 slots.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from headwater.arrays import Bools
from headwater.estimate.models.smoothing import PeriodicRate
from headwater.schedule.politeness.rules import PolitenessFacts, find_candidates
from headwater.schedule.selection import Budget
from headwater.schedule.strategies.advarss import AdvaRSS
from headwater.schedule.strategies.two_steps import OnlyTau, TopUtility, TwoSteps
from headwater.schedule.strategy import Strategy, Table
from headwater.schedule.value.value import Value
from headwater.times import DAY, HOUR, WEEK

SIZES = (10_000, 100_000, 1_000_000)
NOW = 20_000 * DAY + 12_345.0


@dataclass(frozen=True)
class Line:
    """One measured decision."""

    what: str
    feeds: int
    slots: int
    seconds: float
    floor: float
    bytes_per_feed: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.floor


def measure_in_turn(rounds: int, *acts: Callable[[], object]) -> list[float]:
    """Return the median CPU time of each function, measured in turn.

    So none finds the memory as it left it, and a slow phase of the machine slows all. First calls, which compile, do
    not count.
    """
    for act in acts:
        act()
    spent: list[list[float]] = [[] for _ in acts]
    for _ in range(rounds):
        for act, times in zip(acts, spent, strict=True):
            start = time.process_time()
            act()
            times.append(time.process_time() - start)
    return [median(times) for times in spent]


def make_table(feeds: int) -> Table:
    rng = np.random.default_rng(1)
    table = Table.of(feeds)
    table.last[:] = NOW - rng.uniform(60, 3 * DAY, feeds)
    table.weight[:] = rng.uniform(0.5, 2, feeds)
    return table


def beliefs(feeds: int, slots: int) -> PeriodicRate:
    estimator = PeriodicRate(feeds, slots=slots, period=DAY if slots == 24 else WEEK)
    upto = estimator.save()["upto"] * np.random.default_rng(2).uniform(0.1, 10, (feeds, 1)).astype(np.float32)
    estimator.load({**estimator.save(), "upto": upto})
    return estimator


def measure(feeds: int, slots: int, rounds: int) -> list[Line]:
    table, budget = make_table(feeds), Budget(max(feeds // 1000, 1), feeds / DAY)
    estimator = beliefs(feeds, slots)
    state = estimator._columns["upto"]
    columns = [table.last, table.window, table.weight, table.selectivity, table.cost, table.divergence]
    asked = TopUtility(estimator=estimator)
    asked.choose(table, NOW, budget)
    price = asked.price  # a typical threshold after convergence
    strategies: list[Strategy] = [
        AdvaRSS(estimator=estimator),
        TopUtility(estimator=estimator),
        TwoSteps(estimator=estimator),
        OnlyTau(estimator=estimator, tau=price),
    ]
    for one in strategies:
        one.resize(feeds)
    floor, *seconds = measure_in_turn(
        rounds,
        lambda: [state.sum(), *(column.sum() for column in columns)],
        *(partial(one.choose, table, NOW, budget) for one in strategies),
    )
    return [
        Line(one.name, feeds, slots, spent, floor, one.bytes_per_feed)
        for one, spent in zip(strategies, seconds, strict=True)
    ]


def measure_value(feeds: int, rounds: int) -> Line:
    table, strategy = make_table(feeds), Value(price=0.1)
    strategy.resize(feeds)
    strategy.due[:] = table.last + np.random.default_rng(3).uniform(DAY, 4 * DAY, feeds)
    arrays = [*strategy.beliefs._columns.values(), strategy.due, table.divergence]
    budget = Budget(max(feeds // 1000, 1), feeds / DAY)
    floor, seconds = measure_in_turn(
        rounds, lambda: [array.sum() for array in arrays], lambda: strategy.choose(table, NOW, budget)
    )
    return Line("value", feeds, 0, seconds, floor, strategy.bytes_per_feed)


def measure_manners(feeds: int, rounds: int) -> Line:
    standing = make_facts(feeds)
    arrays = [getattr(standing, name) for name in PolitenessFacts.__slots__]
    floor, seconds = measure_in_turn(
        rounds, lambda: [array.sum() for array in arrays], lambda: find_candidates(standing, NOW)
    )
    return Line("manners", feeds, 0, seconds, floor, sum(a.nbytes for a in arrays) / feeds)


def make_facts(feeds: int) -> PolitenessFacts:
    """Make the politeness facts of a typical server.

    A tenth of the feeds fails, a third gives a time in headers or document, few skip hours or are pushed.
    """
    rng, standing = np.random.default_rng(4), PolitenessFacts.of(feeds)

    def some(share: float) -> Bools:
        return rng.random(feeds) < share

    standing.last[:] = standing.success[:] = make_table(feeds).last
    standing.change[:] = standing.success - rng.exponential(DAY, feeds)
    standing.jitter[:] = rng.random(feeds)
    standing.failures[some(0.1)] = 2
    standing.validators[some(0.2)] = False
    standing.pushed[some(0.02)] = True
    standing.skip_hours[some(0.01)] = 0b11111111
    fresh, wishing = some(0.2), some(0.15)
    standing.fresh_until[fresh] = standing.success[fresh] + HOUR
    standing.wish[wishing] = HOUR
    return standing


def main(small: bool = False) -> list[Line]:
    sizes, rounds = ((1_000, 10_000), 3) if small else (SIZES, 15)
    lines = []
    print(f"{'decision':12} {'feeds':>9} {'slots':>5} {'ms':>9} {'floor ms':>9} {'ratio':>6} {'bytes/feed':>10}")
    for feeds in sizes:
        for slots in (24, 168):
            lines += measure(feeds, slots, rounds)
        lines += [measure_value(feeds, rounds), measure_manners(feeds, rounds)]
    for one in lines:
        print(
            f"{one.what:12} {one.feeds:9,} {one.slots:5} {one.seconds * 1e3:9.2f} {one.floor * 1e3:9.2f}"
            f" {one.ratio:6.1f} {one.bytes_per_feed:10.0f}"
        )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a smoke run")
    main(parser.parse_args().small)
