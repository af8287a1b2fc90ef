"""Predicts the items being lost now and advises what would end the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats
from headwater.estimate.poisson import expect_shown, poisson_tail
from headwater.times import DAY, HOUR


@dataclass(frozen=True, slots=True)
class LossForecast:
    """Per feed, from what is expected to wait: items pushed out already, its chance, the window's missing share."""

    lost: Floats
    chance: Floats
    missing: Floats


def forecast_loss(expected: Floats, window: Floats) -> LossForecast:
    """What a Poisson count with these means does to windows of this size, at this moment.

    >>> told = forecast_loss(np.array([0.0, 10.0, 40.0]), np.full(3, 20.0))
    >>> told.lost.round(2).tolist(), told.missing.round(2).tolist()
    ([0.0, 0.0, 20.0], [0.0, 0.5, 1.0])
    """
    expected = np.where(np.isfinite(expected), np.maximum(expected, 0.0), 0.0)
    window = np.maximum(np.floor(window), 1.0)
    lost, chance, shown = np.zeros(len(expected)), np.zeros(len(expected)), np.minimum(expected, window)
    # Far below a full window nothing overflows; far above it everything does. Only between is a sum needed.
    between = np.flatnonzero((expected > 0.2 * window) | (window < 5))
    some, size = expected[between], window[between]
    far = some > 4 * size + 50
    chance[between[far]] = 1.0
    near = between[~far]
    shown[near] = expect_shown(window[near], expected[near])
    chance[near] = poisson_tail(window[near] + 1, expected[near])
    lost[between] = np.maximum(expected[between] - shown[between], 0.0)
    return LossForecast(lost, chance, np.clip(shown / window, 0.0, 1.0))


def advise_on_loss(
    *, rate: float, window: float, least: float, pause: float, hub: bool, budget_used: float, failures: int = 0
) -> str:
    """What would end a feed's loss. Times in seconds; `pause` is how long manners make us wait between two refreshes.

    >>> advise_on_loss(rate=1.0, window=20, least=120, pause=120, hub=False, budget_used=.2)[:50]
    'its window is full after 20 s, and no feed is aske'
    """
    fills = window / max(rate, 1e-12)
    if hub:
        return "it offers a hub: being pushed would end the loss"
    if failures:
        return (
            f"it has failed {'once' if failures == 1 else f'{failures} times'} and is left alone for {_format_span(pause)}: "
            "the health page says why, and what can be done"
        )
    if fills < least:
        return (
            f"its window is full after {_format_span(fills)}, and no feed is asked twice within {_format_span(least)}: only its "
            "publisher can help, by a longer feed or a hub"
        )
    if pause > fills:
        return (
            f"its window is full after {_format_span(fills)}, but its server is left alone for {_format_span(pause)}: only its "
            "publisher can help, by other hints or a longer feed"
        )
    if budget_used >= 0.9:
        return f"its window is full after {_format_span(fills)} and the budget is spent: raise --budget, or this feed's weight"
    return f"its window is full after {_format_span(fills)} and it came in a burst: a higher weight brings it forward"


def _format_span(seconds: float) -> str:
    for size, unit in ((DAY, "d"), (HOUR, "h"), (60.0, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
