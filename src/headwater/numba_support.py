"""Compiles a function with numba where that is installed.

numba is an optional extra, and every compiled loop has a numpy twin that gives the same results. Importing numba and
compiling take seconds, so it is imported only when a caller asks for speed: the lab, and a server with very many
queries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

NUMBA_AVAILABLE = find_spec("numba") is not None


@cache
def compile_with_numba(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function to machine code at its first call; the result is cached on disk if that is writable."""
    import numba

    fast: Callable[..., Any]
    try:
        fast = numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba finds no folder to keep it in
        fast = numba.njit(error_model="numpy")(function)
    return fast
