"""Loops that numba compiles where it is installed (an optional extra); each has a numpy path that gives the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

AVAILABLE = find_spec("numba") is not None


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code; compiled at its first call and kept on disk.

    numba is imported here, not above: it takes a second, and a command that plans nothing must not wait for it.
    """
    numba: Any = importlib.import_module("numba")
    fast: Callable[..., Any] = numba.njit(cache=True)(function)
    return fast
