"""Tabulates what bursts push out of a feed's window between two refreshes.

N items of mean μ come between two refreshes, as a Poisson process of batches, so that N has the variance φμ (φ = 1: no
batches). Sizes of batches follow one of two laws: logarithmic (N is then negative binomial) or geometric. At the same φ
the logarithmic law has more single items and longer batches; real feeds are found with either. The window shows W of
the items. The tables hold, for windows, laws of batches and means μ,

    L(μ) = E max(N − W, 0)      P(N > W)      ∫₀^μ L        h(μ) = μ·L′(μ) − L(μ)

As μ → 0 the share L/μ does not vanish if φ > 1: a batch larger than the window is lost at any budget. A feed's own
curve mixes the rows of its believed laws and of the two tabulated windows around its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headwater.arrays import Floats, Rows, multiply

WINDOWS = np.array(
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 17, 20, 22, 25, 30, 35, 40, 45, 50, 60, 70, 85, 100, 120, 150, 200, 300, 500.0]
)
_STEPS = (1.25, 1.6, 2.0, 2.6, 3.5, 5.0, 7.0, 10.0, 15.0, 25.0, 45.0, 80.0)
DISPERSIONS = np.array([1.0, *_STEPS, *_STEPS])  # φ of each law of batches
GEOMETRIC = np.arange(len(DISPERSIONS)) > len(_STEPS)  # the laws whose batches are geometric, not logarithmic
MEANS = np.geomspace(1e-4, 5e3, 128)
_LOG_MEANS = np.log(MEANS)
_STEP = float(_LOG_MEANS[1] - _LOG_MEANS[0])
POISSON = np.eye(len(DISPERSIONS))[0]  # the weights of a feed without bursts


@dataclass(frozen=True, slots=True)
class OverflowCurves:
    """The curves of some feeds at `MEANS`, one row each: items lost, chance of a loss, integral and index of the loss.

    >>> curves = compute_curves(np.array([20.0]), POISSON[None])
    >>> curves.read(curves.lost, np.array([100.0])).round().tolist()  # far beyond the window: N − W
    [80.0]
    """

    window: Floats
    lost: Floats
    chance: Floats
    area: Floats
    index: Floats

    def read(self, values: Floats, items: Floats) -> Floats:
        """Return `values`, one of the curves, at a mean of `items` per row, within the tables."""
        low, share = _place_means(items)
        rows = np.arange(len(values))
        below, above = values[rows, low], values[rows, low + 1]
        return np.asarray(below + share * (above - below))

    def read_lost(self, items: Floats) -> Floats:
        """Return L, which is linear in the mean below the tables and above them."""
        inside = self.read(self.lost / MEANS, items) * items
        return np.where(items > MEANS[-1], np.maximum(items - self.window, 0.0), inside)

    def read_area_share(self, items: Floats) -> Floats:
        """Return ∫L / μ²."""
        inside = self.read(self.area / MEANS**2, items)
        beyond = 0.5 * (1 - self.window / np.maximum(items, self.window)) ** 2  # L is nearly μ − W from the window on
        return np.where(items > MEANS[-1], beyond, inside)


def compute_curves(window: Floats, burst: Floats) -> OverflowCurves:
    """Return the curves of feeds by their windows and their weights over `DISPERSIONS` (one row each)."""
    tables = _tabulate()
    width, low, share = _place_windows(window)

    def mix(table: Floats) -> Floats:
        mixed = np.empty((len(window), len(MEANS)))
        for place in np.unique(low):
            mine = low == place
            below, above = multiply(burst[mine], table[place]), multiply(burst[mine], table[place + 1])
            mixed[mine] = below + share[mine, None] * (above - below)
        return mixed

    return OverflowCurves(np.asarray(width), *(mix(table) for table in tables))


def find_losses(window: Floats, items: Floats, burst: Floats) -> tuple[Floats, Floats]:
    """Return L and P(N > W) of each feed at its mean of `items`, as its curves have them there.

    >>> lost, chance = find_losses(np.array([20.0]), np.array([100.0]), POISSON[None])
    >>> lost.round().tolist(), chance.round(3).tolist()
    ([80.0], [1.0])
    """
    beyond, width = items > MEANS[-1], np.clip(window, WINDOWS[0], WINDOWS[-1])
    share, likely = _read_tables((_tabulate_shares()[0], _tabulate()[1]), window, items, burst)
    lost = np.where(beyond, np.maximum(items - width, 0.0), share * items)
    return lost, np.where(beyond, 1.0, likely)


def find_waits(window: Floats, items: Floats, burst: Floats) -> Floats:
    """Return the mean wait of a caught item as a share of the gap between two polls, in which `items` come on average.

    >>> find_waits(np.array([20.0, 20.0]), np.array([5.0, 100.0]), np.tile(POISSON, (2, 1))).round(1).tolist()
    [0.5, 0.1]
    """
    lost, area = _read_tables(_tabulate_shares(), window, np.minimum(items, MEANS[-1]), burst)
    return np.asarray(np.clip(0.5 - lost + area, 0.0, None) / np.maximum(1 - lost, 1e-6))


def _read_tables(tables: Sequence[Floats], window: Floats, items: Floats, burst: Floats) -> list[Floats]:
    """Return the tables' values of each feed, linear between two windows and two means."""
    _, low_size, share_size = _place_windows(window)
    low, share = _place_means(items)
    found = [np.zeros(len(items)) for _ in tables]
    for size, weight in ((low_size, 1 - share_size), (low_size + 1, share_size)):
        for at, part in ((low, 1 - share), (low + 1, share)):
            for values, table in zip(found, tables, strict=True):
                values += weight * part * (burst * table[size, :, at]).sum(1)
    return found


def find_loss_chances(window: Floats, items: Floats) -> Floats:
    """Return P(N > W) under each of the laws of batches (columns), from the nearest tabulated window and mean."""
    size, at = _find_nearest(window, items)
    return np.asarray(_tabulate()[1][size, :, at])


def measure_doubt_of_laws(window: Floats, items: Floats, burst: Floats) -> Floats:
    """Return the standard deviation of L over the believed laws, from the nearest tabulated window and mean.

    >>> round(float(measure_doubt_of_laws(np.array([20.0]), np.array([10.0]), POISSON[None])[0]), 6)  # the law is sure
    0.0
    """
    size, at = _find_nearest(window, items)
    lost = _tabulate()[0][size, :, at]
    mean = (burst * lost).sum(1)
    return np.asarray(np.sqrt(np.maximum((burst * lost**2).sum(1) - mean**2, 0.0)))


def _place_windows(window: Floats) -> tuple[Floats, Rows, Floats]:
    """Return the windows within the tables, the place of the next smaller tabulated one, and the share of the next."""
    width = np.clip(window, WINDOWS[0], WINDOWS[-1])
    low = np.clip(np.searchsorted(WINDOWS, width), 1, len(WINDOWS) - 1) - 1
    share = (np.log(width) - np.log(WINDOWS[low])) / (np.log(WINDOWS[low + 1]) - np.log(WINDOWS[low]))
    return np.asarray(width), low, np.asarray(share)


def _place_means(items: Floats) -> tuple[Rows, Floats]:
    """Return the place of the next smaller tabulated mean, and the share of the next."""
    at = (np.log(np.maximum(items, 1e-300)) - _LOG_MEANS[0]) / _STEP
    low = np.clip(at.astype(np.intp), 0, len(MEANS) - 2)
    return low, np.clip(at - low, 0.0, 1.0)


def _find_nearest(window: Floats, items: Floats) -> tuple[Rows, Rows]:
    """Return the places of the nearest tabulated windows and means."""
    at = np.rint((np.log(np.maximum(items, MEANS[0])) - _LOG_MEANS[0]) / _STEP).astype(np.intp)
    return np.clip(np.searchsorted(WINDOWS, window), 0, len(WINDOWS) - 1), np.minimum(at, len(MEANS) - 1)


@lru_cache(maxsize=1)
def _tabulate() -> tuple[Floats, Floats, Floats, Floats]:
    """Return L, P(N > W), ∫L and h by window, law of batches and mean."""
    shape = (len(WINDOWS), len(DISPERSIONS), len(MEANS))
    lost, chance = np.empty(shape), np.empty(shape)
    upto = WINDOWS.astype(np.intp)
    for place, (dispersion, geometric) in enumerate(zip(DISPERSIONS.tolist(), GEOMETRIC.tolist(), strict=True)):
        chances = (_tabulate_geometric if geometric else _tabulate_logarithmic)(dispersion, int(upto[-1]))
        above = np.clip(1.0 - np.cumsum(chances, axis=1), 0.0, 1.0)  # P(N > k)
        shown = np.cumsum(above, axis=1)  # Σ_{m ≤ k} P(N > m) = E min(N, k + 1)
        for size, most in enumerate(upto.tolist()):
            over = MEANS - shown[:, most - 1]
            lost[size, place] = np.where(over > 1e-10 * MEANS, over, 0.0)  # less is rounding
            chance[size, place] = above[:, most]
    start = lost[..., :1] * MEANS[0] / 2
    parts = (lost[..., 1:] + lost[..., :-1]) / 2 * np.diff(MEANS)
    area = np.concatenate([start, start + np.cumsum(parts, axis=-1)], axis=-1)
    slope = np.gradient(lost, _LOG_MEANS, axis=-1)
    index = np.maximum.accumulate(np.clip(slope - lost, 0.0, WINDOWS[:, None, None]), axis=-1)
    return lost, chance, area, index


@lru_cache(maxsize=1)
def _tabulate_shares() -> tuple[Floats, Floats]:
    """Return L / μ and ∫L / μ² by window, law of batches and mean."""
    lost, _, area, _ = _tabulate()
    return lost / MEANS, area / MEANS**2


def _tabulate_logarithmic(dispersion: float, most: int) -> Floats:
    """Return P(N = 0 … most) at each of `MEANS` for batches of logarithmic sizes: the negative binomial law."""
    counts = np.arange(most + 1)
    # P(k + 1) = P(k) · (μ/φ + k·(φ − 1)/φ) / (k + 1), in logarithms since P(0) underflows
    ratio = (MEANS[:, None] + counts[:-1] * (dispersion - 1)) / (dispersion * (counts[1:]))
    none = -MEANS * (np.log(dispersion) / (dispersion - 1) if dispersion > 1 else 1.0)
    return np.asarray(np.exp(np.concatenate([none[:, None], none[:, None] + np.cumsum(np.log(ratio), axis=1)], axis=1)))


def _tabulate_geometric(dispersion: float, most: int) -> Floats:
    """Return P(N = 0 … most) at each of `MEANS` for batches of geometric sizes: the law of Pólya and Aeppli."""
    return np.stack([np.exp(chance) for chance in log_geometric_chances(MEANS, np.float64(dispersion), most)], axis=1)


def log_geometric_chances(mean: Floats, dispersion: Floats | np.float64, most: int) -> Iterator[Floats]:
    """Return ln P(N = 0), ln P(N = 1) … ln P(N = most), for batches of geometric sizes.

    With n batches on average and the chance q that a batch goes on, (k + 1)·P(k + 1) = (n(1 − q) + 2qk)·P(k) −
    q²(k − 1)·P(k − 1).

    >>> [round(float(np.exp(chance)), 3) for chance in log_geometric_chances(np.array(3.0), np.float64(1.0), 2)]
    [0.05, 0.149, 0.224]
    """
    batches, more = 2 * mean / (dispersion + 1), (dispersion - 1) / (dispersion + 1)
    yield np.asarray(-batches)
    here = np.ones(np.broadcast(mean, dispersion).shape)  # P(k) ÷ e^scale
    before, scale = np.zeros_like(here), -batches
    for k in range(most):
        after = ((batches * (1 - more) + 2 * more * k) * here - more**2 * max(k - 1, 0) * before) / (k + 1)
        size = np.maximum(after, 1e-300)
        before, here, scale = here / size, after / size, scale + np.log(size)
        yield np.asarray(scale)
