"""Turns a TARGET DELAY into deadlines: intervals so that 95 of 100 items of a query are fetched in time.

An item that appears at a random moment waits at most the interval, so a share of D/T of a feed's items is fetched
within D. The cheapest way to a share of 95 % is therefore all or nothing: the feeds with most wanted items per request
get the interval D, the others keep the one they have. Where the budget has room for it, all feeds get it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.arrays import Bools, Floats
from headwater.times import MINUTE, format_duration, format_number, format_share

KEPT_SHARE = 0.95  # of the items that must come in time
BUDGET_SHARE = 0.9  # of the budget that deadlines may take
USUAL_SHARE = 0.75  # of the items that an interval without deadline brings in time: pauses vary, and queues wait
AMPLE_SHARE = 0.5  # of the budget up to which all feeds of a query get a deadline, however little they bring
NO_FEED = "It reads no feed, so nothing can be promised: name feeds or folders that exist in its FROM."


@dataclass(frozen=True, slots=True)
class DeadlinePlan:
    """The feeds that get a deadline, the share of items that then comes in time, and the reason if that is too few.

    `seconds` is the wanted delay, or the one that the budget allows.
    """

    chosen: Bools
    seconds: float
    share: float
    requests_per_minute: float
    reached: bool
    message: str


def plan_deadlines(
    delay: float,
    rate: Floats,
    doubt: Floats,
    share: Floats,
    cost: Floats,
    pause: Floats,
    budget: float,
    *,
    interval: Floats | None = None,
    taken: float = 0.0,
) -> DeadlinePlan:
    """Choose the feeds that are refreshed every `delay` seconds.

    `rate` and its standard deviation `doubt` are in items per time, `share` is the share that the query keeps, `pause`
    the interval that politeness requires, `interval` the one without a deadline (None: not known). Of the `budget`
    (requests per minute) other deadlines have `taken` a part.

    >>> one = np.ones(3)
    >>> plan_deadlines(120.0, np.array([96.0, 2.0, 2.0]), 0 * one, one, one, 120 * one, 2.0).chosen.tolist()
    [True, False, False]
    """
    if not len(rate):
        return DeadlinePlan(np.zeros(0, bool), delay, 0.0, 0.0, False, NO_FEED)
    items = (rate + doubt) * np.maximum(share, 1e-9)  # a quiet feed counts by what it may publish
    total = float(items.sum())
    able = pause <= delay * (1 + 1e-9)
    usual = np.full(len(rate), np.inf) if interval is None else interval
    in_time = np.where(
        able, USUAL_SHARE * delay / np.maximum(usual, delay), np.minimum(1, delay / np.maximum(pause, 1))
    )
    anyway = items * in_time  # without a deadline
    order = np.argsort(-np.where(able, items / cost, -1.0), kind="stable")
    gained = np.where(able, items - anyway, 0.0)[order]
    before = float(anyway.sum()) + np.cumsum(gained) - gained
    room = BUDGET_SHARE * budget - taken
    ample = float((cost[able] * MINUTE / delay).sum()) <= min(AMPLE_SHARE * budget, room)
    chosen = np.zeros(len(rate), bool)
    chosen[order] = able[order] & (ample | (before < KEPT_SHARE * total))
    inside = float(np.where(chosen, items, anyway).sum()) / total
    asked = float((cost[chosen] * MINUTE / delay).sum())
    goal = format_duration(delay)
    if asked > max(room, 0.001 * budget):  # what other deadlines ask for anyway costs nothing
        verb = "needs" if chosen.sum() == 1 else "need"
        needs = f"{count_feeds(int(chosen.sum()))} every {goal} {verb} {format_number(asked)} requests per minute"
        if room <= 0.01 * budget:
            message = f"Cannot be promised: {needs}, and the deadlines of other queries take the whole budget."
            return DeadlinePlan(np.zeros(len(rate), bool), delay, inside, 0.0, False, message)
        possible = delay * asked / room
        others = f", of which deadlines of other queries take {taken:.3g}" if taken else ""
        message = (
            f"Cannot be promised with {budget:.3g} requests per minute{others}: {needs}."
            f" Possible is a delay of {format_duration(possible)}, and its feeds are polled for that."
        )
        return DeadlinePlan(chosen, possible, inside, room, False, message)
    if inside < KEPT_SHARE - 1e-9:
        limit = f"servers ask for pauses of up to {format_duration(float(pause.max()))} between two polls"
        if not able.any():
            limit = f"none of its feeds may be polled twice within {format_duration(float(pause.min()))}"
        message = (
            f"Cannot be promised for 95 of 100 items: {limit}."
            f" Possible is {format_share(inside, 500)} of the items within {goal}."
        )
        return DeadlinePlan(chosen, delay, inside, asked, False, message)
    polled = count_feeds(int(chosen.sum()))
    message = f"Promised: 95 of 100 items within {goal}, by polling {polled} at least every {goal}."
    return DeadlinePlan(chosen, delay, inside, asked, True, message)


def count_feeds(number: int) -> str:
    return "1 feed" if number == 1 else f"{number:,} feeds"
