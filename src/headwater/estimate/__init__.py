"""Estimates from refreshes how often feeds publish. Pure."""

from headwater.arrays import Ragged
from headwater.estimate.estimator import Estimator
from headwater.estimate.registry import ESTIMATORS, load

__all__ = ["ESTIMATORS", "Estimator", "Ragged", "load"]
