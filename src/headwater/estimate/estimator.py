"""What every estimator is: arrays with one row per feed that learn from refreshes and foretell items.

An estimator never sees a clock, a feed's name or a document. It gets, for some rows, an interval between two
refreshes and how many new items it brought, and answers how many items to expect in another interval.
State is float32 unless a column says otherwise; rows are only ever appended, never reordered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.errors import StrategyError

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MINUTE = 60.0
HOUR = 3_600.0
DAY = 86_400.0
WEEK = 7 * DAY

STAMP, LENGTH = "_class", "_feeds"  # saved state names the class and version that wrote it, and its rows


@dataclass(frozen=True, slots=True)
class Ragged:
    """Times of several rows in one flat array: row k has `times[offsets[k]:offsets[k + 1]]`, ascending."""

    offsets: Rows
    times: Floats

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> Ragged:
        """One list of times a row, in any order.

        >>> Ragged.of([[2.0, 1.0], [], [5.0]]).times.tolist()
        [1.0, 2.0, 5.0]
        """
        counts = np.array([len(times) for times in rows], np.intp)
        times: Floats = np.fromiter(chain.from_iterable(map(sorted, rows)), np.float64)
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.intp), times)

    @property
    def counts(self) -> Rows:
        return np.diff(self.offsets)

    def owner(self) -> Rows:
        """The position in the call that each time belongs to."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def take(self, positions: Rows) -> Ragged:
        """The same for some positions of the call only, in their order."""
        counts = self.counts[positions]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        return Ragged(offsets, self.times[np.repeat(self.offsets[:-1][positions], counts) + within])


@dataclass(frozen=True, slots=True)
class Column:
    """One array of state: its shape per feed, what a new feed starts with, and its type."""

    prior: float | Floats = 0.0
    shape: tuple[int, ...] = ()
    dtype: type[np.generic] = np.float32


class FeedColumns:
    """Columns of state with one row per feed, which can grow, be saved and be loaded.

    Beside its columns a class may keep arrays that belong to no feed (`shared`: a threshold, cluster centres) and
    may own other row-wise things (`adopt`); both are grown, saved and loaded with it.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1

    def __init__(self, feeds: int = 0) -> None:
        self._columns: dict[str, NDArray[Any]] = {}
        self._parts: dict[str, FeedColumns] = {}
        self._feeds = 0
        self._layout = dict(self.layout())
        self._shared = {key: np.array(value, dtype=np.float64) for key, value in self.shared().items()}
        for key, column in self._layout.items():
            self._columns[key] = np.full((0, *column.shape), column.prior, dtype=column.dtype)
        self._capacity = dict(self._columns)
        self.resize(feeds)

    def layout(self) -> Mapping[str, Column]:
        """The columns of this class; called once, before any state exists."""
        return {}

    def shared(self) -> Mapping[str, Any]:
        """What belongs to all feeds together, with its first value; called once, before any state exists."""
        return {}

    def adopt(self, key: str, part: Any) -> Any:
        """Own another row-wise thing: it grows, is saved and is loaded with this one."""
        part.resize(self._feeds)
        self._parts[key] = part
        return part

    def __len__(self) -> int:
        return self._feeds

    def resize(self, feeds: int) -> None:
        """Make room for `feeds` rows; rows that exist keep their state. Never shrinks."""
        feeds = max(feeds, self._feeds)
        for key, column in self._layout.items():
            room = self._capacity[key]
            if len(room) < feeds:
                # An eighth of spare room, so that feeds added one by one do not copy everything each time.
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
        """A copy of the state, to be given to `load` of the same class and version."""
        stamp = np.array(f"{self.name}/{self.version}")
        state: dict[str, NDArray[Any]] = {STAMP: stamp, LENGTH: np.array(self._feeds)}
        state |= {key: array.copy() for key, array in self._columns.items()}
        state |= {f"*{key}": array.copy() for key, array in self._shared.items()}
        for name, part in self._parts.items():
            state |= {f"{name}/{key}": array for key, array in part.save().items()}
        return state

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take saved state over; anything of another class, version or shape is refused and nothing is changed."""
        self._check_state(state)
        for key, column in self._layout.items():
            self._capacity[key] = self._columns[key] = np.array(state[key], dtype=column.dtype)
        self._feeds = int(state[LENGTH])
        for key in self._shared:
            self._shared[key] = np.array(state[f"*{key}"], dtype=np.float64)
        for name, part in self._parts.items():
            part.load(_select_part(state, name))

    def _check_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        wrote = str(state[STAMP]) if STAMP in state else "an unknown program"
        mine = f"{self.name}/{self.version}"
        if wrote != mine:
            raise StrategyError(f"The saved state was written by {wrote}, this is {mine}: start it afresh.")
        feeds = int(state[LENGTH]) if LENGTH in state else -1
        for key, column in self._layout.items():
            if key not in state or state[key].shape != (feeds, *column.shape):
                raise StrategyError(f"The saved state of {mine} has another layout (column {key}): start it afresh.")
        for key, array in self._shared.items():
            if f"*{key}" not in state or state[f"*{key}"].shape != array.shape:
                raise StrategyError(f"The saved state of {mine} has another layout ({key}): start it afresh.")
        for name, part in self._parts.items():
            part._check_state(_select_part(state, name))

    @property
    def bytes_per_feed(self) -> float:
        own = sum(a.nbytes for a in self._columns.values()) / max(self._feeds, 1)
        return own + sum(part.bytes_per_feed for part in self._parts.values())


def _select_part(state: Mapping[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    prefix = f"{name}/"
    return {key.removeprefix(prefix): array for key, array in state.items() if key.startswith(prefix)}


class Estimator(FeedColumns, ABC):
    """Believes something about how often feeds publish.

    Every estimator's constructor is `Name(feeds=0, *, option=default, …)`.
    """

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
        At a feed's first refresh `start` is −inf and the whole document counts as new.
        A row occurs at most once in a call.
        """

    @abstractmethod
    def expected(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """How many items each row is expected to publish between `start` and `end`: never negative or NaN."""

    def delay(self, rows: Rows, start: Floats, end: Floats) -> Floats:
        """∫ λ(t)(end − t) dt: how long the items expected since `start` will have waited, summed, at `end`.

        Sia & Cho's Lemma 1, and the same as the ∫Div of the thesis's utility (eq. 4.5). Estimators that know the
        integral exactly override this sum over 16 pieces.
        """
        total = np.zeros(len(rows))
        pieces = 16
        width = (end - start) / pieces
        for k in range(1, pieces):
            total += self.expected(rows, start, start + k * width)
        return (total + self.expected(rows, start, end) / 2) * width

    def time_until(self, rows: Rows, at: Floats, items: float, longest: float) -> Floats:
        """Seconds from `at` until `items` are expected, at most `longest`.

        Found by halving; estimators that can tell at once override this.
        """
        low, high = np.zeros(len(rows)), np.full(len(rows), longest)
        for _ in range(32):
            middle = (low + high) / 2
            enough = self.expected(rows, at, at + middle) >= items
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def rate(self, rows: Rows, at: Floats) -> Floats:
        """Items per second about the moment `at`: the mean over the minute that follows."""
        return self.expected(rows, at, at + MINUTE) / MINUTE

    def daily_rate(self, rows: Rows, at: Floats) -> Floats:
        """Items per second, averaged over the day that follows `at`."""
        return self.expected(rows, at, at + DAY) / DAY


PRIOR_RATE = 1.0 / DAY  # one item a day, until something is known
LEAST_RATE = 1.0 / (1000 * DAY)  # a rate of nought would mean never looking again


class FirstRefreshEstimator(Estimator):
    """An estimator with a `begin` for first refreshes and a `learn` for all others."""

    @abstractmethod
    def learn_first(self, rows: Rows, end: Floats, rate: Floats, published: Ragged | None) -> None:
        """First refreshes, with the rate that the window's dates give (NaN: no believable dates)."""

    @abstractmethod
    def learn(
        self, rows: Rows, start: Floats, end: Floats, new: Floats, saturated: Bools, published: Ragged | None
    ) -> None:
        """All later refreshes; `end` is after `start`."""

    def observe(
        self,
        rows: Rows,
        start: Floats,
        end: Floats,
        new: Floats,
        saturated: Bools,
        published: Ragged | None = None,
    ) -> None:
        first = np.isneginf(start)
        later = np.flatnonzero(end > np.where(first, np.inf, start))
        if first.any():
            at = np.flatnonzero(first)
            dates = published.take(at) if published is not None else None
            self.learn_first(rows[at], end[at], estimate_first_rate(dates, end[at]), dates)
        if len(later) == len(rows):
            self.learn(rows, start, end, new, saturated, published)
        elif len(later):
            dates = published.take(later) if published is not None else None
            self.learn(rows[later], start[later], end[later], new[later], saturated[later], dates)


def estimate_first_rate(published: Ragged | None, end: Floats) -> Floats:
    """Items per second that a first window's dates tell; NaN with fewer than two of them.

    The oldest item only opens the span, so n dates give n − 1 items between it and the refresh: silence since the
    newest item counts, which the mean gap alone would not see.

    >>> estimate_first_rate(Ragged(np.array([0, 3]), np.array([0.0, 10.0, 20.0])), np.array([100.0])).tolist()
    [0.02]
    """
    if published is None:
        return np.full(len(end), np.nan)
    counts = published.counts
    rate = np.full(len(end), np.nan)
    some = counts >= 2
    span = end[some] - published.times[published.offsets[:-1][some]]
    rate[some] = (counts[some] - 1) / np.maximum(span, 1.0)
    return rate


def spread_undated_items(start: Floats, end: Floats, new: Floats, published: Ragged | None, most: int = 500) -> Ragged:
    """When the new items came: their dates where there are any, else spread evenly over (start, end].

    >>> spread_undated_items(np.array([0.0]), np.array([10.0]), np.array([2.0]), None).times.tolist()
    [5.0, 10.0]
    """
    dated = published.counts if published is not None else np.zeros(len(end), np.intp)
    undated = dated == 0
    counts = np.where(undated, np.minimum(new, most).astype(np.intp), dated)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    owner = np.repeat(np.arange(len(end)), counts)
    within = np.arange(offsets[-1]) - offsets[:-1][owner]
    times = np.empty(offsets[-1])
    even = undated[owner]
    step = (within[even] + 1) / counts[owner[even]]
    times[even] = start[owner[even]] + step * (end[owner[even]] - start[owner[even]])
    if published is not None:
        times[~even] = published.times
    return Ragged(offsets, times)
