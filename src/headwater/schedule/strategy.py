"""What every strategy is: beliefs and a budget in, the feeds to refresh now and a reason each out.

A strategy sees rows of arrays and times given as arguments; it has no clock and does no I/O. Hints, politeness,
back-off and push have narrowed the candidates before it is asked (`schedule.manners`).

Two families. A *ranking* strategy (`schedule.ranking`) orders the candidates at every tick and takes the best. An
*interval* strategy decides after each refresh when the next one is due; `due` tells, so that a shell can sleep until
then and the lab can jump from refresh to refresh without visiting the ticks between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwater.arrays import Bools, Floats, Ragged, Rows
from headwater.estimate.estimator import Estimator
from headwater.estimate.feed_columns import Column, FeedColumns
from headwater.schedule.selection import Budget, Choice, take_best

NEVER_READ = "never read yet: first in line"  # why a feed is taken that has not once answered


@dataclass(slots=True)
class Table:
    """What is known about the feeds, one row each; the shells own it, strategies only read it.

    `last` is the time of the last refresh (−inf: never), `window` the size W last seen, `weight` what one item is
    worth (importance, subscribers, queries), `selectivity` the share of items anybody wants, `cost` what a refresh
    costs relative to an ordinary one. `divergence` is the exact number of items published since the last refresh
    where a signal tells it (Div_F, all items), else NaN; `relevant` the exact number of those that are wanted and
    still in the window (Div_A), where that is known too.
    """

    last: Floats
    window: Floats
    weight: Floats
    selectivity: Floats
    cost: Floats
    subscribers: Floats
    divergence: Floats
    relevant: Floats | None = None

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

    def part(self, rows: Rows) -> Table:
        """The table of these rows alone; where they follow each other, as they do when all feeds are asked for, its
        columns are views and nothing is copied.

        >>> Table.of(9).part(np.array([2, 3, 4])).last.base is not None
        True
        """
        take: slice | Rows = rows
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
            take = slice(int(rows[0]), int(rows[-1]) + 1)
        return Table(
            last=self.last[take],
            window=self.window[take],
            weight=self.weight[take],
            selectivity=self.selectivity[take],
            cost=self.cost[take],
            subscribers=self.subscribers[take],
            divergence=self.divergence[take],
            relevant=None if self.relevant is None else self.relevant[take],
        )

    def __len__(self) -> int:
        return len(self.last)


@dataclass(frozen=True, slots=True)
class Observed:
    """Refreshes that have just ended well, one position each; a row occurs at most once.

    `start` is the previous refresh (−inf at the first), `end` this one. `new` counts new items, `window` the
    document's size, `saturated` says that nothing overlapped with what was known. `published` has the believable
    dates of the new items, `shown` those of the whole document; either may be missing as a whole. `hint` is the
    pause the server asked for (seconds, NaN: none).
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
    hint: Floats | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a feed is or is not refreshed now: its value against the present price, and when it will probably be."""

    reason: str
    value: float | None = None
    price: float | None = None
    due: float | None = None


class Strategy(FeedColumns, ABC):
    """Decides which feeds to refresh. Class attributes say what it promises and what the shells must provide.

    Every strategy's constructor is `Name(feeds=0, *, option=default, …)`. Those that believe something have an
    `estimator` option (an `Estimator` of their own, which they feed); those with ties or jitter an `rng` option.
    """

    needs_shown: ClassVar[bool] = False  # `Observed.shown` must be filled
    cycle: ClassVar[float | None] = None  # seconds between two choices it was made for, where it matters
    within_budget: ClassVar[bool] = True  # `choose` never returns more than `budget.now`
    fair: ClassVar[bool] = False  # no feed starves for ever, however small the budget
    monotone: ClassVar[bool] = False  # a higher rate never lowers a feed's priority

    estimator: Estimator | None = None

    @abstractmethod
    def observe(self, table: Table, seen: Observed) -> None:
        """Learn from refreshes that have ended well; `table` is as it was before them."""

    @abstractmethod
    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        """The feeds to refresh at `now`: at most `budget.now`, only candidates, best first."""

    @abstractmethod
    def why(self, table: Table, row: int, now: float) -> str:
        """In words: what a refresh of this feed is worth now, and when it would be due."""

    def reasons(self, table: Table, rows: Rows, now: float) -> list[str]:
        """`why` of each of these rows, in one go: every refresh has its reason."""
        return [self.why(table, row, now) for row in rows.tolist()]

    def observe_failures(self, table: Table, rows: Rows, at: Floats, failures: Rows) -> None:
        """Refreshes that have failed, for the `failures`-th time in a row; manners already hold the feeds back."""

    def explain(self, table: Table, row: int, now: float) -> Decision:
        """The same as `why`, with its numbers."""
        return Decision(self.why(table, row, now))

    @property
    def due(self) -> Floats | None:
        """When each row is next due, for strategies that set it after each refresh; a view that may be moved."""
        return None

    @property
    def problem(self) -> str | None:
        """What went wrong with a person's own strategy, in words."""
        return None

    def ask_estimator(self, ask: Callable[[Estimator], Floats]) -> Floats | None:
        """What `ask` hears from the estimator; None if there is none, or it cannot answer."""
        return None if self.estimator is None else ask(self.estimator)


class IntervalStrategy(Strategy):
    """A strategy that sets after each refresh when the next one is due (column `due`, −inf: at once).

    `scale` stretches every interval, so that rules made for one appetite can be compared at another; the result is
    kept within `[shortest, longest]` where a rule has such bounds of its own.
    """

    shortest: ClassVar[float] = 0.0
    longest: ClassVar[float] = np.inf
    fair = True

    def __init__(self, feeds: int = 0, *, scale: float = 1.0) -> None:
        self.scale = scale
        super().__init__(feeds)

    steering: float = 0.0  # seconds between two calls of `steer`; 0: it need not be called again

    def layout(self) -> dict[str, Column]:
        return {"due": Column(-np.inf, dtype=np.float64)}

    def steer(self, table: Table, now: float, budget: Budget) -> None:
        """Adapt what all feeds share (a price, a common shape) to the time and the budget; may move due times.

        The lab calls it every `steering` seconds of virtual time, `choose` when as much of the real one has passed.
        """

    @property
    def due(self) -> Floats:
        return self._columns["due"]

    @abstractmethod
    def next_interval(self, table: Table, seen: Observed) -> Floats:
        """Seconds from the end of each refresh to the next one, before scaling; learn from `seen` first."""

    def observe(self, table: Table, seen: Observed) -> None:
        pause = np.clip(self.next_interval(table, seen) * self.scale, self.shortest, self.longest)
        self.due[seen.rows] = seen.end + pause

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        ready = self.due <= now
        if candidates is not None:
            ready &= candidates
        rows = np.flatnonzero(ready)
        return take_best(rows, now - self.due[rows], budget)

    def why(self, table: Table, row: int, now: float) -> str:
        wait = float(self.due[row]) - now
        return "due now" if wait <= 0 else f"due in {wait / 60:.0f} min"

    def explain(self, table: Table, row: int, now: float) -> Decision:
        return Decision(self.why(table, row, now), value=now - float(self.due[row]), due=max(float(self.due[row]), now))
