"""Finds strategies for the lab, the very classes the server runs: by name, or one's own as `package.module:Name`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Sequence
from typing import Any

from headwater.errors import NotFound, SettingsError
from headwater.schedule import STRATEGIES, load
from headwater.schedule.strategy import Strategy


def check_names(names: Sequence[str], among: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names, if each is one of `among` (default: every strategy) or one's own; else a sentence with the nearest."""
    choices = list(among if among is not None else STRATEGIES)
    for name in names:
        if ":" in name:
            made(name)
        elif name not in choices:
            near = difflib.get_close_matches(name, choices, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(choices)}."
            raise NotFound(f"There is no strategy {name} here; {hint}")
    return tuple(names)


def kind_of(name: str) -> type[Strategy] | None:
    """The class of this name; None for a variant that only an experiment knows."""
    return load(name) if ":" in name or name in STRATEGIES else None


def make(name: str, feeds: int, **parameters: Any) -> Strategy:
    """A fresh strategy of this name with room for `feeds`."""
    (name,) = check_names((name,))
    return made(name, feeds, **parameters)


def made(name: str, feeds: int = 0, **parameters: Any) -> Strategy:
    """The same without a look at the name. Where a strategy leaves nothing to chance, `rng` is not given to it."""
    kind = load(name)
    if "rng" not in inspect.signature(kind).parameters:
        parameters.pop("rng", None)
    if ":" not in name:
        return kind(feeds, **parameters)
    try:
        return kind(feeds, **parameters)
    except Exception as error:  # a person's own class may fail in any way
        raise SettingsError(f"The strategy “{name}” cannot be made ({type(error).__name__}: {error}).") from error
