"""Keeps the quality over time in the store: one line a minute for three hours, then every ten minutes for two weeks."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import StrategyError
from headwater.node.crawl.snapshot import pack_arrays, unpack_arrays
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store

STATE_NAME, VERSION = "quality_history", 1
FINE_SECONDS, COARSE_SECONDS = 3 * 3600.0, 600.0
RETENTION_SECONDS = 14 * 86_400.0


@dataclass(frozen=True, slots=True)
class QualityPoint:
    """The quality at one moment; NaN if unknown. `delay` is the median of the hour, `lost` counts the hour."""

    at: float
    completeness: float
    freshness: float
    delay: float
    requests: float
    budget: float
    price: float
    lost: float


class QualityHistory:
    """Lines by time."""

    def __init__(self, lines: NDArray[np.float64] | None = None) -> None:
        self._lines = np.empty((0, 8)) if lines is None else lines

    def append(self, line: QualityPoint) -> None:
        """Add a line and thin out old ones."""
        lines = np.vstack([self._lines[self._lines[:, 0] < line.at], np.array([astuple(line)])])
        age = line.at - lines[:, 0]
        slot = np.floor(lines[:, 0] / COARSE_SECONDS)
        first = np.append(True, slot[1:] != slot[:-1])
        self._lines = lines[((age <= FINE_SECONDS) | first) & (age <= RETENTION_SECONDS)]

    def list_since(self, at: float) -> list[QualityPoint]:
        return [QualityPoint(*map(float, line)) for line in self._lines[self._lines[:, 0] >= at]]

    def save(self) -> bytes:
        return pack_arrays({"lines": self._lines}, compressed=True)

    @classmethod
    def load(cls, saved: bytes) -> QualityHistory:
        try:
            lines = unpack_arrays(saved).get("lines", np.empty(0))
        except StrategyError:
            return cls()
        return cls(lines if lines.ndim == 2 and lines.shape[1] == 8 else None)


async def load_history(store: Store) -> QualityHistory:
    """Load the history that the node saved last; empty if there is none."""
    saved = await store.read(load_state, STATE_NAME)
    return QualityHistory.load(saved[1]) if saved is not None and saved[0] == VERSION else QualityHistory()


async def save_history(store: Store, history: QualityHistory, now: float) -> None:
    """Save the history."""
    await store.write(save_state, STATE_NAME, VERSION, history.save(), now)


def or_nan(value: float | None) -> float:
    """Return a number for the history: NaN if it is missing."""
    return math.nan if value is None else value
