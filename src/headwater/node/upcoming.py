"""Which feeds are refreshed next, and why: the strategy's own moments and reasons, for those who look on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.node.deciding import Scheduler


@dataclass(frozen=True, slots=True)
class UpcomingRefresh:
    """A feed that will be refreshed, not before `due`; what that is worth now, and the price of a refresh."""

    feed_id: int
    due: float
    value: float | None
    price: float | None
    why: str


def list_upcoming(decider: Scheduler, now: float, limit: int) -> list[UpcomingRefresh]:
    """The next `limit` feeds in the order of their moments; those that may go now, by their value."""
    roster, strategy = decider.feed_table, decider.strategy
    rows = np.flatnonzero(roster.active & ~roster.in_flight)
    moments = np.maximum(roster.earliest[rows], now)
    if strategy.due is not None:
        moments = np.maximum(moments, strategy.due[rows])
    finite = np.isfinite(moments)
    rows, moments = rows[finite], moments[finite]
    chosen = np.argsort(moments, kind="stable")[:limit]
    found = []
    for row, moment in zip(rows[chosen].tolist(), moments[chosen].tolist(), strict=True):
        told = strategy.explain(roster.table, row, now)
        found.append(UpcomingRefresh(int(roster.ids[row]), moment, told.value, told.price, told.reason))
    return sorted(found, key=lambda one: (one.due, -(one.value or 0.0)))
