"""Describes strategies and estimators for people: equation, source, the papers' spellings, parameters with defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from headwater.errors import SettingsError
from headwater.estimate import ESTIMATORS
from headwater.estimate import load as load_estimator
from headwater.estimate.catalogue import ESTIMATOR_CATALOGUE
from headwater.estimate.feed_columns import FeedColumns
from headwater.estimate.parameters import CatalogueEntry, Parameter, list_parameters
from headwater.schedule.catalogue import STRATEGY_CATALOGUE
from headwater.schedule.registry import STRATEGIES, load


def list_classes() -> list[dict[str, Any]]:
    """Describe every strategy, then every estimator."""
    return [
        *(_describe("strategy", kind, STRATEGY_CATALOGUE) for kind in STRATEGIES.values()),
        *(_describe("estimator", kind, ESTIMATOR_CATALOGUE) for kind in ESTIMATORS.values()),
    ]


def describe_class(name: str) -> list[dict[str, Any]]:
    """Describe the strategy and the estimator of a name, a paper's spelling or `package.module:Name`. Raises
    SettingsError."""
    found = list(_find_classes(name))
    if not found:
        load(name)  # raises with suggestions
    return [_describe(noun, kind, catalogue) for noun, kind, catalogue in found]


def _find_classes(name: str) -> Iterator[tuple[str, type[FeedColumns], Mapping[str, CatalogueEntry]]]:
    places = (("strategy", load, STRATEGY_CATALOGUE), ("estimator", load_estimator, ESTIMATOR_CATALOGUE))
    for noun, finder, catalogue in places:
        try:
            kind: type[FeedColumns] = finder(name)
        except SettingsError:
            continue
        yield noun, kind, catalogue


def _describe(noun: str, kind: type[FeedColumns], catalogue: Mapping[str, CatalogueEntry]) -> dict[str, Any]:
    name = getattr(kind, "name", kind.__name__)
    entry = catalogue.get(name, CatalogueEntry("", "your own"))
    return {
        "name": name,
        "type": noun,
        "equation": entry.equation,
        "source": entry.source,
        "also_called": list(entry.spellings),
        "description": _text_before_examples(kind),
        "parameters": [
            {
                "name": one.name,
                "kind": one.kind,
                "default": _find_default(one, kind),
                "meaning": one.note.meaning,
            }
            for one in list_parameters(kind, entry)
        ],
    }


def _find_default(parameter: Parameter, kind: type[FeedColumns]) -> Any:
    """Return a parameter's default; of an estimator the name of the one that is made."""
    if parameter.name == "estimator" and parameter.default is None:
        return getattr(getattr(kind(), "estimator", None), "name", None)
    value = None if parameter.default is inspect.Parameter.empty else parameter.default
    return value if value != inf else "inf"  # JSON has no infinity


def _text_before_examples(kind: type[Any]) -> str:
    return (inspect.getdoc(kind) or "").partition("\n>>>")[0].strip()
