"""Finds an estimator (or any named class) by name, a paper's spelling or package.module:Name, and builds estimators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from headwater.errors import HeadwaterError, SettingsError
from headwater.estimate.catalogue import ESTIMATOR_CATALOGUE
from headwater.estimate.class_spec import ClassSpec, parse_spec
from headwater.estimate.estimator import Estimator
from headwater.estimate.feed_columns import FeedColumns
from headwater.estimate.models.bayes import Bayes
from headwater.estimate.models.cluster_pattern import ClusterPattern
from headwater.estimate.models.fixed import FixedRate
from headwater.estimate.models.hour_histogram import HourlyRate, PostRate
from headwater.estimate.models.learned_forecast import LearnedForecast
from headwater.estimate.models.likelihood import Likelihood
from headwater.estimate.models.mean_gap import LearnedOnce, MovingAverage
from headwater.estimate.models.smoothing import AdaptiveSmoothing, HybridRate, PeriodicRate, SingleRate
from headwater.estimate.parameters import CatalogueEntry, convert_options

Class = TypeVar("Class", bound=FeedColumns)


def index_by_name(classes: Iterable[type[Class]]) -> Mapping[str, type[Class]]:
    """Return a read-only mapping from each class's `name` to the class."""
    return MappingProxyType({kind.name: kind for kind in classes})


def translate_spec(text: str, known: Iterable[str], catalogue: Mapping[str, CatalogueEntry]) -> ClassSpec:
    """Parse a class with its parameters; a name spelled as in a paper becomes the registry's.

    >>> str(translate_spec("Moving Average(window=10)", ESTIMATORS, ESTIMATOR_CATALOGUE))
    'moving_average(window=10)'
    """
    spellings = {_simplify(name): name for name in known}
    for name, entry in catalogue.items():
        spellings |= {_simplify(spelling): name for spelling in entry.spellings}
    if found := spellings.get(_simplify(text)):  # the whole: CGM03(Age) is a name, not a class with a parameter
        return ClassSpec(found)
    spec = parse_spec(text)
    return ClassSpec(spellings.get(_simplify(spec.name), spec.name), spec.options)


def _simplify(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold() if ":" not in name else name


def find_class(spec: str, known: Mapping[str, type[Class]], base: type[Any], noun: str) -> type[Class]:
    """Find a class by name or as `package.module:Name`. Raises SettingsError with suggestions."""
    if ":" in spec:
        return _import_class(spec, base, noun)
    if spec in known:
        return known[spec]
    hint = suggest_names(spec, known)
    raise SettingsError(f"There is no {noun} called “{spec}”. {hint} Give your own as package.module:Name.")


def suggest_names(text: str, known: Iterable[str]) -> str:
    """Return a sentence with the names that may have been meant, however they are spelled, or with all names.

    >>> suggest_names("Post Rat", ["post_rate", "uniform"]), suggest_names("xyz", ["b", "a"])
    ('Did you mean post_rate?', 'Choose from a, b.')
    """
    names = {_simplify(name): name for name in known}
    near = get_close_matches(_simplify(text), names, n=3)
    if near:
        return f"Did you mean {' or '.join(names[each] for each in near)}?"
    return f"Choose from {', '.join(sorted(names.values()))}."


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
        LearnedForecast,
    ]
)


def load(spec: str) -> type[Estimator]:
    """Return the estimator class called `spec`, or a user's own given as `package.module:Name`."""
    return find_class(_translate(spec).name, ESTIMATORS, Estimator, "estimator")


def build_estimator(spec: str | ClassSpec, feeds: int = 0) -> Estimator:
    """Build an estimator from its name and parameters. Raises SettingsError.

    >>> build_estimator("likelihood(observations=20)").observations
    20
    """
    given = _translate(spec) if isinstance(spec, str) else ClassSpec(_translate(spec.name).name, spec.options)
    kind = find_class(given.name, ESTIMATORS, Estimator, "estimator")
    options = convert_options(kind, given, "estimator", ESTIMATOR_CATALOGUE.get(given.name), build_estimator)
    made: Estimator = instantiate(kind, str(given), "estimator", feeds, options)
    return made


def _translate(spec: str) -> ClassSpec:
    return translate_spec(spec, ESTIMATORS, ESTIMATOR_CATALOGUE)


def instantiate(kind: type[Any], spec: str, noun: str, feeds: int, options: Mapping[str, Any]) -> Any:
    """Make an object of a class. Raises SettingsError with its reason if the class refuses."""
    if not isinstance(getattr(kind, "name", None), str):
        raise SettingsError(f"The {noun} “{spec}” has no name: add name = “…” to its class.")
    try:
        return kind(feeds, **options)
    except HeadwaterError:
        raise
    except Exception as error:  # a user's class may fail in any way
        what = f"{type(error).__name__}: {error}"
        raise SettingsError(f"The {noun} “{spec}” cannot be created ({what}).") from error
