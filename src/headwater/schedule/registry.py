"""Every strategy by its name."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.estimate.named import by_name, find
from headwater.schedule.base import Strategy
from headwater.schedule.fix import Fix1d, Fix1h
from headwater.schedule.only_sat import OnlySat
from headwater.schedule.only_tau import OnlyTau
from headwater.schedule.reference import Reference
from headwater.schedule.top_utility import TopUtility
from headwater.schedule.two_steps import TwoSteps
from headwater.schedule.uniform import Uniform

STRATEGIES: Mapping[str, type[Strategy]] = by_name(
    [
        Uniform,
        Reference,
        Fix1h,
        Fix1d,
        TopUtility,
        OnlySat,
        OnlyTau,
        TwoSteps,
    ]
)


def load(spec: str) -> type[Strategy]:
    """The strategy called `spec`, or a person's own as `package.module:Name`."""
    return find(spec, STRATEGIES, Strategy, "strategy")
