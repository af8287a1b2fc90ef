"""What every estimator is: arrays with one row per feed that learn from refreshes and foretell items.

An estimator never sees a clock, a feed's name or a document. It gets, for some rows, an interval between two
refreshes and how many new items it brought, and answers how many items to expect in another interval.
State is float32 unless a column says otherwise; rows are only ever appended, never reordered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.errors import StrategyError

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Ragged:
    """Times of several rows in one flat array: row k has `times[offsets[k]:offsets[k + 1]]`, ascending."""

    offsets: Rows
    times: Floats

    @property
    def counts(self) -> Rows:
        return np.diff(self.offsets)

    def owner(self) -> Rows:
        """The position in the call that each time belongs to."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)


@dataclass(frozen=True, slots=True)
class Column:
    """One array of state: its shape per feed, what a new feed starts with, and its type."""

    prior: float = 0.0
    shape: tuple[int, ...] = ()
    dtype: type[np.generic] = np.float32


class Rowwise:
    """Columns of state with one row per feed, which can grow, be saved and be loaded."""

    name: ClassVar[str]
    version: ClassVar[int] = 1

    def __init__(self, feeds: int = 0) -> None:
        self._columns: dict[str, NDArray[Any]] = {}
        self._feeds = 0
        self._layout = dict(self.layout())
        for key, column in self._layout.items():
            self._columns[key] = np.full((0, *column.shape), column.prior, dtype=column.dtype)
        self.resize(feeds)

    def layout(self) -> Mapping[str, Column]:
        """The columns of this class; called once, before any state exists."""
        return {}

    def __len__(self) -> int:
        return self._feeds

    def resize(self, feeds: int) -> None:
        """Make room for `feeds` rows; rows that exist keep their state."""
        for key, column in self._layout.items():
            old = self._columns[key]
            fresh = np.full((max(feeds - len(old), 0), *column.shape), column.prior, dtype=column.dtype)
            self._columns[key] = np.concatenate([old, fresh]) if len(fresh) else old
        self._feeds = max(feeds, self._feeds)

    def save(self) -> dict[str, NDArray[Any]]:
        """A copy of the state, to be given to `load` of the same class and version."""
        return {key: array.copy() for key, array in self._columns.items()}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take saved state over; anything of another shape is refused, so the caller can start afresh."""
        for key, column in self._layout.items():
            if key not in state or state[key].shape[1:] != column.shape:
                raise StrategyError(f"The saved state of {self.name} is of another version (column {key}).")
        for key, column in self._layout.items():
            self._columns[key] = np.array(state[key], dtype=column.dtype)
            self._feeds = len(self._columns[key])

    @property
    def bytes_per_feed(self) -> float:
        return sum(a.nbytes for a in self._columns.values()) / max(self._feeds, 1)


class Estimator(Rowwise, ABC):
    """Believes something about how often feeds publish."""

    @abstractmethod
    def observe(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None = None,
    ) -> None:
        """Learn: between refreshes at `start` and `end` each row brought `new` items.

        `saturated` rows came back all new, so `new` is only a lower bound (censored at the window).
        `published` holds the believable dates of the new items, where there are any; rows without have none.
        A row occurs at most once in a call.
        """

    @abstractmethod
    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """How many items each row is expected to publish between `start` and `end`: never negative or NaN."""
