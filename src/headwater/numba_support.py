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
def compile_with_numba(function: Callable[..., Any], fuse: bool = False) -> Callable[..., Any]:
    """Compile a function to machine code at its first call; the result is cached on disk if that is writable.

    `fuse` lets the processor multiply and add in one step, rounding once, so results differ in their last digit.
    """
    import numba

    options: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"} if fuse else False}
    fast: Callable[..., Any]
    try:
        fast = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba finds no folder to keep it in
        fast = numba.njit(**options)(function)
    return fast
