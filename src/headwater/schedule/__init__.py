"""Belief + budget → which feeds now, and why; one file per strategy. Pure."""

from headwater.schedule.registry import STRATEGIES, load

__all__ = ["STRATEGIES", "load"]
