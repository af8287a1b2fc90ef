"""Refreshes → what we believe about a feed; one file per estimator. Pure."""

from headwater.estimate.estimator import Estimator, Ragged
from headwater.estimate.registry import ESTIMATORS, load

__all__ = ["ESTIMATORS", "Estimator", "Ragged", "load"]
