"""Target mode in the node: from a wanted quality and what is believed of the feeds to the least budget.

The beliefs change, so the budget is found anew every few minutes. It is never set above the budget a person gave; where
the target cannot be reached with it, or with the pauses that manners demand, that is said and the best is done.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import structlog

from headwater.errors import SettingsError
from headwater.estimate.base import Floats
from headwater.node.deciding import Decider
from headwater.schedule.base import Strategy
from headwater.schedule.target import Reach, Target, least_budget

EVERY = 120.0  # seconds between two searches for the budget
SAMPLE = 2000  # feeds that stand for all of them

log = structlog.get_logger()


def require_beliefs(strategy: Strategy) -> None:
    if strategy.estimator is None:
        raise SettingsError(
            f"The strategy {strategy.name} believes nothing of the feeds, so no budget can be found for a target: "
            "give a budget, or choose a strategy that learns, such as value."
        )


async def retarget(crawler: Decider, target: Target, most: float | None, least_interval: float, now: float) -> None:
    """Find the budget anew and spend it from now on; says so when the answer has changed in kind."""
    believed = beliefs(crawler, now)
    if believed is None:
        return
    rates, windows, weights = believed
    found = await asyncio.to_thread(sampled_budget, target, rates, windows, weights, most, least_interval)
    before, crawler.aim = crawler.aim, found
    crawler.spending.limit(found.requests_per_minute)
    if before is None or before.reached != found.reached:
        say = log.info if found.reached else log.warning
        say("target", reached=found.reached, budget=round(found.requests_per_minute, 1), message=found.message)


def beliefs(crawler: Decider, now: float) -> tuple[Floats, Floats, Floats] | None:
    """Rates (items per second), windows and weights of the active feeds; None while nothing is believed."""
    table = crawler.roster.table
    rows = np.flatnonzero(crawler.roster.active & np.isfinite(table.last))
    if not len(rows):
        return None
    rates = crawler.strategy.believe(lambda estimator: estimator.daily(rows, np.full(len(rows), now)))
    if rates is None:
        return None
    return rates, table.window[rows], table.weight[rows] * table.selectivity[rows]


def sampled_budget(
    target: Target, rates: Floats, windows: Floats, weights: Floats, most: float | None, shortest: float
) -> Reach:
    """`least_budget` of all feeds, from an even sample of them by rate; whole requests, never above `most`."""
    many = max(len(rates) / SAMPLE, 1.0)
    if many > 1:
        chosen = np.argsort(rates, kind="stable")[((np.arange(SAMPLE) + 0.5) * many).astype(np.intp)]
        rates, windows, weights = rates[chosen], windows[chosen], weights[chosen]
    share = None if most is None else most / many
    found = least_budget(target, rates, windows, weights, most=share, shortest=max(shortest, 1.0))
    per_minute = float(max(math.ceil(found.requests_per_minute * many - 1e-9), 1))
    if most is not None:
        per_minute = min(per_minute, most)
    if many > 1:  # the sentence speaks of the sample; say it of all
        ending = "" if found.reached else " This is less than was wanted."
        message = (
            f"{per_minute:.1f} requests per minute bring completeness {found.completeness:.4f}, freshness "
            f"{found.freshness:.4f}, mean delay {found.delay:.0f} s.{ending}"
        )
        found = replace(found, message=message)
    return replace(found, requests_per_minute=per_minute)
