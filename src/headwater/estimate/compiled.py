"""Loops that numba compiles where it is installed (an optional extra); each has a numpy path that gives the same.

Importing and compiling take seconds, so nothing is imported before a caller asks for speed (the lab does), and a
server, which decides for a few feeds at a time, never asks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

AVAILABLE = find_spec("numba") is not None


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code; compiled at its first call and kept on disk."""
    import numba

    fast: Callable[..., Any] = numba.njit(cache=True)(function)
    return fast
