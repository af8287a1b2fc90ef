"""What other budgets would buy on this server: the model's curve over what the node believes of its feeds now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from headwater.node.deciding import Decider
from headwater.node.targets import beliefs
from headwater.schedule.curve import Bought, bought

SAMPLE = 500  # feeds that stand for all of them
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1 / np.sqrt(2), 1.0, np.sqrt(2), 2.0, 4.0, 8.0)


async def what_budgets_buy(
    decider: Decider, now: float, least_interval: float, budgets: Sequence[float] | None = None
) -> list[Bought]:
    """The curve around the present budget; empty while nothing is believed."""
    feeds = beliefs(decider, now)
    if feeds is None:
        return []
    rates, windows, weights = feeds
    present = decider.spending.cap.requests
    wanted = list(budgets) if budgets is not None else [present * factor for factor in FACTORS]
    many = max(len(rates) / SAMPLE, 1.0)
    if many > 1:
        chosen = np.argsort(rates, kind="stable")[((np.arange(SAMPLE) + 0.5) * many).astype(np.intp)]
        rates, windows, weights = rates[chosen], windows[chosen], weights[chosen]
    share = [budget / many for budget in wanted]
    found = await asyncio.to_thread(bought, rates, windows, weights, share, shortest=least_interval)
    return [
        Bought(budget, one.used * many, one.completeness, one.freshness, one.delay)
        for budget, one in zip(wanted, found, strict=True)
    ]
