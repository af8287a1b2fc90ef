"""Draws how often and when feeds publish: power-law rates, daily shapes, and Poisson times that follow both.

A shape is an array with one factor per slot of its period (a day by default), with mean 1: a feed's rate at some moment
is its mean rate times the factor of the slot. Shapes are piecewise constant, so times are drawn by exact inversion of
the cumulative rate without rejection, and expectations need no quadrature. Real feeds have three families of shapes:
some publish at a few fixed hours, some at any hour, some by day rather than by night.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from headwater.arrays import Floats
from headwater.times import DAY

SLOTS = 48  # half hours


def uniform_shape(slots: int = SLOTS) -> Floats:
    """Return a shape with the same rate at every hour."""
    return np.ones(slots)


def peak_shape(at: Sequence[float] = (8.5, 17.5), width: float = 1.0, floor: float = 0.0, slots: int = SLOTS) -> Floats:
    """Return bursts of `width` hours around the hours `at`; `floor` is the share spread evenly over the day.

    >>> shape = peak_shape(at=(12,), width=1, slots=24)
    >>> int(shape.argmax()), float(shape.mean())
    (11, 1.0)
    """
    edges = np.linspace(0.0, 24.0, slots + 1)
    inside = np.zeros(slots)
    for hour in at:
        for turn in (-24.0, 0.0, 24.0):  # a burst may cross midnight
            low, high = hour + turn - width / 2, hour + turn + width / 2
            inside += np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0.0, None)
    return blend_shape(_normalise(inside), 1.0 - floor)


def wave_shape(top: float = 14.0, depth: float = 0.9, slots: int = SLOTS) -> Floats:
    """Return a smooth day and night: highest at the hour `top`; `depth` (0–1) sets how quiet the opposite hour is.

    >>> shape = wave_shape(top=12, depth=1, slots=48)
    >>> bool(shape[23] > 1.99), bool(shape[0] < .01)
    (True, True)
    """
    hours = (np.arange(slots) + 0.5) * 24.0 / slots
    return _normalise(1.0 + depth * np.cos((hours - top) * 2.0 * np.pi / 24.0))


def blend_shape(shape: ArrayLike, share: float) -> Floats:
    """Return a shape that only `share` of the postings follow while the others come at any hour."""
    return share * np.asarray(shape, dtype=float) + (1.0 - share)


def draw_power_law(rng: np.random.Generator, count: int, low: float, high: float, exponent: float = 0.78) -> Floats:
    """Draw `count` rates on [low, high] with density p(x) ~ x^−exponent by inverting its distribution function."""
    return power_law_quantile(rng.random(count), low, high, exponent)


def power_law_quantile(quantile: ArrayLike, low: float, high: float, exponent: float = 0.78) -> Floats:
    """Return the rate below which the share `quantile` of all feeds lies.

    >>> float(power_law_quantile(0.0, 1, 1000)), round(float(power_law_quantile(1.0, 1, 1000)), 6)
    (1.0, 1000.0)
    """
    u = np.asarray(quantile, dtype=float)
    if exponent == 1.0:
        return np.asarray(low * (high / low) ** u)
    power = 1.0 - exponent
    return np.asarray((low**power + u * (high**power - low**power)) ** (1.0 / power))


def integrate_shape(shape: Floats, times: ArrayLike, period: float = DAY) -> Floats:
    """Return ∫ shape from 0 to each of `times`, in seconds; over whole periods it equals the time itself."""
    turns, within = np.divmod(np.asarray(times, dtype=float), period)
    edges, sums = _running_sums(shape, period)
    return np.asarray(turns * period + np.interp(within, edges, sums))


def expect_items(rate: float, shape: Floats, start: float, end: float, period: float = DAY) -> float:
    """Return the mean number of items that a feed of `rate` items a second publishes in [start, end).

    >>> expect_items(2 / DAY, uniform_shape(), 0, 3 * DAY)
    6.0
    """
    low, high = integrate_shape(shape, (start, end), period)
    return float(rate * (high - low))


def draw_poisson_times(
    rng: np.random.Generator, rate: float, shape: Floats, start: float, end: float, period: float = DAY
) -> Floats:
    """Draw the sorted times in [start, end) at which a feed of `rate` items a second on average publishes.

    Given their number, the times of a Poisson process are independent with the rate as their density. So that many
    uniform positions are drawn on the cumulative rate and mapped back to time.
    """
    edges, sums = _running_sums(shape, period)
    low, high = ((at // period) * period + float(np.interp(at % period, edges, sums)) for at in (start, end))
    count = rng.poisson(rate * (high - low))
    if not count:
        return np.empty(0)
    positions = rng.uniform(low, high, count)
    positions.sort()
    turns, within = np.divmod(positions, period)
    slot = np.searchsorted(sums, within, side="right") - 1  # side="right": no time falls into a silent slot
    slot = np.minimum(slot, np.flatnonzero(shape)[-1])
    times = turns * period + edges[slot] + (within - sums[slot]) / shape[slot]
    return np.asarray(np.clip(times, start, np.nextafter(end, start)))


def _running_sums(shape: Floats, period: float) -> tuple[Floats, Floats]:
    width = period / len(shape)
    sums = np.zeros(len(shape) + 1)
    np.cumsum(shape, out=sums[1:])
    return np.arange(len(shape) + 1, dtype=np.float64) * width, sums * width


def _normalise(values: Floats) -> Floats:
    return np.asarray(values / values.mean())
