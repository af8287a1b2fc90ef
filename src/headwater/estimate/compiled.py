"""Loops that numba compiles where it is installed (an optional extra); each has a numpy path that gives the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

try:
    import numba
except ImportError:
    numba = None  # type: ignore[assignment]

AVAILABLE = numba is not None


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code; compiled at its first call and kept on disk."""
    fast: Callable[..., Any] = numba.njit(cache=True)(function)
    return fast
