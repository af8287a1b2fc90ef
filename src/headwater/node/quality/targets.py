"""Finds the budget that reaches the server's target, and the weights that reach the TARGETs of queries.

In target mode the server uses the least budget that reaches the target by the estimates of its feeds. The TARGET of a
query raises the weight of its feeds until the model expects to reach it within the budget; in target mode the budget
may rise too. Both follow the estimates, within the budget given by the operator and the pauses of politeness. If a
target cannot be reached, the outcome says so, with the quality that can.
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
from headwater.node.queries.demand import DemandModel
from headwater.schedule.politeness.rules import LEAST_INTERVAL
from headwater.schedule.quality.deadlines import DeadlinePlan, plan_deadlines
from headwater.schedule.quality.least_budget import BudgetPlan, QualityTarget, find_least_budget
from headwater.schedule.quality.query_targets import QueryTarget, QueryTargetPlan, meet_query_targets
from headwater.schedule.strategy import Strategy
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store
from headwater.times import DAY, MINUTE

RETARGET_SECONDS = 120.0  # seconds between two searches for the budget
SAMPLE_SIZE = 2000  # feeds that stand for all of them
ASSUMED_RATE = 1.0 / DAY  # of a feed without an estimate
BUDGET_STEP, MAX_BUDGET_STEPS = 1.25, 12  # by how much, and how often, queries may raise the budget in target mode
STATE, DEADLINES, VERSION = "query targets", "query deadlines", 1

log = structlog.get_logger()


def require_beliefs(strategy: Strategy) -> None:
    """Raise SettingsError if a strategy has no estimates, which target mode needs."""
    if strategy.estimator is None:
        raise SettingsError(
            f"The strategy {strategy.name} believes nothing of the feeds, so no budget can be found for a target: "
            "give a budget, or choose a strategy that learns, such as value."
        )


async def find_target_budget(
    scheduler: Scheduler,
    target: QualityTarget,
    most: float | None,
    least_interval: float,
    now: float,
    floor: float = 0.0,
) -> None:
    """Find the budget and use it, but no less than `floor`; log whenever the target becomes reached or missed."""
    believed = collect_beliefs(scheduler, now)
    if believed is None:
        return
    rates, windows, weights = believed
    found = await asyncio.to_thread(estimate_least_budget, target, rates, windows, weights, most, least_interval)
    before, scheduler.target_result = scheduler.target_result, found
    scheduler.budget.set_limit(max(found.requests_per_minute, floor))
    if before is None or before.reached != found.reached:
        say = log.info if found.reached else log.warning
        say("target", reached=found.reached, budget=round(found.requests_per_minute, 1), message=found.message)


def collect_beliefs(scheduler: Scheduler, now: float) -> tuple[Floats, Floats, Floats] | None:
    """Return rates (items per second), windows and weights of the active feeds; None if there are no estimates."""
    table = scheduler.feed_table.table
    rows = np.flatnonzero(scheduler.feed_table.active & np.isfinite(table.last))
    if not len(rows):
        return None
    rates = scheduler.strategy.ask_estimator(lambda estimator: estimator.daily_rate(rows, np.full(len(rows), now)))
    if rates is None:
        return None
    return rates, table.window[rows], table.weight[rows] * table.selectivity[rows]


def estimate_least_budget(
    target: QualityTarget, rates: Floats, windows: Floats, weights: Floats, most: float | None, shortest: float
) -> BudgetPlan:
    """Find the least budget for all feeds from an even sample by rate: whole requests, never above `most`."""
    many = max(len(rates) / SAMPLE_SIZE, 1.0)
    if many > 1:
        chosen = np.argsort(rates, kind="stable")[((np.arange(SAMPLE_SIZE) + 0.5) * many).astype(np.intp)]
        rates, windows, weights = rates[chosen], windows[chosen], weights[chosen]
    share = None if most is None else most / many
    found = find_least_budget(target, rates, windows, weights, most=share, shortest=max(shortest, 1.0))
    per_minute = float(max(math.ceil(found.requests_per_minute * many - 1e-9), 1))
    if most is not None:
        per_minute = min(per_minute, most)
    if many > 1:  # the sentence has the figures of the sample
        ending = "" if found.reached else " This is less than was wanted."
        message = (
            f"{per_minute:.1f} requests per minute bring completeness {found.completeness:.4f}, freshness "
            f"{found.freshness:.4f}, mean delay {found.delay:.0f} s.{ending}"
        )
        found = replace(found, message=message)
    return replace(found, requests_per_minute=per_minute)


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
    least: float,
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
    windows = table.table.window
    wishes = [_make_wish(model, id, create, table) for id, create in asking]
    hurries = _plan_all_deadlines(wishes, table, rates, budget if most is None else most)
    deadlines: dict[int, Deadline] = {}
    for (_, create), wish, hurry in zip(asking, wishes, hurries, strict=True):
        for row in wish.rows[hurry.chosen].tolist() if hurry is not None else ():
            feed, seconds = int(table.ids[row]), wish.target.delay or math.inf
            if feed not in deadlines or seconds < deadlines[feed].seconds:
                deadlines[feed] = Deadline(seconds, create.name.name)
    found = meet_query_targets(wishes, rates, windows, worth, budget, shortest=least)
    for _ in range(MAX_BUDGET_STEPS if most is not None else 0):
        if all(one.met for one in found) or most is None or budget >= most:
            break
        budget = min(budget * BUDGET_STEP, most)
        found = meet_query_targets(wishes, rates, windows, worth, budget, shortest=least)
    aims = tuple(
        _add_deadline(_describe_outcome(create, wish, one, rates, windows, budget, least), wish, hurry)
        for (_, create), wish, one, hurry in zip(asking, wishes, found, hurries, strict=True)
    )
    times = {
        id: 1.0 if _is_met_by_deadlines(wish, hurry) else one.times
        for (id, _), wish, one, hurry in zip(asking, wishes, found, hurries, strict=True)
    }
    return TargetPlan(aims, times, budget, deadlines)


def _plan_all_deadlines(
    wishes: Sequence[QueryTarget], table: FeedTable, rates: Floats, budget: float
) -> list[DeadlinePlan | None]:
    """Plan the deadlines of each TARGET DELAY in turn; a query gets the budget that those before it have left."""
    found: list[DeadlinePlan | None] = []
    for wish in wishes:
        if wish.target.delay is None:
            found.append(None)
            continue
        rows = wish.rows
        feeds = table.table
        hurry = plan_deadlines(
            wish.target.delay,
            rates[rows],
            np.sqrt(rates[rows] / DAY),  # as uncertain as a day of counting leaves it
            wish.share,
            feeds.cost[rows],
            np.maximum(feeds.pause[rows], LEAST_INTERVAL),
            budget,
        )
        budget -= float((feeds.cost[rows][hurry.chosen] * MINUTE / wish.target.delay).sum())
        found.append(hurry)
    return found


def _is_met_by_deadlines(wish: QueryTarget, hurry: DeadlinePlan | None) -> bool:
    """Whether deadlines alone meet a TARGET, so that its feeds need no more weight."""
    others = wish.target.completeness is not None or wish.target.freshness is not None
    return hurry is not None and hurry.reached and not others


def _add_deadline(outcome: TargetOutcome, wish: QueryTarget, hurry: DeadlinePlan | None) -> TargetOutcome:
    """Return the outcome of a query with what its TARGET DELAY can promise."""
    if hurry is None or not len(wish.rows):
        return outcome
    others = wish.target.completeness is not None or wish.target.freshness is not None
    reached = hurry.reached and (outcome.reached or not others)
    delay = 0.5 * (wish.target.delay or 0.0) if hurry.reached else outcome.delay
    message = hurry.message if not others or not hurry.reached else f"{hurry.message} {outcome.message}"
    times = 1.0 if _is_met_by_deadlines(wish, hurry) else outcome.times
    spent = hurry.requests_per_minute
    return replace(outcome, reached=reached, requests_per_minute=spent, delay=delay, message=message, times=times)


def _make_wish(model: DemandModel, id: int, create: CreateFeed, table: FeedTable) -> QueryTarget:
    asked = create.query.target
    assert asked is not None
    delay = None if asked.delay is None else float(asked.delay.seconds)
    # A share of exactly 1 cannot be reached with any budget.
    wanted = [None if x is None else min(max(x, 1e-4), 0.9999) for x in (asked.completeness, asked.freshness)]
    rows = [(row, feed) for feed in sorted(model.list_feeds(id)) if (row := table.find_row(feed)) is not None]
    rows = [(row, feed) for row, feed in rows if table.active[row]]
    importance = 1.0 if create.query.importance is None else create.query.importance
    return QueryTarget(
        QualityTarget(wanted[0], wanted[1], delay),
        np.array([row for row, _ in rows], np.intp),
        np.array([model.estimate_selectivity(id, feed) for _, feed in rows], np.float64),
        max(importance, 0.01),
    )


def _describe_outcome(
    create: CreateFeed,
    wish: QueryTarget,
    one: QueryTargetPlan,
    rates: Floats,
    windows: Floats,
    budget: float,
    least: float,
) -> TargetOutcome:
    got = f"completeness {one.completeness:.4f}, freshness {one.freshness:.4f}, mean delay {one.delay:.0f} s"
    takes = one.spent
    if not len(wish.rows):
        message = "It reads no feed, so nothing is needed."
    elif one.met and one.times == 1:
        message = f"Met with the budget as it is: {got} are expected."
    elif one.met:
        message = f"Met by letting its feeds count {one.times:.1f} times as much: {got} are expected."
    else:
        rows = wish.rows
        alone = find_least_budget(wish.target, rates[rows], windows[rows], wish.share, shortest=max(least, 1.0))
        takes = alone.requests_per_minute
        message = alone.message
        if alone.reached:
            message = (
                f"Cannot be met with {budget:g} requests per minute: {got} can be reached, its feeds counting "
                f"{one.times:.1f} times as much. It would take {takes:.1f} requests per minute for these feeds alone."
            )
    return TargetOutcome(
        create.name.name,
        one.met,
        takes,
        one.completeness,
        one.freshness,
        one.delay,
        len(wish.rows),
        message,
        one.times,
    )


async def save_outcomes(store: Store, aims: Sequence[TargetOutcome], now: float) -> None:
    """Save the outcomes for other processes."""
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
