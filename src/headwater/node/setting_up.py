"""From the settings to what the crawler works with: the strategy, and what it may spend."""

from __future__ import annotations

from headwater.estimate.base import MINUTE
from headwater.node.spending import Spending
from headwater.schedule.base import Strategy
from headwater.schedule.budget import Cap
from headwater.schedule.build import build
from headwater.schedule.objective import WORDS, parse
from headwater.schedule.pace import Pace
from headwater.settings import Settings


def build_strategy(given: Settings) -> Strategy:
    """The strategy in force, without any feeds yet; one without a dial is only refused if somebody turned it."""
    objective = parse(given.objective)
    return build(given.strategy, given.estimator, None if objective == WORDS["balanced"] else objective)


def spending(given: Settings) -> Spending:
    weight = None if given.budget_bytes is None else MINUTE * given.budget_bytes
    return Spending(Cap(given.budget, weight), Pace(given.host_budget))
