"""Ranks feeds by a score at every tick (base class).

Ranking strategies share three things: the divergence of a feed (exact where a signal gives it, else the estimator's),
the rule that feeds never refreshed come first, and the prediction of when a feed will reach the present price.
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
from headwater.times import DAY, format_number

BLOCK = 16_384  # rows scored at a time: eight float64 columns fit into a megabyte


class RankingStrategy(Strategy):
    """Takes the candidates of greatest `score`. Ties go to `rng`, or to the lower row without one.

    `price` is the smallest score that was taken at the last choice.
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
        """Return the worth of refreshing each row at `now`; called only for feeds that have been refreshed before."""

    def observe(self, table: Table, seen: Observed) -> None:
        if self.estimator is not None:
            self.estimator.observe(seen.rows, seen.start, seen.end, seen.new, seen.saturated, seen.published)

    def value_feeds(self, table: Table, rows: Rows, now: float) -> Floats:
        """Return the scores, and +inf for feeds never refreshed, because nothing is known of them yet."""
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
        """Store the score of the last feed taken as the price, if the choice used up the budget."""
        if len(choice.rows) and len(choice.rows) == budget.now:
            lowest = float(choice.value[-1])
            self._shared["price"][...] = lowest if np.isfinite(lowest) else 0.0
        return choice

    def eligible_rows(self, table: Table, candidates: Bools | None) -> Rows:
        """Return the rows to score."""
        return np.arange(len(table)) if candidates is None else np.flatnonzero(candidates)

    def filter_ready(self, table: Table, rows: Rows, value: Floats, now: float) -> tuple[Rows, Floats]:
        """Return the rows that may be taken, with their values; strategies with a pause of their own drop some."""
        return rows, value

    def why(self, table: Table, row: int, now: float) -> str:
        return self.explain(table, row, now).reason

    def reasons(self, table: Table, rows: Rows, now: float) -> list[str]:
        price = self.price
        return [
            _format_reason(value, price, "now")
            if price <= value < np.inf and self.ready_at(table, row) <= now
            else self.why(table, row, now)
            for row, value in zip(rows.tolist(), self.value_feeds(table, rows, now).tolist(), strict=True)
        ]

    def explain(self, table: Table, row: int, now: float) -> Decision:
        if not np.isfinite(table.last[row]):
            return Decision(NEVER_READ, np.inf, self.price, now)
        value = float(self.value_feeds(table, np.array([row]), now)[0])
        due = self.predict_due(table, row, now)
        rested = self.ready_at(table, row)
        if due is not None and due < rested:
            due = rested
        when = "not within 60 days" if due is None else "now" if due <= now else f"in about {(due - now) / 60:.0f} min"
        return Decision(_format_reason(value, self.price, when), value, self.price, due)

    def predict_due(self, table: Table, row: int, now: float) -> float | None:
        """Return when the row's score will reach the price if nothing else happens; None: not within 60 days."""
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
    return f"worth {format_number(value)} now, the price is {format_number(price)}: {when}"


def map_blocks(score: Callable[[Rows], Floats], rows: Rows) -> Floats:
    """Score all rows, some thousands at a time, so that intermediate results stay in the cache."""
    if len(rows) <= BLOCK:
        return score(rows)
    value = np.empty(len(rows))
    for part in iterate_blocks(len(rows), BLOCK):
        value[part] = score(rows[part])
    return value


def filter_blocks(sift: Callable[[Rows], tuple[NDArray[Any], ...]], rows: Rows) -> tuple[NDArray[Any], ...]:
    """Apply `sift`, which keeps few rows, block by block and join its columns; no array of full length is made."""
    if len(rows) <= BLOCK:
        return sift(rows)
    kept = [sift(rows[part]) for part in iterate_blocks(len(rows), BLOCK)]
    return tuple(np.concatenate(column) for column in zip(*kept, strict=True))


def estimate_divergence(estimator: Estimator | None, subtable: Table, rows: Rows, now: float) -> Floats:
    """Return the items published since the last refresh (Div_F): exact where a signal gives the number, else expected.

    `subtable` is the part of the table for `rows`.
    """
    unknown = np.isnan(subtable.divergence)
    if estimator is None or not unknown.any():
        return np.where(unknown, 0.0, subtable.divergence)
    if unknown.all():
        return estimator.expected(rows, subtable.last, np.full(len(rows), now))
    divergence = subtable.divergence.copy()
    divergence[unknown] = estimator.expected(rows[unknown], subtable.last[unknown], np.full(int(unknown.sum()), now))
    return divergence


def value_window_divergence(subtable: Table, published: Floats) -> Floats:
    """Return the worth of the wanted items in the windows: Div_A·weight/cost.

    Div_A is exact where the table has it, else selectivity × min(Div_F, W).
    """
    wanted = subtable.selectivity * np.minimum(published, subtable.window)
    if subtable.relevant is not None:
        wanted = np.where(np.isnan(subtable.relevant), wanted, subtable.relevant)
    return np.asarray(wanted * subtable.weight / subtable.cost)
