"""Trains the network of the learned forecast: Poisson loss, Adam, the best epoch by feeds that do not train.

numpy does it, or a GPU where torch finds one (`gpu_training`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.estimate.learned.inputs import BIN_INPUTS, REFRESH_INPUTS
from headwater.estimate.learned.network import (
    Adam,
    Network,
    Samples,
    Scaling,
    compute_gradient,
    measure_loss,
    weigh_refreshes,
)
from headwater.lab.training.forecast_rows import ForecastRows
from headwater.lab.training.gpu_training import GpuRows, has_gpu, train_on_gpu

LOW, HIGH = 0.0005, 0.9995  # quantiles of training at which inputs are clipped
BATCH_ROWS = 1024
PEAK, WARM, DECAY = 3e-3, 0.15, 1e-4  # learning rate, share of the steps up to its peak, weight decay
QUANTILE_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """A network, and the loss per bin of held-out feeds after each epoch beside that of the belief alone."""

    network: Network
    losses: tuple[float, ...]
    belief_loss: float


def train_network(
    rows: ForecastRows, held_out: ForecastRows, epochs: int, seed: int, report: Callable[[int, float, float], None]
) -> TrainedNetwork:
    """Train a network on rows; `report` gets epoch, held-out loss and that of the belief."""
    rng = np.random.default_rng(seed)
    scaling = measure_scaling(rows, rng)
    network = Network.random(scaling, rng)
    weights, adam = network.weights.copy(), Adam.new()
    best, belief = weights.copy(), 0.0
    losses: list[float] = []

    def note_epoch(weights: NDArray[np.float32], loss: float, of_belief: float) -> None:
        nonlocal best, belief
        if not losses or loss < min(losses):
            best = weights.copy()
        losses.append(loss)
        belief = of_belief
        report(len(losses), loss, of_belief)

    if has_gpu():
        parts = [GpuRows(part, network, weigh_rows(part)) for part in (rows, held_out)]
        train_on_gpu(network, parts[0], parts[1], epochs, BATCH_ROWS, rng, _choose_rate, DECAY, note_epoch)
        return TrainedNetwork(network.with_weights(best), tuple(losses), belief)
    check = make_samples(held_out, scaling)
    steps = epochs * (len(rows) // BATCH_ROWS)
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(rows))
        for at in range(0, len(rows) - BATCH_ROWS + 1, BATCH_ROWS):
            batch = make_samples(rows.take(order[at : at + BATCH_ROWS]), scaling)
            adam.step(weights, compute_gradient(weights, batch), _choose_rate(step / steps), DECAY)
            step += 1
        note_epoch(weights, *measure_loss(weights, check))
    return TrainedNetwork(network.with_weights(best), tuple(losses), belief)


def _choose_rate(share: float) -> float:
    """Return the learning rate after a share of all steps: up in a straight line, down along a cosine."""
    if share < WARM:
        return PEAK * (0.04 + 0.96 * share / WARM)
    return PEAK * (0.5 + 0.5 * float(np.cos(np.pi * (share - WARM) / (1 - WARM)))) + 1e-6


def measure_scaling(rows: ForecastRows, rng: np.random.Generator) -> Scaling:
    """Measure where the inputs lie: quantiles, mean and deviation of the clipped values."""
    some = rows.take(rng.permutation(len(rows))[:QUANTILE_ROWS])
    parts = [some.refresh, some.bin.reshape(-1, BIN_INPUTS).astype(np.float32)]
    low = np.concatenate([np.quantile(part, LOW, axis=0) for part in parts]).astype(np.float32)
    high = np.concatenate([np.quantile(part, HIGH, axis=0) for part in parts]).astype(np.float32)
    n = REFRESH_INPUTS
    clipped = [np.clip(parts[0], low[:n], high[:n]), np.clip(parts[1], low[n:], high[n:])]
    mean = np.concatenate([part.mean(0, dtype=np.float64) for part in clipped]).astype(np.float32)
    deviation = np.concatenate([part.std(0, dtype=np.float64) for part in clipped]).astype(np.float32)
    return Scaling(low, high, mean, np.maximum(deviation, 1e-3))


def weigh_rows(rows: ForecastRows) -> NDArray[np.float32]:
    """Return the weights of rows; learning on the server weighs its refreshes alike."""
    return weigh_refreshes(rows.believed.mean(1))


def make_samples(rows: ForecastRows, scaling: Scaling) -> Samples:
    """Return the known bins of rows as samples."""
    a, b = scaling.apply(rows.refresh, rows.bin.astype(np.float32))
    bins = rows.believed.shape[1]
    weight = weigh_rows(rows)
    known = np.isfinite(rows.published.reshape(-1))
    return Samples(
        np.repeat(a, bins, axis=0)[known],
        b.reshape(-1, BIN_INPUTS)[known],
        rows.believed.reshape(-1)[known],
        rows.published.reshape(-1)[known],
        np.repeat(weight, bins)[known],
    )
