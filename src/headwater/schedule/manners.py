"""Alias of `headwater.schedule.politeness.rules`, kept for one release."""

from headwater.schedule.politeness.rules import PolitenessFacts, Reason, load_facts
from headwater.schedule.politeness.rules import PolitenessFacts as Standing
from headwater.schedule.politeness.rules import compute_earliest_times as allowed_from
from headwater.schedule.politeness.rules import find_candidates as candidates
from headwater.schedule.politeness.rules import find_earliest_time as next_allowed
from headwater.schedule.politeness.rules import load_facts as fill

__all__ = ["PolitenessFacts", "Reason", "Standing", "allowed_from", "candidates", "fill", "load_facts", "next_allowed"]
