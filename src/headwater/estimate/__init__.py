"""Estimates when a feed publishes, from its refreshes."""

from headwater.estimate.estimator import Estimator, Ragged
from headwater.estimate.registry import ESTIMATORS, load

__all__ = ["ESTIMATORS", "Estimator", "Ragged", "load"]
