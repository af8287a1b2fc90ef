"""Makes the scheduler of the settings: its strategy, budget and politeness."""

from __future__ import annotations

import random

from headwater.estimate.models.learned_forecast import LearnedForecast
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.budget import RequestCap
from headwater.schedule.politeness.host_rate import HostRate
from headwater.schedule.promise import RESERVE
from headwater.schedule.registry import build_strategy, parse_strategy
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.objective import NAMED_OBJECTIVES, parse_objective
from headwater.schedule.value.value import Value
from headwater.settings import Settings
from headwater.store.store import Store
from headwater.times import MINUTE


def build_configured_strategy(settings: Settings) -> Strategy:
    """Return the strategy of the settings, without any feeds yet.

    A strategy without an objective is refused only if somebody set one.
    """
    objective = parse_objective(settings.objective)
    strategy = build_strategy(
        settings.strategy, _choose_estimator(settings), None if objective == NAMED_OBJECTIVES["balanced"] else objective
    )
    apply_thrift(strategy, settings)
    return strategy


def _choose_estimator(settings: Settings) -> str | None:
    """Return the estimator of the settings. If they name none, `value` has the learned forecast (decision 0241)."""
    if settings.estimator is not None:
        return settings.estimator
    chosen = parse_strategy(settings.strategy)
    return LearnedForecast.name if chosen.name == Value.name and "estimator" not in chosen.options else None


def apply_thrift(strategy: Strategy, settings: Settings) -> None:
    """Let thrift hold where the budget is given; with a wanted quality the budget found is thrift enough."""
    if isinstance(strategy, Value):
        strategy.reserve = RESERVE if settings.target is None else 0.0


def make_budget_account(settings: Settings) -> BudgetAccount:
    """Make the budget of the settings."""
    bytes_per_minute = None if settings.budget_bytes is None else MINUTE * settings.budget_bytes
    return BudgetAccount(
        RequestCap(settings.budget, bytes_per_minute), HostRate(settings.host_budget), settings.concurrency
    )


def make_politeness(settings: Settings) -> Politeness:
    """Make the politeness of the settings, without any refusals yet."""
    return Politeness(random.Random(), least=settings.least_interval)


def make_scheduler(store: Store, settings: Settings) -> Scheduler:
    """Make the scheduler of the settings, without any feeds yet."""
    return Scheduler(
        store,
        build_configured_strategy(settings),
        make_budget_account(settings),
        make_politeness(settings),
        per_host=settings.per_host,
        reader_share=settings.reader_share,
    )
