"""Ranking strategies: at every tick the candidates are valued and the best are taken.

What they share is here: what a feed's divergence is (told exactly by a signal, else believed by the estimator), that
feeds never seen come first, and how to say when a feed will probably be worth the price.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows, iterate_blocks
from headwater.estimate.estimator import Estimator
from headwater.schedule.selection import Budget, Choice, take_best
from headwater.schedule.strategy import NEVER_READ, Decision, Observed, Strategy, Table
from headwater.times import DAY

BLOCK = 16_384  # rows valued at a time: eight columns of them in float64 fit into a megabyte


class RankingStrategy(Strategy):
    """Takes the candidates of greatest `score`. `rng` decides between equals; without it the lower row wins.

    `price` is the smallest score that was good enough at the last choice: what a feed must be worth to be taken.
    """

    estimator: Estimator | None

    def __init__(
        self, feeds: int = 0, *, estimator: Estimator | None = None, rng: np.random.Generator | int | None = None
    ) -> None:
        super().__init__(feeds)
        self.estimator = self.adopt("estimator", estimator) if estimator is not None else None
        self._rng = rng if rng is None or isinstance(rng, np.random.Generator) else np.random.default_rng(rng)

    def shared(self) -> Mapping[str, Any]:
        return {"price": 0.0}

    @property
    def price(self) -> float:
        return float(self._shared["price"])

    @abstractmethod
    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        """What a refresh of each row is worth at `now`; asked only for feeds that have been refreshed before."""

    def observe(self, table: Table, seen: Observed) -> None:
        if self.estimator is not None:
            self.estimator.observe(seen.rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)

    def value_feeds(self, table: Table, rows: Rows, now: float) -> Floats:
        """The score, and +inf for feeds never refreshed: whatever they bring, nothing is known of them yet."""
        return map_blocks(lambda part: self._value_block(table, part, now), rows)

    def _value_block(self, table: Table, rows: Rows, now: float) -> Floats:
        known = np.isfinite(table.last[rows])
        if known.all():
            return self.score(table, rows, now)
        value = np.full(len(rows), np.inf)
        value[known] = self.score(table, rows[known], now)
        return value

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        rows = self.eligible_rows(table, candidates)
        ready, value = self.filter_ready(table, rows, self.value_feeds(table, rows, now), now)
        return self.remember_price(take_best(ready, value, budget, self._rng), budget)

    def remember_price(self, choice: Choice, budget: Budget) -> Choice:
        """Remember the price that a choice has set: what its last feed was worth, if the budget was used up."""
        if len(choice.rows) and len(choice.rows) == budget.now:
            lowest = float(choice.value[-1])
            self._shared["price"][...] = lowest if np.isfinite(lowest) else 0.0
        return choice

    def eligible_rows(self, table: Table, candidates: Bools | None) -> Rows:
        """The rows to be valued."""
        return np.arange(len(table)) if candidates is None else np.flatnonzero(candidates)

    def filter_ready(self, table: Table, rows: Rows, value: Floats, now: float) -> tuple[Rows, Floats]:
        """Those of `rows` that may be taken, with their value; a strategy with a pause of its own leaves some out."""
        return rows, value

    def why(self, table: Table, row: int, now: float) -> str:
        told = self.explain(table, row, now)
        return told.reason

    def reasons(self, table: Table, rows: Rows, now: float) -> list[str]:
        price = self.price
        return [
            _format_reason(value, price, "now") if price <= value < np.inf else self.why(table, row, now)
            for row, value in zip(rows.tolist(), self.value_feeds(table, rows, now).tolist(), strict=True)
        ]

    def explain(self, table: Table, row: int, now: float) -> Decision:
        if not np.isfinite(table.last[row]):
            return Decision(NEVER_READ, np.inf, self.price, now)
        value = float(self.value_feeds(table, np.array([row]), now)[0])
        due = self.predict_due(table, row, now)
        when = "not within 60 days" if due is None else "now" if due <= now else f"in about {(due - now) / 60:.0f} min"
        return Decision(_format_reason(value, self.price, when), value, self.price, due)

    def predict_due(self, table: Table, row: int, now: float) -> float | None:
        """When the row's score will reach the present price, if nothing else happens; None: not within 60 days."""
        one = np.array([row])

        def enough(at: float) -> bool:
            return bool(self.value_feeds(table, one, at)[0] >= self.price)

        if enough(now):
            return now
        low, high = now, now + 60.0
        while not enough(high):
            low, high = high, now + 2 * (high - now)
            if high > now + 60 * DAY:
                return None
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


def _format_reason(value: float, price: float, when: str) -> str:
    return f"worth {value:.4g} now, the price is {price:.4g}: {when}"


def map_blocks(score: Callable[[Rows], Floats], rows: Rows) -> Floats:
    """`score` of all rows, some thousands at a time, so that what it computes on the way stays in the cache."""
    if len(rows) <= BLOCK:
        return score(rows)
    value = np.empty(len(rows))
    for part in iterate_blocks(len(rows), BLOCK):
        value[part] = score(rows[part])
    return value


def filter_blocks(sift: Callable[[Rows], tuple[NDArray[Any], ...]], rows: Rows) -> tuple[NDArray[Any], ...]:
    """The columns of the few rows that `sift` keeps of each block; nothing as long as `rows` is made on the way."""
    if len(rows) <= BLOCK:
        return sift(rows)
    kept = [sift(rows[part]) for part in iterate_blocks(len(rows), BLOCK)]
    return tuple(np.concatenate(column) for column in zip(*kept, strict=True))


def estimate_divergence(estimator: Estimator | None, asked: Table, rows: Rows, now: float) -> Floats:
    """Items published since the last refresh (Div_F) of the feeds of `asked`, which is the part of the table that
    `rows` are: told exactly, else expected."""
    unknown = np.isnan(asked.divergence)
    if estimator is None or not unknown.any():
        return np.where(unknown, 0.0, asked.divergence)
    if unknown.all():
        return estimator.expected(rows, asked.last, np.full(len(rows), now))
    told = asked.divergence.copy()
    told[unknown] = estimator.expected(rows[unknown], asked.last[unknown], np.full(int(unknown.sum()), now))
    return told


def value_window_divergence(asked: Table, published: Floats) -> Floats:
    """What the wanted items waiting in the windows are worth: Div_A·weight/cost, where Div_A is told exactly, else
    selectivity × min(Div_F, W)."""
    wanted = asked.selectivity * np.minimum(published, asked.window)
    if asked.relevant is not None:
        wanted = np.where(np.isnan(asked.relevant), wanted, asked.relevant)
    return np.asarray(wanted * asked.weight / asked.cost)
