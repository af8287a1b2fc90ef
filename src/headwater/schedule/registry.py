"""Finds a strategy by name and builds it with its estimator and objective."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from headwater.errors import SettingsError
from headwater.estimate.class_spec import ClassSpec, parse_spec
from headwater.estimate.parameters import accepted_estimators, convert_options
from headwater.estimate.registry import build_estimator, find_class, index_by_name, instantiate, translate_spec
from headwater.schedule.catalogue import STRATEGY_CATALOGUE
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


def parse_strategy(spec: str) -> ClassSpec:
    """Parse a strategy with its parameters; a name spelled as in a paper becomes ours.

    >>> str(parse_strategy("2Steps(estimator=likelihood)")), str(parse_strategy("CGM03(Age)"))
    ('two_steps(estimator=likelihood)', 'cgm_age')
    """
    return translate_spec(spec, STRATEGIES, STRATEGY_CATALOGUE)


def load(spec: str) -> type[Strategy]:
    """Return the strategy class called `spec`, or a user's own given as `package.module:Name`."""
    return find_class(parse_strategy(spec).name, STRATEGIES, Strategy, "strategy")


def make_strategy(spec: str, feeds: int = 0, **defaults: Any) -> Strategy:
    """Make a strategy with room for `feeds`. Parameters in `spec` win over `defaults`; an `rng` that it does not take
    is left out.

    >>> make_strategy("advarss(c=.5)", 3, c=0.0, rng=0).c
    0.5
    """
    kind, options = _read_strategy(spec)
    if "rng" not in inspect.signature(kind).parameters:
        defaults.pop("rng", None)
    made: Strategy = instantiate(kind, spec, "strategy", feeds, {**defaults, **options})
    return made


def build_strategy(strategy: str, estimator: str | None = None, objective: Objective | None = None) -> Strategy:
    """Build a strategy from names. Raises SettingsError if strategy, estimator and objective do not fit together.

    >>> build_strategy("two_steps(tau=2)", "periodic(slots=168)").estimator.name
    'periodic'
    """
    kind, options = _read_strategy(strategy)
    takes = inspect.signature(kind).parameters
    if estimator is not None:
        if "estimator" not in takes:
            raise SettingsError(f"The strategy {strategy} takes no estimator: leave out {estimator}.")
        if "estimator" in options:
            raise SettingsError(f"The strategy {strategy} names its estimator already: leave out {estimator}.")
        chosen, wanted = build_estimator(estimator), accepted_estimators(kind)
        if not isinstance(chosen, wanted):
            names = " or ".join(str(getattr(one, "name", one.__name__)) for one in wanted)
            raise SettingsError(f"The strategy {strategy} accepts the estimator {names}, not {estimator}.")
        options["estimator"] = chosen
    if objective is not None:
        if not takes.keys() >= objective.strategy_options().keys():
            raise SettingsError(f"The strategy {strategy} takes no objective; value does.")
        options = {**objective.strategy_options(), **options}
    made: Strategy = instantiate(kind, strategy, "strategy", 0, options)
    own = parse_strategy(strategy).is_own or (estimator is not None and ":" in estimator)
    return GuardedStrategy(made) if own else made


def accepts_estimator(strategy: str, estimator: str) -> bool:
    """Return whether a strategy forecasts by an estimator that can be chosen, and can be told to use this one.

    >>> [accepts_estimator(name, "hourly") for name in ("two_steps", "uniform", "fix_1h", "value")]
    [True, False, False, False]
    """
    can_choose = "estimator" in inspect.signature(load(strategy)).parameters
    if not can_choose or getattr(make_strategy(strategy), "estimator", None) is None:
        return False
    return isinstance(build_estimator(estimator), accepted_estimators(load(strategy)))


def set_estimator(strategy: str, estimator: str) -> str:
    """Return the strategy with an estimator named. Raises SettingsError if they do not fit together.

    >>> set_estimator("two_steps(tau=2)", "likelihood(observations=20)")
    'two_steps(tau=2, estimator=likelihood(observations=20))'
    """
    build_strategy(strategy, estimator)
    spec = parse_strategy(strategy)
    return str(ClassSpec(spec.name, {**spec.options, "estimator": parse_spec(estimator)}))


def _read_strategy(text: str) -> tuple[type[Strategy], dict[str, Any]]:
    """Return the class of a strategy and the parameters given to it."""
    spec = parse_strategy(text)
    kind = find_class(spec.name, STRATEGIES, Strategy, "strategy")
    return kind, convert_options(kind, spec, "strategy", STRATEGY_CATALOGUE.get(spec.name), build_estimator)
