"""From the settings to what the crawler works with: the strategy, and what it may spend."""

from __future__ import annotations

from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.budget import RequestCap
from headwater.schedule.politeness.host_rate import HostRate
from headwater.schedule.registry import build_strategy
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.objective import NAMED_OBJECTIVES, parse_objective
from headwater.settings import Settings
from headwater.times import MINUTE


def build_configured_strategy(given: Settings) -> Strategy:
    """The strategy in force, without any feeds yet; one without a dial is only refused if somebody turned it."""
    objective = parse_objective(given.objective)
    return build_strategy(
        given.strategy, given.estimator, None if objective == NAMED_OBJECTIVES["balanced"] else objective
    )


def make_budget_account(given: Settings) -> BudgetAccount:
    weight = None if given.budget_bytes is None else MINUTE * given.budget_bytes
    return BudgetAccount(RequestCap(given.budget, weight), HostRate(given.host_budget))
