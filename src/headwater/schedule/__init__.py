"""Chooses which feeds to refresh within a budget, and says why. Pure."""

from headwater.schedule.registry import STRATEGIES, load
from headwater.schedule.selection import Budget, Choice
from headwater.schedule.strategy import Observed, Strategy, Table

__all__ = ["STRATEGIES", "Budget", "Choice", "Observed", "Strategy", "Table", "load"]
