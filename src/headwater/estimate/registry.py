"""Every estimator by its name."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.estimate.base import Estimator
from headwater.estimate.fixed import Fixed
from headwater.estimate.named import by_name, find
from headwater.estimate.periodic import Periodic
from headwater.estimate.single import Single

ESTIMATORS: Mapping[str, type[Estimator]] = by_name(
    [
        Fixed,
        Single,
        Periodic,
    ]
)


def load(spec: str) -> type[Estimator]:
    """The estimator called `spec`, or a person's own as `package.module:Name`."""
    return find(spec, ESTIMATORS, Estimator, "estimator")
