"""Chooses which feeds to refresh within a budget, and says why. Pure."""

from typing import TYPE_CHECKING

from headwater.lazy_exports import export_lazily

if TYPE_CHECKING:
    from headwater.schedule.registry import STRATEGIES, load
    from headwater.schedule.selection import Budget, Choice
    from headwater.schedule.strategy import Observed, Strategy, Table

__all__ = ["STRATEGIES", "Budget", "Choice", "Observed", "Strategy", "Table", "load"]

__getattr__ = export_lazily(
    __name__,
    {
        "STRATEGIES": "registry",
        "load": "registry",
        "Budget": "selection",
        "Choice": "selection",
        "Observed": "strategy",
        "Strategy": "strategy",
        "Table": "strategy",
    },
)
