"""What every strategy is: beliefs and a budget in, the feeds to refresh now and a reason each out.

A strategy sees rows of arrays and times given as arguments; it has no clock and does no I/O. Hints, politeness,
back-off and push have narrowed the candidates before it is asked (`schedule.manners`).

Two families. A *ranking* strategy orders the candidates at every tick and takes the best. An *interval* strategy
decides after each refresh when the next one is due; `due` tells, so that a shell can sleep until then and the lab can
jump from refresh to refresh without visiting the ticks between.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwater.estimate.base import Bools, Column, Floats, Ragged, Rows, Rowwise


@dataclass(slots=True)
class Table:
    """What is known about the feeds, one row each; the shells own it, strategies only read it.

    `last` is the time of the last refresh (−inf: never), `window` the size W last seen, `weight` what one item is
    worth (importance, subscribers, queries), `selectivity` the share of items anybody wants, `cost` what a refresh
    costs relative to an ordinary one, `divergence` the exact number of waiting items where a signal tells it, else NaN.
    """

    last: Floats
    window: Floats
    weight: Floats
    selectivity: Floats
    cost: Floats
    subscribers: Floats
    divergence: Floats

    @classmethod
    def of(cls, feeds: int, window: float = 10.0) -> Table:
        one = np.ones(feeds)
        return cls(
            last=np.full(feeds, -np.inf),
            window=np.full(feeds, window),
            weight=one.copy(),
            selectivity=one.copy(),
            cost=one.copy(),
            subscribers=one.copy(),
            divergence=np.full(feeds, np.nan),
        )

    def __len__(self) -> int:
        return len(self.last)


@dataclass(frozen=True, slots=True)
class Budget:
    """`now`: how many refreshes may start at this call; `rate`: how many per second in the long run (0: unlimited)."""

    now: int
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Observed:
    """Refreshes that have just ended well, one position each; a row occurs at most once.

    `start` is the previous refresh (−inf at the first), `end` this one. `new` counts new items, `window` the
    document's size, `saturated` says that nothing overlapped with what was known. `published` has the believable
    dates of the new items, `shown` those of the whole document; either may be missing as a whole.
    """

    rows: Rows
    start: Floats
    end: Floats
    new: Floats
    window: Floats
    saturated: Bools
    published: Ragged | None = None
    shown: Ragged | None = None
    bytes: Floats | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows to refresh, best first, with what each was worth to the strategy; `why` explains one of them."""

    rows: Rows
    value: Floats


class Strategy(Rowwise):
    """Decides which feeds to refresh. Class attributes say what the shells must provide."""

    needs_shown: ClassVar[bool] = False  # `Observed.shown` must be filled
    cycle: ClassVar[float | None] = None  # seconds between two choices it was made for, where it matters

    @abstractmethod
    def observe(self, table: Table, seen: Observed) -> None:
        """Learn from refreshes that have ended; `table` is as it was before them."""

    @abstractmethod
    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        """The feeds to refresh at `now`: at most `budget.now`, only candidates, best first."""

    @abstractmethod
    def why(self, table: Table, row: int, now: float) -> str:
        """In words: what a refresh of this feed is worth now, and when it would be due."""


class Interval(Strategy):
    """A strategy that sets after each refresh when the next one is due (column `due`, −inf: at once)."""

    def layout(self) -> dict[str, Column]:
        return {"due": Column(-np.inf, dtype=np.float64)}

    @property
    def due(self) -> Floats:
        return self._columns["due"]

    @abstractmethod
    def interval(self, table: Table, seen: Observed) -> Floats:
        """Seconds from the end of each refresh to the next one; learn from `seen` first."""

    def observe(self, table: Table, seen: Observed) -> None:
        self.due[seen.rows] = seen.end + self.interval(table, seen)

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        ready = self.due <= now
        if candidates is not None:
            ready &= candidates
        rows = np.flatnonzero(ready)
        late = now - self.due[rows]
        if len(rows) > budget.now:
            # Ties are broken by row only after lateness, so that the order of rows does not matter to unequal feeds.
            best = np.argpartition(-late, budget.now - 1)[: budget.now] if budget.now > 0 else rows[:0]
            rows, late = rows[best], late[best]
        order = np.argsort(-late, kind="stable")
        return Choice(rows[order], late[order])

    def why(self, table: Table, row: int, now: float) -> str:
        wait = float(self.due[row]) - now
        return "due now" if wait <= 0 else f"due in {wait / 60:.0f} min"
