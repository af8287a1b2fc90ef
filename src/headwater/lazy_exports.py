"""Lets a package export names whose modules are imported when a name is first used.

A command that needs one value of a package should not wait for all of its modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def export_lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the package's `__getattr__`: it finds each name in the module that `homes` gives for it.

    >>> export_lazily("email", {"Message": "message"})("Message").__module__
    'email.message'
    """

    def find_export(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find_export
