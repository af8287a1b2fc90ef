"""Estimates when a feed publishes, from its refreshes."""

from headwater.arrays import Ragged
from headwater.estimate.estimator import Estimator
from headwater.estimate.registry import ESTIMATORS, load

__all__ = ["ESTIMATORS", "Estimator", "Ragged", "load"]
