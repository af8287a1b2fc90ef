"""How quality went over time: one line for each report, thinned where it grows old, kept in the store.

The reports of the last hours are kept as they came, one a minute; older ones every ten minutes, for two weeks.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import StrategyError
from headwater.node.packed_arrays import pack, unpack
from headwater.store.store import Store

NAME, VERSION = "quality_history", 1
FINE, COARSE = 3 * 3600.0, 600.0
KEPT = 14 * 86_400.0


@dataclass(frozen=True, slots=True)
class Past:
    """One moment. What was not known then is NaN; `delay` is the median of the hour, `lost` counts the hour."""

    at: float
    completeness: float
    freshness: float
    delay: float
    requests: float
    budget: float
    price: float
    lost: float


class History:
    """Lines in the order of time."""

    def __init__(self, lines: NDArray[np.float64] | None = None) -> None:
        self._lines = np.empty((0, 8)) if lines is None else lines

    def note(self, line: Past) -> None:
        """Add a line; old ones become fewer."""
        lines = np.vstack([self._lines[self._lines[:, 0] < line.at], np.array([astuple(line)])])
        age = line.at - lines[:, 0]
        slot = np.floor(lines[:, 0] / COARSE)
        first = np.append(True, slot[1:] != slot[:-1])
        self._lines = lines[((age <= FINE) | first) & (age <= KEPT)]

    def since(self, at: float) -> list[Past]:
        return [Past(*map(float, line)) for line in self._lines[self._lines[:, 0] >= at]]

    def save(self) -> bytes:
        return pack({"lines": self._lines}, compressed=True)

    @classmethod
    def load(cls, saved: bytes) -> History:
        try:
            lines = unpack(saved).get("lines", np.empty(0))
        except StrategyError:
            return cls()
        return cls(lines if lines.ndim == 2 and lines.shape[1] == 8 else None)


async def load_history(store: Store) -> History:
    """The history as the node saved it last; empty if it never has."""
    saved = await store.load_state(NAME)
    return History.load(saved[1]) if saved is not None and saved[0] == VERSION else History()


async def save_history(store: Store, history: History, now: float) -> None:
    await store.save_state(NAME, VERSION, history.save(), now)


def figure(value: float | None) -> float:
    """A figure that may be missing, as the history keeps it."""
    return math.nan if value is None else value
