"""TARGET of queries: whether the budget suffices for what they ask of their feeds, and what would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.estimate.base import DAY, Floats
from headwater.language.ast import Create
from headwater.node.roster import Roster
from headwater.node.wants import Wanting
from headwater.schedule.target import Target, least_budget

ASSUMED_RATE = 1.0 / DAY  # of a feed about which nothing is believed yet


@dataclass(frozen=True, slots=True)
class Aim:
    """What a query asks for, whether it can be reached within the budget, what it takes, in numbers and in words."""

    query: str
    reached: bool
    requests_per_minute: float
    completeness: float
    freshness: float
    delay: float
    feeds: int
    message: str


def aim(
    create: Create, rows: list[int], share: Floats, rates: Floats, roster: Roster, most: float, least: float
) -> Aim:
    """One query with a TARGET over the rows of its feeds; `share` is its selectivity on each, `most` the budget."""
    asked = create.query.target
    assert asked is not None
    delay = None if asked.delay is None else float(asked.delay.seconds)
    # 1 is what can be wished for, and 0.9999 what can be shown to be kept.
    wanted = [None if x is None else min(max(x, 1e-4), 0.9999) for x in (asked.completeness, asked.freshness)]
    found = least_budget(
        Target(wanted[0], wanted[1], delay),
        np.where(np.isfinite(rates) & (rates > 0), rates, ASSUMED_RATE),
        roster.table.window[rows],
        share,
        most=most,
        shortest=max(least, 1.0),
    )
    return Aim(
        create.name.name,
        found.reached,
        found.requests_per_minute,
        found.completeness,
        found.freshness,
        found.delay,
        len(rows),
        found.message,
    )


def aims(
    wanting: Wanting, queries: list[tuple[int, Create]], roster: Roster, rates: Floats, most: float, least: float
) -> list[Aim]:
    """Every query that has a TARGET; `rates` are the believed items per second of all rows."""
    found = []
    for id, create in queries:
        if create.query.target is None:
            continue
        mine = [(row, feed) for feed in sorted(wanting.feeds(id)) if (row := roster.row(feed)) is not None]
        rows = [row for row, _ in mine]
        share = np.array([wanting.selectivity(id, feed) for _, feed in mine])
        found.append(aim(create, rows, share, rates[rows], roster, most, least))
    return found
