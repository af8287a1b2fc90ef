"""Computes the correction of the belief: a small network of numpy arrays, with its gradients.

    refresh (35) ─┐
                  ├─ 64 ── 32 ── 1      leaky rectifiers; the refresh's part of the first layer is shared by its bins
    bin (26) ─────┘

The output is ln(λ / belief), within ±3. The loss is that of Poisson counts, Σ(λ − y·ln λ).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import PIECE, Floats, multiply
from headwater.estimate.learned.inputs import BIN_INPUTS, REFRESH_INPUTS, Inputs
from headwater.estimate.learned.network_loops import HIDDEN, INNER, fill_corrections
from headwater.numba_support import NUMBA_AVAILABLE, compile_with_numba

LEAK = 0.1
MAX_CORRECTION = 3.0
MIN_BELIEVED, WEIGHT_POWER = 0.003, 0.5
SHAPES = {
    "refresh": (REFRESH_INPUTS, HIDDEN),
    "bin": (BIN_INPUTS, HIDDEN),
    "first": (HIDDEN,),
    "inner": (HIDDEN, INNER),
    "second": (INNER,),
    "out": (INNER, 1),
    "last": (1,),
}
LAYERS = tuple(SHAPES)
_ENDS = np.cumsum([0, *(np.prod(shape) for shape in SHAPES.values())]).tolist()
WEIGHTS: int = _ENDS[-1]
PART = 1024  # samples passed through the network at a time: they stay within a processor's cache


@dataclass(frozen=True, slots=True)
class Scaling:
    """The bounds of inputs, and the mean and deviation that scale them; refresh inputs first, then bin inputs."""

    low: Inputs
    high: Inputs
    mean: Inputs
    deviation: Inputs

    def apply(self, per_refresh: Inputs, per_bin: Inputs) -> tuple[Inputs, Inputs]:
        """Return clipped and scaled inputs."""
        n = REFRESH_INPUTS
        a = (np.minimum(np.maximum(per_refresh, self.low[:n]), self.high[:n]) - self.mean[:n]) / self.deviation[:n]
        b = np.maximum(per_bin, self.low[n:])
        np.minimum(b, self.high[n:], out=b)
        b -= self.mean[n:]
        b /= self.deviation[n:]
        return a, b


@dataclass(frozen=True, slots=True)
class Network:
    """The weights of a network as one flat array of float32."""

    weights: NDArray[np.float32]
    scaling: Scaling

    @classmethod
    def random(cls, scaling: Scaling, rng: np.random.Generator) -> Network:
        """Return a network that corrects nothing yet: its last layer is 0."""
        parts = []
        for name, shape in SHAPES.items():
            if name in ("refresh", "bin"):
                parts.append(rng.normal(0, np.sqrt(2 / (REFRESH_INPUTS + BIN_INPUTS)), shape))
            elif name == "inner":
                parts.append(rng.normal(0, np.sqrt(2 / HIDDEN), shape))
            else:
                parts.append(np.zeros(shape))
        return cls(np.concatenate([part.reshape(-1) for part in parts]).astype(np.float32), scaling)

    def correct(self, per_refresh: Inputs, per_bin: Inputs, fast: bool = False) -> tuple[tuple[Inputs, Inputs], Inputs]:
        """Return the inputs as scaled, and ln(λ / belief) of each bin; `fast` compiles the loops.

        Each row is multiplied by itself, so that the rounding does not depend on its neighbours.
        """
        w = split_layers(self.weights)
        if fast and NUMBA_AVAILABLE:
            scaled = per_refresh.copy(), per_bin.swapaxes(1, 2).copy()
            corrections = np.empty(per_bin.shape[:2], np.float32)
            scaling = self.scaling.low, self.scaling.high, self.scaling.mean, self.scaling.deviation
            leak, most = np.float32(LEAK), np.float32(MAX_CORRECTION)
            compile_with_numba(fill_corrections, fuse=True)(
                *scaled, *scaling, *(w[name] for name in LAYERS), leak, most, corrections
            )
            return (scaled[0], scaled[1].swapaxes(1, 2)), corrections
        scaled = self.scaling.apply(per_refresh, per_bin)
        hidden = scaled[1] @ w["bin"]
        hidden += (scaled[0][:, None, :] @ w["refresh"]) + w["first"]
        np.maximum(hidden, LEAK * hidden, out=hidden)
        inner = hidden @ w["inner"]
        inner += w["second"]
        np.maximum(inner, LEAK * inner, out=inner)
        out = (inner @ w["out"])[:, :, 0] + w["last"]
        return scaled, np.asarray(np.minimum(np.maximum(out, -MAX_CORRECTION), MAX_CORRECTION))

    def with_weights(self, weights: NDArray[np.float32]) -> Network:
        return replace(self, weights=weights)


def split_layers(flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the layers of a flat array, as views."""
    return {
        name: flat[begin:end].reshape(shape)
        for (name, shape), begin, end in zip(SHAPES.items(), _ENDS[:-1], _ENDS[1:], strict=True)
    }


@dataclass(frozen=True, slots=True)
class Samples:
    """Bins of past refreshes: scaled inputs (refresh's and bin's), items believed and published, and weights."""

    refresh: Inputs
    bin: Inputs
    believed: Inputs
    published: Inputs
    weight: Inputs

    def __len__(self) -> int:
        return len(self.believed)

    def take(self, places: Any) -> Samples:
        return Samples(
            self.refresh[places], self.bin[places], self.believed[places], self.published[places], self.weight[places]
        )


def weigh_refreshes(believed: NDArray[Any]) -> Inputs:
    """Return the weights of refreshes by the items believed in a bin, 1/√: frequent refreshes have few items each.

    >>> [round(float(weight), 1) for weight in weigh_refreshes(np.array([0.0, 0.247]))]
    [18.3, 2.0]
    """
    return np.asarray((believed + MIN_BELIEVED) ** -WEIGHT_POWER, np.float32)


def sum_products(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a.T @ b for two arrays with one line per sample, in small pieces like `multiply`."""
    whole = len(a) // PIECE * PIECE
    pieces = a[:whole].reshape(-1, PIECE, a.shape[1]).swapaxes(1, 2) @ b[:whole].reshape(-1, PIECE, b.shape[1])
    return np.asarray(pieces.sum(0) + a[whole:].T @ b[whole:])


def run_forward(w: Mapping[str, NDArray[Any]], samples: Samples) -> tuple[Inputs, Inputs, Inputs]:
    """Return both hidden layers and the output of each sample."""
    hidden = multiply(samples.refresh, w["refresh"]) + multiply(samples.bin, w["bin"]) + w["first"]
    np.maximum(hidden, LEAK * hidden, out=hidden)
    inner = multiply(hidden, w["inner"]) + w["second"]
    np.maximum(inner, LEAK * inner, out=inner)
    out = (inner @ w["out"])[:, 0] + w["last"]
    return hidden, inner, out


def compute_losses(weights: NDArray[np.float32], samples: Samples) -> Floats:
    """Return the weighted loss of each sample; ln of the belief is left out."""
    losses = np.empty(len(samples))
    w = split_layers(weights)
    for at in range(0, len(samples), PART):
        part = samples.take(slice(at, at + PART))
        out = np.clip(run_forward(w, part)[2], -MAX_CORRECTION, MAX_CORRECTION).astype(np.float64)
        losses[at : at + PART] = part.weight * (part.believed * np.exp(out) - part.published * out)
    return losses


def measure_loss(weights: NDArray[np.float32], samples: Samples) -> tuple[float, float]:
    """Return the mean weighted loss of the network and of the belief alone; ln of the belief is left out of both."""
    size = float(samples.weight.sum())
    before = np.dot(samples.weight.astype(np.float64), samples.believed)
    return float(compute_losses(weights, samples).sum()) / size, float(before) / size


def compute_gradient(weights: NDArray[np.float32], samples: Samples, most: float = np.inf) -> NDArray[np.float32]:
    """Return the gradient of the mean loss; the part of one sample is clipped at ±`most` at the output."""
    w = split_layers(weights)
    hidden, inner, out = run_forward(w, samples)
    inside = np.abs(out) <= MAX_CORRECTION
    rate = samples.believed * np.exp(np.clip(out, -MAX_CORRECTION, MAX_CORRECTION))
    # Outside ±3 only the part of the slope that leads back is kept, so that no sample is lost for good.
    slope = rate - samples.published
    slope = np.where(inside | (slope * out > 0), slope, 0.0)
    slope = (np.clip(samples.weight * slope, -most, most) / np.maximum(samples.weight.sum(), 1e-9)).astype(np.float32)
    gradient = np.empty_like(weights)
    g = split_layers(gradient)
    g["last"][0] = slope.sum()
    g["out"][:, 0] = inner.T @ slope
    back = slope[:, None] * w["out"][:, 0]
    back *= np.where(inner > 0, np.float32(1), np.float32(LEAK))
    g["second"][:] = back.sum(0)
    g["inner"][:] = sum_products(hidden, back)
    back = multiply(back, w["inner"].T)
    back *= np.where(hidden > 0, np.float32(1), np.float32(LEAK))
    g["first"][:] = back.sum(0)
    g["bin"][:] = sum_products(samples.bin, back)
    g["refresh"][:] = sum_products(samples.refresh, back)
    return gradient


@dataclass(slots=True)
class Adam:
    """Adam with decoupled weight decay, on flat weights."""

    mean: NDArray[np.float32]
    square: NDArray[np.float32]
    steps: int = 0

    @classmethod
    def new(cls) -> Adam:
        return cls(np.zeros(WEIGHTS, np.float32), np.zeros(WEIGHTS, np.float32))

    def step(
        self, weights: NDArray[np.float32], gradient: NDArray[np.float32], rate: float, decay: float = 0.0
    ) -> None:
        """Move the weights in place."""
        self.steps += 1
        self.mean += np.float32(0.1) * (gradient - self.mean)
        self.square += np.float32(0.001) * (gradient**2 - self.square)
        size = rate / (1 - 0.9**self.steps)
        root = np.sqrt(self.square / np.float32(1 - 0.999**self.steps)) + np.float32(1e-8)
        weights -= np.float32(size) * (self.mean / root) + np.float32(rate * decay) * weights
