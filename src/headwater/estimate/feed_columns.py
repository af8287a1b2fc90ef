"""Keeps columns with one row per feed that grow, save and load.

Columns are float32 unless they say otherwise. Rows are appended, never reordered or removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.errors import StrategyError

STAMP, LENGTH = "_class", "_feeds"  # saved state names the class and version that wrote it, and its number of rows


@dataclass(frozen=True, slots=True)
class Column:
    """One array of state: its shape per feed, the value of a new feed, and its type."""

    prior: float | Floats = 0.0
    shape: tuple[int, ...] = ()
    dtype: type[np.generic] = np.float32


class FeedColumns:
    """Columns of state with one row per feed, which grow, save and load.

    A class may also keep arrays that belong to no single feed (`shared`: a threshold, cluster centres) and own other
    row-wise objects (`adopt`). Both grow, are saved and are loaded with it.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1

    def __init__(self, feeds: int = 0) -> None:
        self._columns: dict[str, NDArray[Any]] = {}
        self._parts: dict[str, FeedColumns] = {}
        self._feeds = 0
        self._layout = dict(self.layout())
        # Not copied: large zeros take no memory before they are written.
        self._shared: dict[str, NDArray[Any]] = {
            key: value if isinstance(value, np.ndarray) else np.array(value, dtype=np.float64)
            for key, value in self.shared().items()
        }
        for key, column in self._layout.items():
            self._columns[key] = np.full((0, *column.shape), column.prior, dtype=column.dtype)
        self._capacity = dict(self._columns)
        self.resize(feeds)

    def layout(self) -> Mapping[str, Column]:
        """Return the columns of this class; called once, before any state exists."""
        return {}

    def shared(self) -> Mapping[str, Any]:
        """Return the state shared by all feeds, with its first value, in arrays of its own; called once, before any
        state exists."""
        return {}

    def adopt(self, key: str, part: Any) -> Any:
        """Own another row-wise object: it grows, is saved and is loaded with this one."""
        part.resize(self._feeds)
        self._parts[key] = part
        return part

    def __len__(self) -> int:
        return self._feeds

    def resize(self, feeds: int) -> None:
        """Make room for `feeds` rows. Existing rows keep their state; the number of rows never falls."""
        feeds = max(feeds, self._feeds)
        for key, column in self._layout.items():
            room = self._capacity[key]
            if len(room) < feeds:
                # An eighth of spare room, so that adding feeds one by one does not copy everything each time.
                spare = feeds if not len(room) else feeds + feeds // 8
                grown = np.empty((spare, *column.shape), dtype=column.dtype)
                grown[: self._feeds] = room[: self._feeds]
                self._capacity[key] = room = grown
            room[self._feeds : feeds] = column.prior
            self._columns[key] = room[:feeds]
        self._feeds = feeds
        for part in self._parts.values():
            part.resize(feeds)

    def save(self) -> dict[str, NDArray[Any]]:
        """Return a copy of the state, for `load` of the same class and version."""
        stamp = np.array(f"{self.name}/{self.version}")
        state: dict[str, NDArray[Any]] = {STAMP: stamp, LENGTH: np.array(self._feeds)}
        state |= {key: array.copy() for key, array in self._columns.items()}
        state |= {f"*{key}": array.copy() for key, array in self._shared.items()}
        for name, part in self._parts.items():
            state |= {f"{name}/{key}": array for key, array in part.save().items()}
        return state

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over saved state. Raises StrategyError and changes nothing if class, version or shape differ."""
        self._check_state(state)
        for key, column in self._layout.items():
            self._capacity[key] = self._columns[key] = np.array(state[key], dtype=column.dtype)
        self._feeds = int(state[LENGTH])
        for key in self._shared:
            self._shared[key] = np.array(state[f"*{key}"], dtype=self._shared[key].dtype)
        for name, part in self._parts.items():
            part.load(_select_part(state, name))

    def _check_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        wrote = str(state[STAMP]) if STAMP in state else "an unknown program"
        mine = f"{self.name}/{self.version}"
        if wrote != mine:
            raise StrategyError(f"The saved state belongs to {wrote}, not to {mine}: start without it.")
        feeds = int(state[LENGTH]) if LENGTH in state else -1
        for key, column in self._layout.items():
            if key not in state or state[key].shape != (feeds, *column.shape):
                raise StrategyError(
                    f"The saved state of {mine} has a different layout (column {key}): start without it."
                )
        for key, array in self._shared.items():
            if f"*{key}" not in state or state[f"*{key}"].shape != array.shape:
                raise StrategyError(f"The saved state of {mine} has a different layout ({key}): start without it.")
        for name, part in self._parts.items():
            part._check_state(_select_part(state, name))

    @property
    def bytes_per_feed(self) -> float:
        own = sum(a.nbytes for a in self._columns.values()) / max(self._feeds, 1)
        return own + sum(part.bytes_per_feed for part in self._parts.values())


def _select_part(state: Mapping[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    prefix = f"{name}/"
    return {key.removeprefix(prefix): array for key, array in state.items() if key.startswith(prefix)}
