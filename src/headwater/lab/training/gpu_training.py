"""Trains the network of the learned forecast on a GPU, by the same steps as `forecast_training`, where torch finds one.

torch is not a dependency: without it, or without a GPU, numpy does the same work in minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.estimate.learned.inputs import BIN_INPUTS, REFRESH_INPUTS
from headwater.estimate.learned.network import LEAK, MAX_CORRECTION, SHAPES, Network, split_layers
from headwater.lab.training.forecast_rows import ForecastRows


def has_gpu() -> bool:
    """Whether torch is installed and finds a GPU."""
    return find_spec("torch") is not None and bool(import_module("torch").cuda.is_available())


class GpuRows:
    """Training rows in the memory of a GPU."""

    def __init__(self, rows: ForecastRows, network: Network, weights: NDArray[np.float32]) -> None:
        torch = self._torch = import_module("torch")
        scaling, n = network.scaling, REFRESH_INPUTS
        self._low, self._high, self._mean, self._deviation = (
            torch.tensor(part[n:], device="cuda")
            for part in (scaling.low, scaling.high, scaling.mean, scaling.deviation)
        )
        blank = np.zeros((len(rows), 0, BIN_INPUTS), np.float32)
        self.refresh = torch.tensor(scaling.apply(rows.refresh, blank)[0], device="cuda")
        self.bin = torch.tensor(rows.bin, device="cuda")
        self.believed, self.published, self.weight = (
            torch.tensor(np.asarray(part, np.float32), device="cuda")
            for part in (rows.believed, rows.published, weights)
        )

    def __len__(self) -> int:
        return len(self.refresh)

    def run_forward(self, layers: dict[str, Any], places: Any) -> tuple[Any, Any, Any, Any]:
        """Return the output, the items believed and published, and the weight of each bin of some rows."""
        torch = self._torch
        bins = torch.clamp(self.bin[places].float(), self._low, self._high)
        bins = (bins - self._mean) / self._deviation
        hidden = bins @ layers["bin"] + (self.refresh[places] @ layers["refresh"] + layers["first"])[:, None, :]
        hidden = torch.nn.functional.leaky_relu(hidden, LEAK)
        inner = torch.nn.functional.leaky_relu(hidden @ layers["inner"] + layers["second"], LEAK)
        out = (inner @ layers["out"])[:, :, 0] + layers["last"]
        published = self.published[places]
        known = torch.isfinite(published)
        weight = torch.where(known, self.weight[places][:, None], torch.zeros_like(published))
        return out, self.believed[places], torch.where(known, published, torch.zeros_like(published)), weight


def train_on_gpu(
    network: Network,
    rows: GpuRows,
    check: GpuRows,
    epochs: int,
    batch: int,
    rng: np.random.Generator,
    choose_rate: Callable[[float], float],
    decay: float,
    report: Callable[[NDArray[np.float32], float, float], None],
) -> None:
    """Train; `report` gets the weights, the loss and the belief's loss of the checked rows after each epoch."""
    torch = import_module("torch")
    layers = {name: torch.tensor(part, device="cuda") for name, part in split_layers(network.weights).items()}
    for layer in layers.values():
        layer.requires_grad_()
    adam = torch.optim.AdamW(list(layers.values()), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)
    steps, step = epochs * (len(rows) // batch), 0
    for _ in range(epochs):
        order = torch.tensor(rng.permutation(len(rows)), device="cuda")
        for at in range(0, len(rows) - batch + 1, batch):
            out, believed, published, weight = rows.run_forward(layers, order[at : at + batch])
            with torch.no_grad():
                slope = believed * torch.exp(torch.clamp(out, -MAX_CORRECTION, MAX_CORRECTION)) - published
                leads = (out.abs() <= MAX_CORRECTION) | (slope * out > 0)
                slope = torch.where(leads, slope * weight, torch.zeros_like(slope)) / weight.sum().clamp(min=1e-9)
            for group in adam.param_groups:
                group["lr"] = choose_rate(step / steps)
            adam.zero_grad()
            out.backward(slope)
            adam.step()
            step += 1
        report(_join_layers(layers), *_measure_loss(layers, check, batch))


def _measure_loss(layers: dict[str, Any], rows: GpuRows, batch: int) -> tuple[float, float]:
    torch = import_module("torch")
    total, before, size = 0.0, 0.0, 0.0
    with torch.no_grad():
        for at in range(0, len(rows), batch * 8):
            places = torch.arange(at, min(at + batch * 8, len(rows)), device="cuda")
            out, believed, published, weight = rows.run_forward(layers, places)
            out = torch.clamp(out, -MAX_CORRECTION, MAX_CORRECTION)
            total += float((weight * (believed * torch.exp(out) - published * out)).sum())
            before += float((weight * believed).sum())
            size += float(weight.sum())
    return total / size, before / size


def _join_layers(layers: dict[str, Any]) -> NDArray[np.float32]:
    return np.concatenate([layers[name].detach().cpu().numpy().reshape(-1) for name in SHAPES])
