"""Estimates from refreshes how often feeds publish. Pure."""

from typing import TYPE_CHECKING

from headwater.lazy_exports import export_lazily

if TYPE_CHECKING:
    from headwater.arrays import Ragged
    from headwater.estimate.estimator import Estimator
    from headwater.estimate.registry import ESTIMATORS, load

__all__ = ["ESTIMATORS", "Estimator", "Ragged", "load"]

__getattr__ = export_lazily(
    __name__, {"Estimator": "estimator", "Ragged": "estimator", "ESTIMATORS": "registry", "load": "registry"}
)
