"""Alias of `headwater.schedule.politeness.rules`, kept for one release."""

from headwater.schedule.politeness.rules import PolitenessFacts, Reason, allowed_from, load_facts, next_allowed
from headwater.schedule.politeness.rules import PolitenessFacts as Standing
from headwater.schedule.politeness.rules import find_candidates as candidates
from headwater.schedule.politeness.rules import load_facts as fill

__all__ = ["PolitenessFacts", "Reason", "Standing", "allowed_from", "candidates", "fill", "load_facts", "next_allowed"]
