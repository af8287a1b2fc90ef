"""The feed farm: a real HTTP server full of feeds that publish by a seed, and misbehave when asked to."""

from headwater.lab.farm.faults import Fault
from headwater.lab.farm.server import Farm

__all__ = ["Farm", "Fault"]
