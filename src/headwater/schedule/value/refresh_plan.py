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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, iterate_blocks
from headwater.estimate.learned.inputs import BINS, BINS_PER_INTERVAL
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba

STEPS, USUAL_STEPS, MAX_PAUSE_STEPS = (
    BINS,
    BINS_PER_INTERVAL,
    42,
)  # steps in all, to the usual interval, of the longest pause
BLOCK = 24  # rows that numpy plans at a time
_LAST = STEPS - USUAL_STEPS  # from here on the usual cost continues
_LENGTHS = np.arange(1.0, MAX_PAUSE_STEPS + 1)
# the step at which a pause ends, by its first step and its length; those beyond the last step cost infinity
_ENDS = np.minimum(np.arange(_LAST)[:, None] + np.arange(1, MAX_PAUSE_STEPS + 1), STEPS)
LOGISTIC = 1.702  # the normal distribution function of z is nearly the logistic one of 1.702·z
LEAST_PRICE = 1e-15  # item-days, below any real price: where refreshes are free, an interval is still not 0
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


def measure_saving(task: PlanTask, plain: Floats) -> float:
    """Return the share of the waiting that planning on the task's items saves, beside a plan on the `plain` ones.

    Both first pauses are judged by the task's items, so the result is an expectation. At the best interval the items of
    a feed wait as much as a refresh costs. A worse pause adds its extra cost to that once in every usual interval.
    Losses are left out: a single feed with a short window would outweigh the waiting of all others.
    """
    task = replace(task, loss=np.zeros_like(task.loss))
    step = task.usual / USUAL_STEPS
    cost = _cost_first_pauses(task, step)
    pause = _cost_first_pauses(replace(task, items=plain), step).argmin(1)
    saved = cost[np.arange(len(step)), pause] - cost.min(1)
    return float((saved / task.usual).sum() / max(((saved + task.price) / task.usual).sum(), 1e-12))


def _plan_with_numpy(task: PlanTask, step: Floats) -> Floats:
    cost = _cost_first_pauses(task, step)
    best = cost.argmin(1)
    return np.asarray(best + 1.0 + _refine_step(cost, best))


def _cost_first_pauses(task: PlanTask, step: Floats) -> Floats:
    """Return the cost of each first pause, from one step on, if all later ones are the best."""
    items = task.items
    waiting = np.zeros_like(items)
    np.cumsum((items[:, 1:] + items[:, :-1]) * (0.5 * step)[:, None], axis=1, out=waiting[:, 1:])
    mean = np.maximum(items[:, -1] / (STEPS * step), 1e-6)
    least = np.maximum(task.price, LEAST_PRICE)
    later = np.minimum(np.sqrt(2 * least / (task.worth * mean)), bound_interval(task.window, mean))
    rate = task.worth * mean * later / 2 + least / later
    value = np.full((len(step), STEPS + MAX_PAUSE_STEPS), np.inf)
    value[:, _LAST : STEPS + 1] = rate[:, None] * np.arange(STEPS - _LAST, -1, -1.0) * step[:, None]
    cost = np.empty((len(step), MAX_PAUSE_STEPS))
    for rows in iterate_blocks(len(step), BLOCK):
        pauses = _cost_pauses(task, step, waiting, rows)
        part, price, ahead = cost[rows], task.price[rows], value[rows]
        for i in range(_LAST - 1, -1, -1):
            np.add(pauses[:, i], ahead[:, i + 1 : i + 1 + MAX_PAUSE_STEPS], out=part)
            np.add(np.minimum.reduce(part, axis=1), price, out=ahead[:, i])
    return cost


def _cost_pauses(task: PlanTask, step: Floats, waiting: Floats, rows: slice) -> Floats:
    """Return the waiting and the loss of each pause that begins at each step."""
    items, waited = task.items[rows], waiting[rows]
    begin = items[:, :_LAST, None]
    cost = waited[:, _ENDS]
    cost -= begin * (_LENGTHS * step[rows, None])[:, None, :]
    cost -= waited[:, :_LAST, None]
    cost *= task.worth[rows, None, None]
    risky = np.flatnonzero(items[:, -1] > 0.3 * task.window[rows])
    if len(risky):
        window = task.window[rows][risky, None, None]
        coming = items[risky][:, _ENDS] - begin[risky]
        lost = expect_overflow(coming, window, task.dispersion)
        cost[risky] += task.loss[rows][risky, None, None] * np.where(coming > 0.1 * window, lost, 0.0)
    return cost


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
    """Compute `_plan_with_numpy` row by row in plain loops, for numba.

    The pauses that end at a step are compared side by side, so that a processor takes many at a time.
    """
    waiting, value = np.empty(STEPS + 1), np.empty(STEPS + 1)
    cost, best = np.empty(MAX_PAUSE_STEPS), np.empty(_LAST)
    for row in range(len(step)):
        h, items, worthy = step[row], forecast[row], worth[row]
        waiting[0] = 0.0
        for k in range(1, STEPS + 1):
            waiting[k] = waiting[k - 1] + (items[k] + items[k - 1]) * (0.5 * h)
        mean = max(items[STEPS] / (STEPS * h), 1e-6)
        least = max(price[row], LEAST_PRICE)
        later = min(math.sqrt(2 * least / (worthy * mean)), 0.5 * window[row] / mean + 0.02)
        rate = worthy * mean * later / 2 + least / later
        risky = items[STEPS] > 0.3 * window[row]
        best[:] = math.inf
        for j in range(STEPS, 0, -1):
            value[j] = rate * (STEPS - j) * h if j >= _LAST else best[j] + price[row]
            waited, ahead, first = waiting[j], value[j], j - MAX_PAUSE_STEPS
            for i in range(0 if risky else _LAST):
                c = worthy * (waited - items[i] * ((j - i) * h) - waiting[i]) + ahead
                best[i] = c if first <= i and c < best[i] else best[i]  # those from j on are not read any more
            for i in range(max(first, 0), min(j, _LAST) if risky else 0):
                c = worthy * (waited - items[i] * ((j - i) * h) - waiting[i]) + ahead
                coming = items[j] - items[i]
                if coming > 0.1 * window[row]:
                    spread = math.sqrt(dispersion * max(coming, 1e-9))
                    at = LOGISTIC * (coming - window[row]) / spread
                    if at > 30.0:
                        c += loss[row] * spread * at / LOGISTIC
                    elif at > NEGLIGIBLE_OVERFLOW:
                        c += loss[row] * spread * math.log1p(math.exp(at)) / LOGISTIC
                best[i] = min(best[i], c)
                if i == 0:
                    cost[j - 1] = c
        if not risky:
            for k in range(MAX_PAUSE_STEPS):
                cost[k] = worthy * (waiting[k + 1] - items[0] * ((k + 1) * h) - waiting[0]) + value[k + 1]
        chosen = cost.argmin()
        shift = 0.0
        if 0 < chosen < MAX_PAUSE_STEPS - 1:
            bend = cost[chosen - 1] - 2 * cost[chosen] + cost[chosen + 1]
            if bend > 0:
                shift = min(max(0.5 * (cost[chosen - 1] - cost[chosen + 1]) / bend, -0.5), 0.5)
        next_step[row] = chosen + 1 + shift
