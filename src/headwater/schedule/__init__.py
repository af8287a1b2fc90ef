"""Belief + budget → which feeds now, and why; one file per strategy. Pure."""

from headwater.schedule.base import Budget, Choice, Observed, Strategy, Table
from headwater.schedule.registry import STRATEGIES, load

__all__ = ["STRATEGIES", "Budget", "Choice", "Observed", "Strategy", "Table", "load"]
