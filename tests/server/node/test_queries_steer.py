"""Queries that steer the polling: at equal cost, more of what they want is caught."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from headwater.arrays import Floats, Rows
from headwater.language import parse
from headwater.language.ast import CreateFeed
from headwater.model import Item
from headwater.node.quality.targets import plan_query_targets
from headwater.node.queries.demand import MIN_WEIGHT, DemandModel, estimate_selectivity
from headwater.query import Engine
from headwater.query.items.origin import Origin
from headwater.query.source_scope import SourceScope
from headwater.schedule import load as load_strategy
from headwater.schedule.selection import Budget
from headwater.schedule.strategy import Observed, Strategy, Table
from headwater.store.queries.selectivity import Selectivity

HOUR, DAY = 3600.0, 86_400.0
FEEDS, WANTED, WINDOW = 48, 12, 5
ORIGINS = {k: Origin(f"f{k}", f"https://{k}.example/") for k in range(FEEDS)}
(QUERY,) = parse('CREATE FEED Volcano AS RETURN ALL WHERE TITLE CONTAINS "volcano" IMPORTANCE 10').queries


class PlannedFeeds:
    """The part of a scheduler that planning uses; rows are the ids of feeds."""

    def __init__(self, table: Table, strategy: Strategy) -> None:
        self.feed_table = self
        self.table = table
        self.active = np.ones(FEEDS, bool)
        self.now = 0.0
        self.strategy = strategy
        self.ids = np.arange(FEEDS)
        self.at_most = np.full(FEEDS, np.inf)

    @staticmethod
    def find_row(feed: int) -> int | None:
        return feed

    def estimate_all_rates(self) -> Floats:
        return self.estimate_rates(np.arange(FEEDS, dtype=np.intp))

    def estimate_rates(self, rows: Rows) -> Floats:
        found = self.strategy.ask_estimator(lambda estimator: estimator.rate(rows, np.full(len(rows), self.now)))
        return np.full(len(rows), np.nan) if found is None else found

    @staticmethod
    def limit_host_paces(now: float) -> None:
        """The feeds have hosts of their own."""


class VolcanoFeeds:
    """Feeds of one rate; a dozen of them are about volcanoes every second time, the others never."""

    def __init__(self, seed: int, days: float) -> None:
        chance = np.random.default_rng(seed)
        self.end = days * DAY
        self.times = [np.sort(chance.uniform(0, self.end, chance.poisson(24 * days))) for _ in range(FEEDS)]
        self.wanted = [chance.random(len(times)) < (0.5 if k < WANTED else 0.0) for k, times in enumerate(self.times)]

    def shown(self, feed: int, since: float, now: float) -> list[tuple[int, bool]]:
        """Return the items of a poll that the one before did not have, among the last of the document."""
        first, last = np.searchsorted(self.times[feed], [since, now])
        return [(n, bool(self.wanted[feed][n])) for n in range(max(first, last - WINDOW), last)]


def polled(
    world: VolcanoFeeds, strategy_name: str, steering: bool, query: CreateFeed = QUERY, own: float = 0.0
) -> tuple[float, float, int]:
    """Completeness and mean delay of the query's results in the second half, and what it cost."""
    strategy = load_strategy(strategy_name)(FEEDS)
    table = Table.of(FEEDS, float(WINDOW))
    engine = Engine()
    for feed, origin in ORIGINS.items():
        engine.set_origin(feed, origin)
    engine.add_query(query)
    offered: Counter[int] = Counter()
    kept: Counter[int] = Counter()
    caught = cost = 0
    waited = 0.0
    scope = SourceScope(ORIGINS, {"volcano": query.query})
    decider = PlannedFeeds(table, strategy)
    for tick, now in enumerate(np.arange(HOUR / 2, world.end, HOUR / 2)):
        if steering and tick % 24 == 0:
            sources = [Selectivity(1, feed, number, offered[feed]) for feed, number in kept.items()]
            wanting = DemandModel({1: query}, scope, sources, offered)
            mine = dict.fromkeys(ORIGINS, own)
            wants = wanting.compute_demand(mine)
            worth = {feed: want.weight * want.selectivity for feed, want in wants.items()}
            decider.now = now
            found = plan_query_targets(wanting, {1: query}, decider, worth, 8 / 60, now)  # type: ignore[arg-type]
            wants = wanting.compute_demand(mine, found.times)
            table.weight[:] = [wants[k].weight for k in range(FEEDS)]
            table.selectivity[:] = [wants[k].selectivity for k in range(FEEDS)]
            table.at_most[:] = [found.deadlines[k].seconds if k in found.deadlines else np.inf for k in range(FEEDS)]
        choice = strategy.choose(table, now, Budget(4, 4 / (HOUR / 2)))
        rows = np.sort(choice.rows)
        start, new = table.last[rows].copy(), []
        for row, since in zip(rows.tolist(), start.tolist(), strict=True):
            found = world.shown(row, since, now)
            new.append(len(found))
            offered[row] += len(found)
            for number, wanted in found:
                item = Item(
                    row, f"{row}-{number}", f"{number}", "volcano" if wanted else "budget", None, now, True, None, now
                )
                hits = len(engine.match(item))
                kept[row] += hits
                if world.times[row][number] > world.end / 2:
                    caught += hits
                    waited += hits * (now - world.times[row][number])
        cost += len(rows) if now > world.end / 2 else 0
        count = len(rows)
        if count:
            size, brought = np.full(count, float(WINDOW)), np.array(new, np.float64)
            seen = Observed(rows, start, np.full(count, now), brought, size, brought >= WINDOW)
            strategy.observe(table, seen)
            table.last[rows] = now
    late = sum(int(world.wanted[k][world.times[k] > world.end / 2].sum()) for k in range(FEEDS))
    return caught / late, waited / max(caught, 1), cost


@pytest.mark.parametrize("strategy", ["value", "top_utility"])
def test_completeness_of_a_query_rises_when_it_steers_the_polling_within_the_same_budget(strategy: str) -> None:
    world = VolcanoFeeds(seed=7, days=8.0)
    alone, _, cost = polled(world, strategy, steering=False)
    steered, _, steered_cost = polled(world, strategy, steering=True)
    assert max(cost, steered_cost) <= 4 * 48 * 4  # four in half an hour, in the four days that are measured
    assert steered > alone + 0.1


def test_a_query_with_a_target_is_served_better_than_without_within_the_same_budget() -> None:
    """Everybody reads all feeds, so that the query alone would hardly be heard."""
    world = VolcanoFeeds(seed=8, days=8.0)
    text = 'CREATE FEED Volcano AS RETURN ALL WHERE TITLE CONTAINS "volcano"'
    (plain,) = parse(text).queries
    (aiming,) = parse(f"{text} TARGET COMPLETENESS >= 0.95 AND DELAY <= 75 MINUTES").queries
    completeness, delay, cost = polled(world, "value", True, plain, own=1.0)
    better, sooner, same = polled(world, "value", True, aiming, own=1.0)
    assert max(cost, same) <= 4 * 48 * 4
    assert better > completeness + 0.08
    assert sooner < delay * 0.9


def test_a_feed_is_worth_the_sum_of_importance_times_selectivity_of_its_queries() -> None:
    script = "CREATE FEED a AS RETURN f1 IMPORTANCE 4; CREATE FEED b AS RETURN f1 | f2; CREATE FEED c AS RETURN b"
    definitions = dict(enumerate(parse(script).queries))
    scope = SourceScope(ORIGINS, {create.name.key: create.query for create in definitions.values()})
    sources = [Selectivity(0, 1, 30, 100), Selectivity(1, 1, 5, 100), Selectivity(1, 2, 50, 50)]
    offers = {1: 100, 2: 50}
    wants = DemandModel(definitions, scope, sources, offers).compute_demand({1: 0.0, 2: 1.0, 3: 0.0})
    worth = {feed: want.weight * want.selectivity for feed, want in wants.items()}
    assert worth[1] == pytest.approx(
        4 * estimate_selectivity(30, 100) + estimate_selectivity(5, 100) + estimate_selectivity(0, 100)
    )
    assert worth[2] == pytest.approx(1.0 + estimate_selectivity(50, 50) + estimate_selectivity(0, 50))
    assert wants[2].selectivity == 1.0  # somebody reads it unfiltered
    assert worth[3] == MIN_WEIGHT
