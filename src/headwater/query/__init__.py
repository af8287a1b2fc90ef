"""Matches items against standing queries."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.query.engine import Engine
    from headwater.query.hits import Arrival, Hit, Related

__all__ = ["Arrival", "Engine", "Hit", "Related"]

_HOMES = {"Engine": "engine", "Arrival": "hits", "Hit": "hits", "Related": "hits"}


def __getattr__(name: str) -> Any:
    """Import the engine on first use: splitting words should not load it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headwater.query.{_HOMES[name]}"), name)
