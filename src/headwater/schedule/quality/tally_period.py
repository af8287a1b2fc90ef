"""Defines what a tally says of some hours; it loads nothing, since any command may show a report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DelaySummary:
    """The time between publication and refresh of items, in seconds; a quantile of too few items is None."""

    items: int
    mean: float
    median: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class TallyPeriod:
    """The counts of some hours; `completeness` is got / (got + lost), None before anything was published."""

    requests: int
    bytes: int
    got: int
    lost: float
    completeness: float | None
    delay: DelaySummary | None
