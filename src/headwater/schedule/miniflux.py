"""Miniflux's default rule: every feed once an hour, a hundred feeds an hour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.estimate.base import DAY, HOUR, Bools, Floats, Rows
from headwater.schedule.base import Budget, Choice, IntervalStrategy, Observed, Table


def read_hints(seen: Observed) -> Floats:
    """The pause each server asked for, 0 where it asked for none."""
    return np.zeros(len(seen)) if seen.hint is None else np.nan_to_num(seen.hint, nan=0.0)


class BatchedInterval(IntervalStrategy):
    """Miniflux's worker: every `batch_every` seconds it takes at most `batch` due feeds, oldest first.

    After three failures in a row a feed is not asked again (until a person does).
    """

    def __init__(
        self, feeds: int = 0, *, batch: int | None = 100, batch_every: float = HOUR, scale: float = 1.0
    ) -> None:
        self.batch, self.batch_every = batch, batch_every
        super().__init__(feeds, scale=scale)

    def shared(self) -> Mapping[str, Any]:
        return {"next_batch": -np.inf}

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        if self.batch is None:
            return super().choose(table, now, budget, candidates)
        if now < float(self._shared["next_batch"]) or budget.now <= 0:
            return Choice(np.empty(0, np.intp), np.empty(0))
        self._shared["next_batch"][...] = now + self.batch_every
        most = Budget(min(budget.now, self.batch), budget.rate, budget.host, budget.room)
        return super().choose(table, now, most, candidates)

    def observe_failures(self, table: Table, rows: Rows, at: Floats, failures: Rows) -> None:
        self.due[rows[failures >= 3]] = np.inf


class Miniflux(BatchedInterval):
    """next = min(max(60 min, hint), 24 h); a batch of 100 every 60 min (Miniflux, “round robin”).

    >>> one, s = np.ones(1), Miniflux(1)
    >>> s.observe(Table.of(1), Observed(np.array([0]), 0 * one, 0 * one, one, one, one > 1, hint=7200 * one))
    >>> s.due.tolist()
    [7200.0]
    """

    name = "miniflux"
    monotone = True

    def next_interval(self, table: Table, seen: Observed) -> Floats:
        return np.minimum(np.maximum(HOUR, read_hints(seen)), DAY)
