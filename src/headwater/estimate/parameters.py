"""Lists the parameters of estimators and strategies, and checks the values that are given for them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import inf
from typing import Any, Union, get_args, get_origin, get_type_hints

from headwater.errors import SettingsError
from headwater.estimate.class_spec import ClassSpec, Value
from headwater.estimate.estimator import Estimator


@dataclass(frozen=True, slots=True)
class ParameterNote:
    """The meaning of a parameter, and the numbers it may take."""

    meaning: str
    least: float = -inf
    most: float = inf
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """An estimator or strategy as its paper knows it: equation, source, the paper's spellings, parameters by name."""

    equation: str
    source: str
    spellings: tuple[str, ...] = ()
    parameters: Mapping[str, ParameterNote] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a class: its kind (number, whole number, …), its default and its meaning."""

    name: str
    kind: str
    default: Any
    note: ParameterNote


# Parameters that mean the same wherever they occur.
SHARED_NOTES: Mapping[str, ParameterNote] = {
    "estimator": ParameterNote("the estimator that forecasts the feeds, with parameters of its own"),
    "rng": ParameterNote("the seed that breaks ties or adds jitter", 0),
    "scale": ParameterNote("multiplies every interval, to compare rules at equal cost", 1e-9),
    "rate": ParameterNote("items per second expected of a feed before anything is known", 0),
    "least": ParameterNote("the smallest rate, items per second: a rate of 0 would never be corrected", 0),
    "alpha": ParameterNote("α: the weight of the newest observation", 0, 1),
    "slots": ParameterNote("parts of the period with a rate of their own", 1, 10_080),
    "period": ParameterNote("length of the period, seconds", 1),
}


def list_parameters(kind: type[Any], entry: CatalogueEntry | None = None) -> tuple[Parameter, ...]:
    """Return the parameters of a class in the order of its constructor."""
    notes = SHARED_NOTES if entry is None else {**SHARED_NOTES, **entry.parameters}
    hints = _read_hints(kind)
    return tuple(
        Parameter(name, _name_kind(hints.get(name, Any)), one.default, notes.get(name, ParameterNote("")))
        for name, one in inspect.signature(kind).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    )


def convert_options(
    kind: type[Any],
    spec: ClassSpec,
    noun: str,
    entry: CatalogueEntry | None,
    build_estimator: Callable[[ClassSpec], Estimator],
) -> dict[str, Any]:
    """Return the given parameters as the class takes them. Raises SettingsError for a wrong name or value."""
    known = {one.name: one for one in list_parameters(kind, entry)}
    hints = _read_hints(kind)
    options: dict[str, Any] = {}
    for name, value in spec.options.items():
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"It takes {', '.join(known) or 'none'}."
            raise SettingsError(f"The {noun} {spec.name} has no parameter “{name}”. {hint}")
        options[name] = _convert(value, hints.get(name, Any), known[name], f"{name} of {spec.name}", build_estimator)
    return options


def accepted_estimators(kind: type[Any]) -> tuple[type, ...]:
    """Return the estimator classes that a strategy accepts, read from the annotation of its `estimator` option."""
    accepted = [one for one in _list_alternatives(_read_hints(kind).get("estimator", Estimator)) if _is_estimator(one)]
    return tuple(accepted) or (Estimator,)


def _convert(
    value: Value, hint: Any, parameter: Parameter, what: str, build_estimator: Callable[[ClassSpec], Estimator]
) -> Any:
    alternatives = _list_alternatives(hint)
    if value is None and types.NoneType in alternatives:
        return None
    accepted = tuple(one for one in alternatives if _is_estimator(one))
    if accepted and isinstance(value, ClassSpec | str):
        made = build_estimator(value if isinstance(value, ClassSpec) else ClassSpec(value))
        if not isinstance(made, accepted):
            names = " or ".join(str(getattr(one, "name", one.__name__)) for one in accepted)
            raise SettingsError(f"The parameter {what} must be {names}, not {made.name}.")
        return made
    converted = _convert_plain(value, alternatives)
    if converted is None:
        raise SettingsError(f"The parameter {what} must be {parameter.kind}, not “{value}”.")
    _check_range(converted, parameter.note, what)
    return converted


def _convert_plain(value: Value, alternatives: Sequence[Any]) -> Any:
    """Return the value as the first alternative that fits, or None."""
    for one in alternatives:
        if one is bool and isinstance(value, bool):
            return value
        if isinstance(value, bool):
            continue
        if one is int and isinstance(value, int | float) and value == int(value if abs(value) < inf else 0):
            return int(value)
        if one is float and isinstance(value, int | float):
            return float(value)
        if one is str and isinstance(value, str):
            return value
        if get_origin(one) in (tuple, Sequence) and isinstance(value, tuple):
            inner = [part for part in get_args(one) if part is not Ellipsis]
            parts = [_convert_plain(part, inner[:1]) for part in value]
            return None if None in parts else tuple(parts)
        if one is Any:
            return value
    return None


def _check_range(value: Any, note: ParameterNote, what: str) -> None:
    if note.choices and value not in note.choices:
        raise SettingsError(f"The parameter {what} must be {' or '.join(note.choices)}, not “{value}”.")
    for number in value if isinstance(value, tuple) else (value,):
        if not isinstance(number, int | float) or isinstance(number, bool):
            continue
        if not note.least <= number <= note.most:  # also refuses NaN
            limits = f"{note.least:g} or more" if note.most == inf else f"between {note.least:g} and {note.most:g}"
            raise SettingsError(f"The parameter {what} is {number:g}; it must be {limits}.")


def _read_hints(kind: type[Any]) -> dict[str, Any]:
    try:
        return get_type_hints(kind.__init__)
    except (NameError, TypeError):  # a user's annotations may name something undefined
        return {}


def _list_alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is_estimator(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, Estimator)


def _name_kind(hint: Any) -> str:
    """Name the values that an annotation allows.

    >>> _name_kind(float), _name_kind(int | None), _name_kind(tuple[float, float])
    ('a number', 'a whole number or none', 'a list of numbers')
    """
    alternatives = _list_alternatives(hint)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a word", types.NoneType: "none"}
    named = []
    for one in alternatives:
        if one in words:
            named.append(words[one])
        elif _is_estimator(one):
            named.append("an estimator")
        elif get_origin(one) in (tuple, Sequence):
            named.append("a list of numbers")
    return " or ".join(named) or "a value"
