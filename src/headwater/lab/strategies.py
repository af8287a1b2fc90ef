"""Finds strategies by name for the lab, the very classes the server runs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from headwater.errors import NotFound
from headwater.schedule import STRATEGIES
from headwater.schedule.base import Strategy


def check_names(names: Sequence[str], among: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names, if each is one of `among` (default: every strategy); else a sentence with the nearest."""
    choices = list(among if among is not None else STRATEGIES)
    for name in names:
        if name not in choices:
            near = difflib.get_close_matches(name, choices, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(choices)}."
            raise NotFound(f"There is no strategy {name} here; {hint}")
    return tuple(names)


def make(name: str, feeds: int, **parameters: Any) -> Strategy:
    """A fresh strategy of this name with room for `feeds`."""
    (name,) = check_names((name,))
    return STRATEGIES[name](feeds, **parameters)
