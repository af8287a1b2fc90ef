"""Every estimator by its name."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.estimate.base import Estimator
from headwater.estimate.bayes import Bayes
from headwater.estimate.fixed import Fixed
from headwater.estimate.hourly import Hourly
from headwater.estimate.hybrid import Hybrid
from headwater.estimate.learned_once import LearnedOnce
from headwater.estimate.likelihood import Likelihood
from headwater.estimate.moving_average import MovingAverage
from headwater.estimate.named import by_name, find
from headwater.estimate.pattern import Pattern
from headwater.estimate.periodic import Periodic
from headwater.estimate.post_rate import PostRate
from headwater.estimate.single import Single
from headwater.estimate.smoothed import Smoothed

ESTIMATORS: Mapping[str, type[Estimator]] = by_name(
    [
        Fixed,
        LearnedOnce,
        MovingAverage,
        PostRate,
        Hourly,
        Single,
        Periodic,
        Hybrid,
        Smoothed,
        Likelihood,
        Pattern,
        Bayes,
    ]
)


def load(spec: str) -> type[Estimator]:
    """The estimator called `spec`, or a person's own as `package.module:Name`."""
    return find(spec, ESTIMATORS, Estimator, "estimator")
