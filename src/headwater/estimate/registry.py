"""Every estimator by its name."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.estimate.base import Estimator
from headwater.estimate.bayes import Bayes
from headwater.estimate.fixed import FixedRate
from headwater.estimate.hourly import HourlyRate
from headwater.estimate.hybrid import HybridRate
from headwater.estimate.learned_once import LearnedOnce
from headwater.estimate.likelihood import Likelihood
from headwater.estimate.moving_average import MovingAverage
from headwater.estimate.named import find_class, index_by_name
from headwater.estimate.pattern import ClusterPattern
from headwater.estimate.periodic import PeriodicRate
from headwater.estimate.post_rate import PostRate
from headwater.estimate.single import SingleRate
from headwater.estimate.smoothed import AdaptiveSmoothing

ESTIMATORS: Mapping[str, type[Estimator]] = index_by_name(
    [
        FixedRate,
        LearnedOnce,
        MovingAverage,
        PostRate,
        HourlyRate,
        SingleRate,
        PeriodicRate,
        HybridRate,
        AdaptiveSmoothing,
        Likelihood,
        ClusterPattern,
        Bayes,
    ]
)


def load(spec: str) -> type[Estimator]:
    """The estimator called `spec`, or a person's own as `package.module:Name`."""
    return find_class(spec, ESTIMATORS, Estimator, "estimator")
