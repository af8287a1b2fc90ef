"""Everything about one feed's next refresh in one value: what we believe, what the server asked, what it is worth.

The command line, the feed's page and the JSON API all show this.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headwater.estimate.base import DAY, HOUR, Estimator
from headwater.estimate.poisson import at_least
from headwater.schedule.base import Strategy, Table
from headwater.schedule.manners import Reason


@dataclass(frozen=True, slots=True)
class Belief:
    """What an estimator believes of a feed: items per hour now, the coming day by hours, the coming week by days."""

    rate_now: float
    per_day: float
    daily: tuple[float, ...]
    weekly: tuple[float, ...]
    window: float
    waiting: float | None
    chance_of_loss: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a feed is or is not refreshed now. `allowed_at` and `manners` stand before the strategy's `reason`."""

    strategy: str
    estimator: str | None
    reason: str
    value: float | None
    price: float | None
    probably_at: float | None
    allowed_at: float | None
    manners: str
    belief: Belief | None

    def as_json(self) -> dict[str, Any]:
        """The same with infinite numbers as None, which JSON cannot hold."""

        def finite(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: finite(inner) for key, inner in value.items()}
            if isinstance(value, (tuple, list)):
                return [finite(inner) for inner in value]
            return None if isinstance(value, float) and not np.isfinite(value) else value

        told: dict[str, Any] = finite(asdict(self))
        return told


def believed(estimator: Estimator, row: int, now: float, *, window: float, last: float) -> Belief:
    """What the estimator says of one feed; rates per hour and per day, the chance that the window has overflowed."""
    one, midnight = np.array([row]), float(np.floor(now / DAY) * DAY)

    def items(start: float, end: float) -> float:
        return float(estimator.expected(one, np.array([start]), np.array([end]))[0])

    seen = bool(np.isfinite(last))
    waiting = items(last, now) if seen else None
    loss = float(at_least(np.array(np.floor(window) + 1), np.array(waiting))) if waiting is not None else None
    return Belief(
        rate_now=items(now, now + HOUR),
        per_day=items(now, now + DAY),
        daily=tuple(items(midnight + h * HOUR, midnight + (h + 1) * HOUR) for h in range(24)),
        weekly=tuple(items(midnight + d * DAY, midnight + (d + 1) * DAY) for d in range(7)),
        window=window,
        waiting=waiting,
        chance_of_loss=loss,
    )


def explain(
    strategy: Strategy, table: Table, row: int, now: float, allowed: tuple[float, Reason] = (-np.inf, Reason.FREE)
) -> Explanation:
    """Put together what the strategy, its estimator and manners say of a feed; `allowed` is `next_allowed`'s answer."""
    told = strategy.explain(table, row, now)
    at, held = allowed
    due = told.due if told.due is None else max(told.due, at)
    estimator = strategy.estimator
    belief = None
    if estimator is not None:
        belief = believed(estimator, row, now, window=float(table.window[row]), last=float(table.last[row]))
    return Explanation(
        strategy=strategy.name,
        estimator=estimator.name if estimator is not None else None,
        reason=told.reason,
        value=told.value,
        price=told.price,
        probably_at=due,
        allowed_at=max(at, now),
        manners=held.said,
        belief=belief,
    )
