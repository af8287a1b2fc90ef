"""Finds a strategy by name and builds it with its estimator and objective."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

from headwater.errors import HeadwaterError, SettingsError
from headwater.estimate import load as load_estimator
from headwater.estimate.estimator import Estimator
from headwater.estimate.registry import find_class, index_by_name
from headwater.schedule.guarded import GuardedStrategy
from headwater.schedule.strategies.adaptive_ttl import AdaptiveTTL
from headwater.schedule.strategies.advarss import AdvaRSS, MinDelay
from headwater.schedule.strategies.learned_interval import (
    Fix1d,
    Fix1h,
    FixLearned,
    MovingAverageInterval,
    PostRateInterval,
)
from headwater.schedule.strategies.peer_rules import (
    CommaFeed,
    FreshRSS,
    LemonReader,
    MediaCloud,
    Miniflux,
    MinifluxEntryFrequency,
    NewsBlur,
    StormCrawler,
)
from headwater.schedule.strategies.resource_allocation import Allocation, CgmAge, CgmFreshness
from headwater.schedule.strategies.retrieval_schedule import Combined, Retrieval
from headwater.schedule.strategies.round_robin import Reference, RoundRobin, Uniform
from headwater.schedule.strategies.two_steps import OnlySat, OnlyTau, TopUtility, TwoSteps
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.objective import Objective
from headwater.schedule.value.value import Value
from headwater.schedule.value.value_index import ValueIndex

STRATEGIES: Mapping[str, type[Strategy]] = index_by_name(
    [
        Uniform,
        Fix1h,
        Fix1d,
        MovingAverageInterval,
        FixLearned,
        PostRateInterval,
        AdvaRSS,
        MinDelay,
        RoundRobin,
        OnlySat,
        OnlyTau,
        TwoSteps,
        TopUtility,
        Reference,
        Allocation,
        Retrieval,
        Combined,
        CgmAge,
        CgmFreshness,
        AdaptiveTTL,
        Miniflux,
        MinifluxEntryFrequency,
        NewsBlur,
        CommaFeed,
        FreshRSS,
        LemonReader,
        MediaCloud,
        StormCrawler,
        Value,
        ValueIndex,
    ]
)


def load(spec: str) -> type[Strategy]:
    """Return the strategy class called `spec`, or a user's own given as `package.module:Name`."""
    return find_class(spec, STRATEGIES, Strategy, "strategy")


def build_strategy(strategy: str, estimator: str | None = None, objective: Objective | None = None) -> Strategy:
    """Build a strategy from names. Raises SettingsError if strategy, estimator and objective do not fit together.

    >>> build_strategy("two_steps", "periodic").estimator.name
    'periodic'
    """
    kind = load(strategy)
    takes = inspect.signature(kind).parameters
    options: dict[str, Any] = {}
    if estimator is not None:
        if "estimator" not in takes:
            raise SettingsError(f"The strategy {strategy} takes no estimator: leave out {estimator}.")
        chosen, wanted = load_estimator(estimator), _find_accepted_estimators(kind)
        if not issubclass(chosen, wanted):
            names = " or ".join(str(getattr(one, "name", one.__name__)) for one in wanted)
            raise SettingsError(f"The strategy {strategy} accepts the estimator {names}, not {estimator}.")
        options["estimator"] = _instantiate(chosen, estimator, "estimator", {})
    if objective is not None:
        if not takes.keys() >= objective.strategy_options().keys():
            raise SettingsError(f"The strategy {strategy} takes no objective; value does.")
        options |= objective.strategy_options()
    made = _instantiate(kind, strategy, "strategy", options)
    own = STRATEGIES.get(made.name) is not kind or (estimator is not None and ":" in estimator)
    return GuardedStrategy(made) if own else made


def _find_accepted_estimators(kind: type[Strategy]) -> tuple[type, ...]:
    """Return the estimator classes that a strategy accepts, read from the annotation of its `estimator` option."""
    try:
        wanted = get_type_hints(kind.__init__).get("estimator", Estimator)
    except (NameError, TypeError):  # a user's annotations may name something undefined
        return (Estimator,)
    kinds = tuple(one for one in get_args(wanted) or (wanted,) if isinstance(one, type) and one is not NoneType)
    return kinds or (Estimator,)


def _instantiate(kind: type[Any], spec: str, noun: str, options: dict[str, Any]) -> Any:
    if not isinstance(getattr(kind, "name", None), str):
        raise SettingsError(f"The {noun} “{spec}” has no name: add name = “…” to its class.")
    try:
        return kind(0, **options)
    except HeadwaterError:
        raise
    except Exception as error:  # a user's class may fail in any way
        what = f"{type(error).__name__}: {error}"
        raise SettingsError(f"The {noun} “{spec}” cannot be created ({what}).") from error
