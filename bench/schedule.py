"""One decision over many feeds, beside the floor: one numpy pass over the bytes of beliefs and table.

`python -m bench.schedule [--small]` prints, for 10k, 100k and 1M feeds with 24 and 168 slots, the CPU time of one
decision (score every feed, take the best), its ratio to the floor, and the bytes per feed. `value`, the server's
default, has slots of its own (336 shared by all feeds, 48 factors for each) and has its line at 0 slots.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headwater.estimate.base import DAY, WEEK
from headwater.estimate.periodic import Periodic
from headwater.schedule.advarss import AdvaRSS
from headwater.schedule.base import Budget, Strategy, Table
from headwater.schedule.manners import Standing, candidates
from headwater.schedule.only_tau import OnlyTau
from headwater.schedule.top_utility import TopUtility
from headwater.schedule.two_steps import TwoSteps
from headwater.schedule.value import Value

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


def best_of(times: int, act: Callable[[], object]) -> float:
    """The shortest of several runs, in CPU time: what the machine can do when nobody else uses it."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        act()
        spent.append(time.process_time() - start)
    return min(spent)


def table_of(feeds: int) -> Table:
    rng = np.random.default_rng(1)
    table = Table.of(feeds)
    table.last[:] = NOW - rng.uniform(60, 3 * DAY, feeds)
    table.weight[:] = rng.uniform(0.5, 2, feeds)
    return table


def beliefs(feeds: int, slots: int) -> Periodic:
    estimator = Periodic(feeds, slots=slots, period=DAY if slots == 24 else WEEK)
    upto = estimator.save()["upto"] * np.random.default_rng(2).uniform(0.1, 10, (feeds, 1)).astype(np.float32)
    estimator.load({**estimator.save(), "upto": upto})
    return estimator


def measure(feeds: int, slots: int, repeats: int) -> list[Line]:
    table, budget, lines = table_of(feeds), Budget(max(feeds // 1000, 1), feeds / DAY), []
    estimator = beliefs(feeds, slots)
    state = estimator._columns["upto"]
    columns = [table.last, table.window, table.weight, table.selectivity, table.cost, table.divergence]
    floor = best_of(repeats, lambda: [state.sum(), *(column.sum() for column in columns)])
    asked = TopUtility(estimator=estimator)
    asked.choose(table, NOW, budget)
    price = asked.price  # where a threshold would have settled
    kinds: list[tuple[str, Callable[[], Strategy]]] = [
        ("advarss", lambda: AdvaRSS(estimator=estimator)),
        ("top_utility", lambda: TopUtility(estimator=estimator)),
        ("two_steps", lambda: TwoSteps(estimator=estimator)),
        ("only_tau", lambda: OnlyTau(estimator=estimator, tau=price)),
    ]
    for name, make in kinds:
        strategy = make()
        strategy.resize(feeds)
        seconds = best_of(repeats, lambda chosen=strategy: chosen.choose(table, NOW, budget))  # type: ignore[misc]
        lines.append(Line(name, feeds, slots, seconds, floor, strategy.bytes_per_feed))
    return lines


def measure_value(feeds: int, repeats: int) -> Line:
    table, strategy = table_of(feeds), Value(price=0.1)
    strategy.resize(feeds)
    strategy.due[:] = table.last + np.random.default_rng(3).uniform(DAY, 4 * DAY, feeds)
    state = list(strategy.beliefs._columns.values())
    floor = best_of(repeats, lambda: [column.sum() for column in (*state, strategy.due, table.divergence)])
    budget = Budget(max(feeds // 1000, 1), feeds / DAY)
    seconds = best_of(repeats, lambda: strategy.choose(table, NOW, budget))
    return Line("value", feeds, 0, seconds, floor, strategy.bytes_per_feed)


def measure_manners(feeds: int, repeats: int) -> Line:
    standing = Standing.of(feeds)
    standing.last[:] = standing.success[:] = table_of(feeds).last
    arrays = [getattr(standing, name) for name in Standing.__slots__]
    floor = best_of(repeats, lambda: [array.sum() for array in arrays])
    seconds = best_of(repeats, lambda: candidates(standing, NOW))
    return Line("manners", feeds, 0, seconds, floor, sum(a.nbytes for a in arrays) / feeds)


def main(small: bool = False) -> list[Line]:
    sizes, repeats = ((1_000, 10_000), 3) if small else (SIZES, 15)
    lines = []
    print(f"{'decision':12} {'feeds':>9} {'slots':>5} {'ms':>9} {'floor ms':>9} {'ratio':>6} {'bytes/feed':>10}")
    for feeds in sizes:
        for slots in (24, 168):
            lines += measure(feeds, slots, repeats)
        lines += [measure_value(feeds, repeats), measure_manners(feeds, repeats)]
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
