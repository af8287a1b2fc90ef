"""Makes the scheduler of the settings: its strategy, budget and politeness."""

from __future__ import annotations

import numpy as np

from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.budget import RequestCap
from headwater.schedule.politeness.host_rate import HostRate
from headwater.schedule.registry import build_strategy
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.objective import NAMED_OBJECTIVES, parse_objective
from headwater.settings import Settings
from headwater.store.store import Store
from headwater.times import MINUTE


def build_configured_strategy(given: Settings) -> Strategy:
    """Return the strategy of the settings, without any feeds yet.

    A strategy without an objective is refused only if somebody set one.
    """
    objective = parse_objective(given.objective)
    return build_strategy(
        given.strategy, given.estimator, None if objective == NAMED_OBJECTIVES["balanced"] else objective
    )


def make_budget_account(given: Settings) -> BudgetAccount:
    """Make the budget of the settings."""
    bytes_per_minute = None if given.budget_bytes is None else MINUTE * given.budget_bytes
    return BudgetAccount(RequestCap(given.budget, bytes_per_minute), HostRate(given.host_budget))


def make_politeness(given: Settings) -> Politeness:
    """Make the politeness of the settings, without any refusals yet."""
    return Politeness(np.random.default_rng(), least=given.least_interval)


def make_scheduler(store: Store, given: Settings) -> Scheduler:
    """Make the scheduler of the settings, without any feeds yet."""
    return Scheduler(
        store,
        build_configured_strategy(given),
        make_budget_account(given),
        make_politeness(given),
        per_host=given.per_host,
    )
