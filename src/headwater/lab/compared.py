"""The row of a comparison, apart from what makes it: whoever only shows rows need not load the lab."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compared:
    """What one strategy would have got: shares and seconds."""

    strategy: str
    completeness: float
    freshness: float
    mean_delay: float
    median_delay: float
    requests: int
    off: float  # how far its requests are from the common number, as a share
