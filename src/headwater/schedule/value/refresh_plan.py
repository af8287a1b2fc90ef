"""Finds the next refresh by dynamic programming, given a forecast and the price of a refresh.

The time from the last refresh is cut into `STEPS` steps of a fifteenth of the feed's usual interval, which covers its
next five refreshes or so. Between refreshes at steps i and j the expected items wait

    D(i, j) = M_j − M_i − Λ_i · (t_j − t_i)        Λ: items expected up to t,  M = ∫ Λ dt

item-days, and each item expected to be pushed out of the window costs `loss` item-days. The recursion is V_i = min_j
D(i, j) + loss + price + V_j; beyond the last interval the cost of the best interval at the forecast's mean rate
continues. The first j of the minimum is the next refresh. numba compiles the loop over feeds where it is installed;
numpy computes the same for all rows at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.estimate.learned.inputs import BINS, BINS_PER_INTERVAL
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba

STEPS, USUAL_STEPS, MAX_PAUSE_STEPS = (
    BINS,
    BINS_PER_INTERVAL,
    42,
)  # steps in all, to the usual interval, of the longest pause
LOGISTIC = 1.702  # the normal distribution function of z is nearly the logistic one of 1.702·z
NEGLIGIBLE_OVERFLOW = -12.0  # logistic units below which an overflow is not computed


@dataclass(frozen=True, slots=True)
class PlanTask:
    """The input of a plan, one position per feed: forecast, worth, price, window and usual interval.

    `items` are those expected from the last refresh up to each step. `worth` is the cost of an item-day of delay,
    `loss` the cost of a lost item, `price` the cost of a refresh; `usual` is in days. `dispersion` is the variance of
    the number of items divided by its mean.
    """

    items: Floats
    worth: Floats
    loss: Floats
    price: Floats
    window: Floats
    usual: Floats
    dispersion: float


def plan_next_refresh(task: PlanTask, fast: bool = False) -> Floats:
    """Return the days from `now` to the next refresh, one per position. `fast` uses numba, if it is installed."""
    if not len(task.usual):
        return np.empty(0)
    step = task.usual / USUAL_STEPS
    if fast and NUMBA_AVAILABLE:
        next_step = np.empty(len(task.usual))
        compile_with_numba(_plan_kernel)(
            task.items,
            task.worth,
            task.loss,
            task.price,
            task.window,
            step,
            task.dispersion,
            next_step,
        )
    else:
        next_step = _plan_with_numpy(task, step)
    return np.asarray(next_step * step)


def expect_overflow(items: Floats, window: Floats, dispersion: float) -> Floats:
    """Return E max(N − W, 0) for N of mean `items` and variance dispersion × mean (normal, by a logistic curve).

    >>> round(float(expect_overflow(np.array(100.0), np.array(20.0), 6.0)))  # far beyond the window: N − W
    80
    >>> float(expect_overflow(np.array(1.0), np.array(20.0), 1.0))  # nowhere near it
    0.0
    """
    spread = np.sqrt(dispersion * np.maximum(items, 1e-9))
    at = LOGISTIC * (items - window) / spread
    soft = np.where(at > 30.0, at, np.log1p(np.exp(np.minimum(at, 30.0))))
    return np.asarray(np.where(at > NEGLIGIBLE_OVERFLOW, spread * soft / LOGISTIC, 0.0))


def bound_interval(window: Floats, rate: Floats) -> Floats:
    """Return the days in which half of the window fills, and half an hour: the room that bursts need."""
    return np.asarray(0.5 * window / rate + 0.02)


def _plan_with_numpy(task: PlanTask, step: Floats) -> Floats:
    feeds = len(task.usual)
    steps = np.arange(STEPS + 1)
    items = task.items
    waiting = np.zeros_like(items)
    np.cumsum((items[:, 1:] + items[:, :-1]) * (0.5 * step)[:, None], axis=1, out=waiting[:, 1:])
    mean = np.maximum(items[:, -1] / (STEPS * step), 1e-6)
    later = np.minimum(np.sqrt(2 * task.price / (task.worth * mean)), bound_interval(task.window, mean))
    rate = task.worth * mean * later / 2 + task.price / later
    value = np.zeros_like(items)
    last = STEPS - USUAL_STEPS
    value[:, last:] = rate[:, None] * (STEPS - steps[last:]) * step[:, None]
    risky = np.flatnonzero(items[:, -1] > 0.3 * task.window)
    cost = np.empty((feeds, MAX_PAUSE_STEPS))
    for i in range(last - 1, -1, -1):
        ends = np.arange(i + 1, min(i + MAX_PAUSE_STEPS, STEPS) + 1)
        held = waiting[:, ends] - items[:, i : i + 1] * ((ends - i) * step[:, None]) - waiting[:, i : i + 1]
        cost = task.worth[:, None] * held + value[:, ends]
        if len(risky):
            coming = items[np.ix_(risky, ends)] - items[risky, i : i + 1]
            lost = expect_overflow(coming, task.window[risky, None], task.dispersion)
            cost[risky] += task.loss[risky, None] * np.where(coming > 0.1 * task.window[risky, None], lost, 0.0)
        value[:, i] = cost.min(1) + task.price
    best = cost.argmin(1)
    return np.asarray(best + 1.0 + _refine_step(cost, best))


def _refine_step(cost: Floats, best: NDArray[np.intp]) -> Floats:
    """Return the offset of the minimum of the parabola through the best step and its neighbours."""
    place = np.arange(len(best))
    inner = np.clip(best, 1, cost.shape[1] - 2)
    before, here, after = cost[place, inner - 1], cost[place, inner], cost[place, inner + 1]
    bend = before - 2 * here + after
    usable = (bend > 0) & (best == inner)
    return np.where(usable, np.clip(0.5 * (before - after) / np.where(usable, bend, 1.0), -0.5, 0.5), 0.0)


def _plan_kernel(
    forecast: Any,
    worth: Any,
    loss: Any,
    price: Any,
    window: Any,
    step: Any,
    dispersion: float,
    next_step: Any,
) -> None:
    """Compute `_plan_with_numpy` row by row in plain loops, for numba."""
    waiting = np.empty(STEPS + 1)
    value = np.empty(STEPS + 1)
    cost = np.empty(STEPS + 1)
    last = STEPS - USUAL_STEPS
    for row in range(len(step)):
        h, items = step[row], forecast[row]
        waiting[0] = 0.0
        for k in range(1, STEPS + 1):
            waiting[k] = waiting[k - 1] + (items[k] + items[k - 1]) * (0.5 * h)
        mean = max(items[STEPS] / (STEPS * h), 1e-6)
        later = min(math.sqrt(2 * price[row] / (worth[row] * mean)), 0.5 * window[row] / mean + 0.02)
        rate = worth[row] * mean * later / 2 + price[row] / later
        risky = items[STEPS] > 0.3 * window[row]
        for k in range(last, STEPS + 1):
            value[k] = rate * (STEPS - k) * h
        best = 1
        for i in range(last - 1, -1, -1):
            least = math.inf
            for j in range(i + 1, min(i + MAX_PAUSE_STEPS, STEPS) + 1):
                c = worth[row] * (waiting[j] - items[i] * ((j - i) * h) - waiting[i]) + value[j]
                if risky:
                    coming = items[j] - items[i]
                    if coming > 0.1 * window[row]:
                        spread = math.sqrt(dispersion * max(coming, 1e-9))
                        at = 1.702 * (coming - window[row]) / spread
                        if at > 30.0:
                            c += loss[row] * spread * at / 1.702
                        elif at > -12.0:
                            c += loss[row] * spread * math.log1p(math.exp(at)) / 1.702
                if i == 0:
                    cost[j] = c
                if c < least:
                    least = c
                    best = j
            value[i] = least + price[row]
        shift = 0.0
        if 1 < best < MAX_PAUSE_STEPS:
            bend = cost[best - 1] - 2 * cost[best] + cost[best + 1]
            if bend > 0:
                shift = min(max(0.5 * (cost[best - 1] - cost[best + 1]) / bend, -0.5), 0.5)
        next_step[row] = best + shift
