"""Predicts the items being lost now and advises what would end the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats
from headwater.schedule.quality.overflow import POISSON, find_losses
from headwater.times import format_duration


@dataclass(frozen=True, slots=True)
class LossForecast:
    """A forecast per feed: items lost already, the probability of a loss, and the missing share of the window."""

    lost: Floats
    chance: Floats
    missing: Floats


def forecast_loss(expected: Floats, window: Floats, burst: Floats | None = None) -> LossForecast:
    """Predict what counts of these means do to windows of this size at this moment.

    `burst` has each feed's weights over `overflow.DISPERSIONS`; without it the counts are Poisson's.

    >>> forecast = forecast_loss(np.array([0.0, 10.0, 40.0]), np.full(3, 20.0))
    >>> forecast.lost.round(1).tolist(), forecast.missing.round(2).tolist()
    ([0.0, 0.0, 20.0], [0.0, 0.5, 1.0])
    """
    if not len(expected):  # a server without feeds needs no tables of curves
        return LossForecast(*(np.empty(0) for _ in range(3)))
    expected = np.where(np.isfinite(expected), np.maximum(expected, 0.0), 0.0)
    window = np.maximum(np.floor(window), 1.0)
    found = find_losses(window, expected, np.tile(POISSON, (len(expected), 1)) if burst is None else burst)
    lost, chance = (np.where(expected > 0, one, 0.0) for one in found)
    return LossForecast(lost, chance, np.clip((expected - lost) / window, 0.0, 1.0))


def advise_on_loss(
    *,
    rate: float,
    window: float,
    least: float,
    pause: float,
    hub: bool,
    budget_used: float,
    failures: int = 0,
    interval: float = np.inf,
) -> str:
    """Say what would end a feed's loss.

    Times are seconds; `pause` is the time that politeness requires between refreshes, `interval` the planned one.

    >>> advise_on_loss(rate=1.0, window=20, least=120, pause=120, hub=False, budget_used=.2)[:50]
    'its window is full after 20 s, and no feed is poll'
    """
    fills = window / max(rate, 1e-12)
    full, wait = f"its window is full after {format_duration(fills)}", format_duration(pause)
    if hub:
        return "it offers a hub: a WebSub subscription would end the loss"
    if failures:
        times = "once" if failures == 1 else f"{failures} times"
        return f"it has failed {times} and is not polled for {wait}: its page has the cause"
    if fills < least:
        return (
            f"{full}, and no feed is polled twice within {format_duration(least)}: only its publisher can help, by a"
            " longer feed or a hub"
        )
    if pause > fills:
        return (
            f"{full}, but politeness requires {wait} between polls: only its publisher can help, by other hints or a"
            " longer feed"
        )
    if interval <= max(pause, least) * 1.05:
        return (
            f"it is polled every {format_duration(interval)}, as often as possible, and now and then more items come"
            " between two polls than it shows: only its publisher can help, by a longer feed or a hub"
        )
    if budget_used >= 0.9:
        return f"{full} and the budget is spent: raise --budget, or this feed's weight"
    return f"{full} and its items came in a burst: a higher weight brings it forward"
