"""Finds the next refresh by dynamic programming, given a forecast and the price of a refresh.

The time from the last refresh is cut into `STEPS` steps of about a tenth of the feed's usual interval, which covers its
next five refreshes or so. Between refreshes at steps i and j the expected items wait

    D(i, j) = M_j − M_i − Λ_i · (t_j − t_i)        Λ: items expected up to t,  M = ∫ Λ dt

item-days, and each item expected to be pushed out of the window costs `loss` item-days. The recursion is V_i = min_j
D(i, j) + loss + price + V_j; beyond the last tenth the cost of the usual interval continues. The first j of the minimum
is the next refresh. numba compiles the loop over feeds where it is installed; numpy computes the same for all rows at
once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.estimate.models.week_rhythm import HALF_HOUR, SLOTS, to_own_time
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba
from headwater.times import DAY

STEPS, USUAL_STEPS, MAX_PAUSE_STEPS = 48, 10, 30  # steps in all, to the usual interval, of the longest pause
LOGISTIC = 1.702  # the normal distribution function of z is nearly the logistic one of 1.702·z
NEGLIGIBLE_OVERFLOW = -12.0  # logistic units below which an overflow is not computed


@dataclass(frozen=True, slots=True)
class PlanTask:
    """The input of a plan, one position per feed: forecast in own time, worth, price, window and usual interval.

    `worth` is the cost of an item-day of delay, `loss` the cost of a lost item, `price` the cost of a refresh; `usual`
    is in days. `dispersion` is the variance of the number of items divided by its mean.
    """

    now: Floats
    clocks: Floats
    base: Floats
    parts: Floats
    scales: Floats
    worth: Floats
    loss: Floats
    price: Floats
    window: Floats
    usual: Floats
    dispersion: float


def plan_next_refresh(task: PlanTask, fast: bool = False) -> Floats:
    """Return the days from `now` to the next refresh, one per position. `fast` uses numba, if it is installed."""
    if not len(task.now):
        return np.empty(0)
    step = task.usual / USUAL_STEPS
    if fast and NUMBA_AVAILABLE:
        next_step = np.empty(len(task.now))
        compile_with_numba(_plan_kernel)(
            np.ascontiguousarray(task.now, dtype=np.float64),
            task.clocks,
            task.base,
            np.ascontiguousarray(task.parts),
            task.scales,
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


def _plan_with_numpy(task: PlanTask, step: Floats) -> Floats:
    feeds = len(task.now)
    steps = np.arange(STEPS + 1)
    when = task.now[:, None] + steps * (step * DAY)[:, None]
    place = np.broadcast_to(np.arange(feeds)[:, None], when.shape)
    own = to_own_time(task.clocks, place, when)
    own = own - own[:, :1]
    items = task.base[:, None] * own
    for k, scale in enumerate(task.scales):
        items += (task.parts[:, k] * scale)[:, None] * (1.0 - np.exp(-own / scale))
    items = np.maximum.accumulate(np.maximum(items, 0.0), axis=1)
    waiting = np.zeros_like(items)
    np.cumsum((items[:, 1:] + items[:, :-1]) * (0.5 * step)[:, None], axis=1, out=waiting[:, 1:])
    mean = items[:, -1] / (STEPS * step)
    rate = task.worth * mean * task.usual / 2 + task.price / task.usual
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
    now: Any,
    clocks: Any,
    base: Any,
    parts: Any,
    scales: Any,
    worth: Any,
    loss: Any,
    price: Any,
    window: Any,
    step: Any,
    dispersion: float,
    next_step: Any,
) -> None:
    """Compute `_plan_with_numpy` row by row in plain loops, for numba."""
    items = np.empty(STEPS + 1)
    waiting = np.empty(STEPS + 1)
    value = np.empty(STEPS + 1)
    cost = np.empty(STEPS + 1)
    last = STEPS - USUAL_STEPS
    for row in range(len(now)):
        h = step[row]
        origin = 0.0
        for k in range(STEPS + 1):
            when = now[row] + k * (h * 86_400.0)
            week = math.floor(when / 604_800.0)
            slot = (when - week * 604_800.0) / HALF_HOUR
            whole = min(int(slot), SLOTS - 1)
            below = clocks[row, whole]
            own = week * 7.0 + below + (slot - whole) * (clocks[row, whole + 1] - below)
            if k == 0:
                origin = own
            own -= origin
            total = base[row] * own
            for s in range(len(scales)):
                total += parts[row, s] * scales[s] * (1.0 - math.exp(-own / scales[s]))
            total = max(total, 0.0)
            items[k] = max(total, items[k - 1]) if k > 0 else total
            waiting[k] = waiting[k - 1] + (items[k] + items[k - 1]) * (0.5 * h) if k > 0 else 0.0
        usual = USUAL_STEPS * h
        rate = worth[row] * (items[STEPS] / (STEPS * h)) * usual / 2 + price[row] / usual
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
