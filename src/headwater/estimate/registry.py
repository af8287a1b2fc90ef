"""Finds an estimator (or any named class) by name or by package.module:Name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from headwater.errors import SettingsError
from headwater.estimate.estimator import Estimator
from headwater.estimate.feed_columns import FeedColumns
from headwater.estimate.models.bayes import Bayes
from headwater.estimate.models.cluster_pattern import ClusterPattern
from headwater.estimate.models.fixed import FixedRate
from headwater.estimate.models.hour_histogram import HourlyRate, PostRate
from headwater.estimate.models.likelihood import Likelihood
from headwater.estimate.models.mean_gap import LearnedOnce, MovingAverage
from headwater.estimate.models.smoothing import AdaptiveSmoothing, HybridRate, PeriodicRate, SingleRate

Class = TypeVar("Class", bound=FeedColumns)


def index_by_name(classes: Iterable[type[Class]]) -> Mapping[str, type[Class]]:
    """Return a read-only mapping from each class's `name` to the class."""
    return MappingProxyType({kind.name: kind for kind in classes})


def find_class(spec: str, known: Mapping[str, type[Class]], base: type[Any], noun: str) -> type[Class]:
    """Find a class by name or as `package.module:Name`. Raises SettingsError with suggestions."""
    if ":" in spec:
        return _import_class(spec, base, noun)
    if spec in known:
        return known[spec]
    near = get_close_matches(spec, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Choose from {', '.join(sorted(known))}."
    raise SettingsError(f"There is no {noun} called “{spec}”. {hint} Give your own as package.module:Name.")


def _import_class(spec: str, base: type[Any], noun: str) -> type[Any]:
    module, _, name = spec.partition(":")
    try:
        kind = getattr(import_module(module), name)
    except ImportError as error:
        raise SettingsError(f"The {noun} “{spec}” cannot be imported: {error}.") from error
    except AttributeError as error:
        raise SettingsError(f"The module {module} has no {name}, so the {noun} “{spec}” cannot be used.") from error
    except Exception as error:  # a user's module may fail in any way during import
        raise SettingsError(f"Importing the module {module} of the {noun} “{spec}” failed: {error}.") from error
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise SettingsError(
            f"“{spec}” is not a subclass of {base.__name__}: derive it from {base.__module__}.{base.__name__}."
        )
    return kind


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
    """Return the estimator class called `spec`, or a user's own given as `package.module:Name`."""
    return find_class(spec, ESTIMATORS, Estimator, "estimator")
