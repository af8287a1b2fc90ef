"""Finds the budget that reaches the server's target, and how the TARGETs of queries are met.

Both are planned by the plan that the strategy obeys, with its calibration. In target mode the server uses the least
budget that reaches the target. A TARGET DELAY of a query gives its feeds deadlines; a TARGET COMPLETENESS or FRESHNESS
raises their worth; in target mode the budget may rise too. If a target cannot be reached, the outcome says what can.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import msgspec
import numpy as np
import structlog

from headwater.arrays import Floats
from headwater.errors import SettingsError
from headwater.language.ast import CreateFeed
from headwater.node.crawl.crawl_status import TargetOutcome
from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.quality.belief_sample import ASSUMED_RATE, gather_inputs, sample_beliefs
from headwater.node.quality.promises import read_target
from headwater.node.queries.demand import DemandModel
from headwater.schedule.politeness.rules import MIN_INTERVAL
from headwater.schedule.quality.deadlines import BUDGET_SHARE, NO_FEED, DeadlinePlan, plan_deadlines
from headwater.schedule.quality.least_budget import describe_promise, find_budget_for_target
from headwater.schedule.quality.quality_target import QualityTarget
from headwater.schedule.quality.query_targets import QueryTarget, QueryTargetPlan, meet_query_targets, sample_feeds
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.value import Value
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store
from headwater.times import DAY

RETARGET_SECONDS = 120.0  # seconds between two searches for the budget
BUDGET_STEP, MAX_BUDGET_STEPS = 1.5, 8  # by how much, and how often, queries may raise the budget in target mode
STATE, DEADLINES, VERSION = "query targets", "query deadlines", 2

log = structlog.get_logger()


def require_beliefs(strategy: Strategy) -> None:
    """Raise SettingsError if a strategy has no estimates, which target mode needs."""
    if strategy.estimator is None:
        raise SettingsError(
            f"The strategy {strategy.name} believes nothing of the feeds, so no budget can be found for a target: "
            "give a budget, or choose a strategy that learns, such as value."
        )


async def find_target_budget(
    scheduler: Scheduler, target: QualityTarget, most: float | None, now: float, floor: float = 0.0
) -> None:
    """Find the budget and use it, but no less than `floor`; log whenever the target becomes reached or missed."""
    sample = sample_beliefs(scheduler, now)
    if sample is None:
        return
    found = await asyncio.to_thread(find_budget_for_target, target, sample.inputs, most=most)
    found = replace(found, requests_per_minute=_round_budget(found.requests_per_minute, most))
    before, scheduler.target_result = scheduler.target_result, found
    scheduler.budget.set_limit(max(found.requests_per_minute, floor))
    if before is None or before.reached != found.reached:
        write = log.info if found.reached else log.warning
        write("target", reached=found.reached, budget=round(found.requests_per_minute, 1), message=found.message)


def _round_budget(per_minute: float, most: float | None) -> float:
    """Return whole requests per minute, at least one and never above `most`."""
    whole = float(max(math.ceil(per_minute - 1e-9), 1))
    return whole if most is None else min(whole, most)


# TARGET of queries


@dataclass(frozen=True, slots=True)
class Deadline:
    """The interval in seconds that a query needs of a feed for its TARGET DELAY."""

    seconds: float
    query: str


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """The outcomes of all TARGETs, the factor of each query feed by id, and the budget needed for them.

    `deadlines` has the interval of each feed that a TARGET DELAY needs.
    """

    aims: tuple[TargetOutcome, ...]
    times: dict[int, float]
    budget: float
    deadlines: dict[int, Deadline] = field(default_factory=dict)


def plan_query_targets(
    model: DemandModel,
    definitions: Mapping[int, CreateFeed],
    scheduler: Scheduler,
    weights: Mapping[int, float],
    budget: float,
    now: float,
    most: float | None = None,
) -> TargetPlan:
    """Plan all queries with a TARGET within the budget, which may rise to `most` if given. `weights` has the weight of
    each feed without targets."""
    asking = [(id, create) for id, create in definitions.items() if create.query.target is not None]
    if not asking:
        return TargetPlan((), {}, budget)
    table, rates = scheduler.feed_table, scheduler.estimate_all_rates()
    rates = np.where(np.isfinite(rates) & (rates > 0), rates, ASSUMED_RATE)
    worth = np.zeros(len(rates))
    for feed, weight in weights.items():
        row = table.find_row(feed)
        if row is not None and table.active[row]:
            worth[row] = weight
    wishes = [_make_wish(model, id, create, table) for id, create in asking]
    hurries = _plan_all_deadlines(wishes, scheduler, rates, budget if most is None else most)
    deadlines = _collect_deadlines([create.name.name for _, create in asking], wishes, hurries, table)
    if most is not None:  # deadlines may take nine tenths of the budget
        needed = sum(one.requests_per_minute for one in hurries if one is not None) / BUDGET_SHARE
        budget = min(max(budget, needed), most)
    rows, many, small = sample_feeds(wishes, rates)
    inputs = gather_inputs(scheduler, rows, many, now).value_feeds(worth[rows])
    at_most = table.at_most[rows].copy()
    for place, feed in enumerate(table.ids[rows].tolist()):
        if feed in deadlines:
            at_most[place] = min(at_most[place], deadlines[feed].seconds)
    inputs = replace(inputs, constraints=replace(inputs.constraints, at_most=at_most))
    found = meet_query_targets(small, inputs, budget)
    for _ in range(MAX_BUDGET_STEPS if most is not None else 0):
        if all(one.met for one in found) or most is None or budget >= most:
            break
        budget = min(budget * BUDGET_STEP, most)
        found = meet_query_targets(small, inputs, budget)
    aims = tuple(
        _describe_outcome(create.name.name, wish, one, hurry)
        for (_, create), wish, one, hurry in zip(asking, wishes, found, hurries, strict=True)
    )
    times = {id: one.times for (id, _), one in zip(asking, found, strict=True)}
    return TargetPlan(aims, times, budget, deadlines)


def _plan_all_deadlines(
    wishes: Sequence[QueryTarget], scheduler: Scheduler, rates: Floats, budget: float
) -> list[DeadlinePlan | None]:
    """Plan the deadlines of each TARGET DELAY in turn; a query gets the budget that those before it have left.

    Of a feed that has a deadline already, only the requests beyond it cost anything.
    """
    found: list[DeadlinePlan | None] = []
    taken, granted = 0.0, np.full(len(rates), np.inf)
    for wish in wishes:
        if wish.target.delay is None:
            found.append(None)
            continue
        rows = wish.rows
        feeds, strategy = scheduler.feed_table.table, scheduler.strategy
        hurry = plan_deadlines(
            wish.target.delay,
            rates[rows],
            np.sqrt(rates[rows] / DAY),  # as uncertain as a day of counting leaves it
            wish.share,
            feeds.cost[rows] * np.maximum(1 - wish.target.delay / granted[rows], 1e-6),
            np.maximum(feeds.pause[rows], MIN_INTERVAL),
            budget,
            interval=strategy.estimate_intervals(feeds, rows) if isinstance(strategy, Value) else None,
            taken=taken,
        )
        taken += hurry.requests_per_minute
        granted[rows[hurry.chosen]] = np.minimum(granted[rows[hurry.chosen]], hurry.seconds)
        found.append(hurry)
    return found


def _collect_deadlines(
    names: Sequence[str], wishes: Sequence[QueryTarget], hurries: Sequence[DeadlinePlan | None], table: FeedTable
) -> dict[int, Deadline]:
    """Return the shortest deadline of each feed, and the query that sets it."""
    deadlines: dict[int, Deadline] = {}
    for name, wish, hurry in zip(names, wishes, hurries, strict=True):
        for row in wish.rows[hurry.chosen].tolist() if hurry is not None else ():
            feed = int(table.ids[row])
            if hurry is not None and (feed not in deadlines or hurry.seconds < deadlines[feed].seconds):
                deadlines[feed] = Deadline(hurry.seconds, name)
    return deadlines


def _make_wish(model: DemandModel, id: int, create: CreateFeed, table: FeedTable) -> QueryTarget:
    target = read_target(create)
    assert target is not None
    rows = [(row, feed) for feed in sorted(model.list_feeds(id)) if (row := table.find_row(feed)) is not None]
    rows = [(row, feed) for row, feed in rows if table.active[row]]
    importance = 1.0 if create.query.importance is None else create.query.importance
    return QueryTarget(
        target,
        np.array([row for row, _ in rows], np.intp),
        np.array([model.estimate_selectivity(id, feed) for _, feed in rows], np.float64),
        max(importance, 0.01),
    )


def _describe_outcome(name: str, wish: QueryTarget, one: QueryTargetPlan, hurry: DeadlinePlan | None) -> TargetOutcome:
    """Say whether a TARGET can be met: its deadline first, then completeness and freshness."""
    if not len(wish.rows):
        return TargetOutcome(name, False, 0.0, None, None, None, 0, NO_FEED)
    parts = [hurry.message] if hurry is not None else []
    if one.problem:
        parts.append(one.problem)
    elif wish.shares is not None:
        how = (
            f"by letting its feeds count {one.times:.1f} times as much" if one.times > 1 else "with the budget as it is"
        )
        parts.append(f"Met {how}: {describe_promise(one.promise)} are expected.")
    spent = one.spent if hurry is None else hurry.requests_per_minute
    reached = one.met and (hurry is None or hurry.reached)
    figures = one.promise.completeness, one.promise.freshness, one.promise.delay
    return TargetOutcome(name, reached, spent, *figures, len(wish.rows), " ".join(parts), one.times)


def note_broken_target(outcome: TargetOutcome, broken: str | None) -> TargetOutcome:
    """Return an outcome that is not reached if the target was measured as broken, for the reason given."""
    if broken is None:
        return outcome
    more = "" if outcome.message in broken else f" {outcome.message}"
    return replace(outcome, reached=False, message=" ".join(f"Not kept. {broken}{more}".split()))


async def save_outcomes(store: Store, aims: Sequence[TargetOutcome], now: float) -> None:
    """Save how the targets stand, so that every process can show it."""
    await store.write(save_state, STATE, VERSION, msgspec.json.encode([asdict(aim) for aim in aims]), now)


async def load_outcomes(store: Store) -> dict[str, TargetOutcome]:
    """Load the latest outcomes of the server, by the name of the query feed."""
    saved = await store.read(load_state, STATE)
    if saved is None or saved[0] != VERSION:
        return {}
    return {aim.query: aim for aim in msgspec.json.decode(saved[1], type=list[TargetOutcome])}


async def save_deadlines(store: Store, deadlines: Mapping[int, Deadline], now: float) -> None:
    """Save the deadlines of feeds for other processes."""
    await store.write(save_state, DEADLINES, VERSION, msgspec.json.encode(deadlines), now)


async def load_deadlines(store: Store) -> dict[int, Deadline]:
    """Load the latest deadlines of the server, by feed."""
    saved = await store.read(load_state, DEADLINES)
    if saved is None or saved[0] != VERSION:
        return {}
    return msgspec.json.decode(saved[1], type=dict[int, Deadline])
