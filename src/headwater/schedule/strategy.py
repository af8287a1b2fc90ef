"""Defines Strategy and IntervalStrategy, and the values that go in and out of them.

A strategy works on arrays with one row per feed. It has no clock and does no I/O: times and budgets are arguments. The
politeness rules (`schedule.politeness`) have already reduced the feeds to the candidates.

There are two families. A *ranking* strategy (`strategies.ranking`) scores the candidates at every tick and takes the
best. An *interval* strategy decides after each refresh when the next one is due. The server can then sleep until that
time, and the lab can jump from refresh to refresh.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Ragged, Rows
from headwater.estimate.estimator import Estimator
from headwater.estimate.feed_columns import Column, FeedColumns
from headwater.schedule.selection import Budget, Choice, take_best

NEVER_READ = "never read yet: first in line"  # the reason of a feed that never answered


@dataclass(slots=True)
class Table:
    """The facts about the feeds, one row each. The caller owns the table; strategies only read it.

    `last` is the time of the last refresh (−inf: never), `window` the window size W last seen, `weight` the worth of
    one item (importance, subscribers, queries), `selectivity` the share of items that anybody wants, `cost` the cost of
    a refresh relative to an ordinary one. `divergence` is the exact number of items published since the last refresh
    (Div_F) where a signal gives it, else NaN. `relevant` is the exact number of wanted items among them that are still
    in the window (Div_A), where known.

    Politeness and people constrain the interval: `pause` is the time that must pass between two polls (seconds),
    `reason` its rule (`politeness.rules.Reason`), `at_most` the interval that somebody wants (inf: nobody). `pushed`
    feeds only get a safety poll. `open` is the share of the week in which the feed may be asked, `closed` the seconds
    that its items wait for the other hours. `heavy` is the size of an answer without news relative to that of a 304.
    """

    last: Floats
    window: Floats
    weight: Floats
    selectivity: Floats
    cost: Floats
    subscribers: Floats
    divergence: Floats
    pause: Floats
    reason: NDArray[np.int8]
    at_most: Floats
    open: Floats
    closed: Floats
    heavy: Floats
    pushed: Bools
    active: Bools
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
            pause=np.zeros(feeds),
            reason=np.zeros(feeds, np.int8),
            at_most=np.full(feeds, np.inf),
            open=one.copy(),
            closed=np.zeros(feeds),
            heavy=one.copy(),
            pushed=np.zeros(feeds, bool),
            active=np.ones(feeds, bool),
        )

    def part(self, rows: Rows) -> Table:
        """Return the table of some rows. If the rows are consecutive, its columns are views and nothing is copied.

        >>> Table.of(9).part(np.array([2, 3, 4])).last.base is not None
        True
        """
        take: slice | Rows = rows
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
            take = slice(int(rows[0]), int(rows[-1]) + 1)
        filled = [name for name in Table.__slots__ if getattr(self, name) is not None]
        return Table(**{name: getattr(self, name)[take] for name in filled})

    def __len__(self) -> int:
        return len(self.last)


@dataclass(frozen=True, slots=True)
class Observed:
    """Refreshes that have just succeeded, one position each; a row occurs at most once.

    `start` is the previous refresh (−inf at the first), `end` this one. `new` counts new items, `window` is the size of
    the document, `saturated` says that no item of it was known. `published` has the plausible dates of the new items,
    `shown` those of the whole document; either may be missing as a whole. `hint` is the pause the server asked for
    (seconds, NaN: none). `lost` is the estimated number of items pushed out unread.
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
    lost: Floats | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Decision:
    """The reason why a feed is or is not refreshed now, with its numbers.

    `value` is compared with `price`; `due` is the likely time of the next refresh.
    """

    reason: str
    value: float | None = None
    price: float | None = None
    due: float | None = None


class Strategy(FeedColumns, ABC):
    """Decides which feeds to refresh.

    Every constructor is `Name(feeds=0, *, option=default, …)`. Strategies that forecast take an `estimator` option and
    feed that estimator themselves; strategies with ties or jitter take an `rng` option. Class attributes declare the
    strategy's guarantees and needs.
    """

    needs_shown: ClassVar[bool] = False  # `Observed.shown` must be filled
    cycle: ClassVar[float | None] = None  # seconds between two choices the strategy is made for, if that matters
    within_budget: ClassVar[bool] = True  # `choose` never returns more than `budget.now`
    fair: ClassVar[bool] = False  # no feed starves, however small the budget
    monotone: ClassVar[bool] = False  # a higher rate never lowers a feed's priority

    estimator: Estimator | None = None

    @abstractmethod
    def observe(self, table: Table, seen: Observed) -> None:
        """Learn from refreshes that have succeeded. `table` is as it was before them."""

    @abstractmethod
    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        """Return the feeds to refresh at `now`: at most `budget.now`, only candidates, best first."""

    @abstractmethod
    def why(self, table: Table, row: int, now: float) -> str:
        """Explain in words what a refresh of this feed is worth now and when it is due."""

    def reasons(self, table: Table, rows: Rows, now: float) -> list[str]:
        """Return `why` for many rows at once; the server stores a reason with every refresh."""
        return [self.why(table, row, now) for row in rows.tolist()]

    def observe_failures(self, table: Table, rows: Rows, at: Floats, failures: Rows) -> None:
        """Learn from refreshes that have failed for the `failures`-th time in a row; back-off applies anyway."""

    def explain(self, table: Table, row: int, now: float) -> Decision:
        """Return the explanation of `why` with its numbers."""
        return Decision(self.why(table, row, now))

    @property
    def due(self) -> Floats | None:
        """The time at which each row is next due, if the strategy sets one; a view that may be changed."""
        return None

    def ready_at(self, table: Table, row: int) -> float:
        """Return when the strategy's own pause after a refresh ends; −∞ if it has none."""
        return -np.inf

    @property
    def problem(self) -> str | None:
        """The error of a user's own strategy, in words."""
        return None

    def note_change(self) -> None:
        """Note that the budget, the feeds, their weights or their constraints have changed: plan anew at once."""

    def ask_estimator(self, ask: Callable[[Estimator], Floats]) -> Floats | None:
        """Return `ask(estimator)`, or None if the strategy has no estimator or the estimator fails."""
        return None if self.estimator is None else ask(self.estimator)


class IntervalStrategy(Strategy):
    """Sets after each refresh when the next one is due (column `due`, −inf: at once).

    `scale` multiplies every interval, so that rules of different appetite can be compared at equal cost. The result is
    clipped to `[shortest, longest]`.
    """

    shortest: ClassVar[float] = 0.0
    longest: ClassVar[float] = np.inf
    fair = True

    def __init__(self, feeds: int = 0, *, scale: float = 1.0) -> None:
        self.scale = scale
        super().__init__(feeds)

    steering: float = 0.0  # seconds between two calls of `steer`; 0: never

    def layout(self) -> dict[str, Column]:
        return {"due": Column(-np.inf, dtype=np.float64)}

    def steer(self, table: Table, now: float, budget: Budget) -> None:
        """Adapt state shared by all feeds (a price, a common shape) to the time and the budget; may change due times.

        The lab calls it every `steering` seconds of virtual time, `choose` calls it when as much real time has passed.
        """

    @property
    def due(self) -> Floats:
        return self._columns["due"]

    @abstractmethod
    def next_interval(self, table: Table, seen: Observed) -> Floats:
        """Learn from `seen` and return the seconds from the end of each refresh to the next one, before scaling."""

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
