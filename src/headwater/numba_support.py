"""Loops that numba compiles where it is installed (an optional extra); each has a numpy path that gives the same.

Importing and compiling take seconds, so nothing is imported before a caller asks for speed: the lab does, and a
server with very many queries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

NUMBA_AVAILABLE = find_spec("numba") is not None


@cache
def compile_with_numba(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code; compiled at its first call and kept on disk where that can be written."""
    import numba

    fast: Callable[..., Any]
    try:
        fast = numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba finds no folder to keep it in
        fast = numba.njit(error_model="numpy")(function)
    return fast
