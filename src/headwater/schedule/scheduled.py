"""Strategies that plan each day's refreshes of a feed at the best moments of its daily pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.errors import SettingsError
from headwater.estimate.base import Bools, Column, Floats, Rows
from headwater.estimate.pattern import ClusterPattern
from headwater.schedule.allocating import AllocationStrategy
from headwater.schedule.base import NEVER_READ, Budget, Choice, Decision, Observed, Table, take_best
from headwater.schedule.retrieval_times import plan_retrieval_times

MAX_PLANNED_PER_DAY = 96  # retrievals a day that are planned one by one
SHAPE_TOLERANCE = (
    0.04  # patterns that differ in less than this share of a day's items keep the moments planned for them
)


class RetrievalScheduleStrategy(AllocationStrategy):
    """Each day a feed gets a whole number of refreshes, at the retrieval times of its cluster's pattern.

    Fractions are carried over (column `owed`), so that in the long run a feed gets exactly its frequency: one refresh
    in three days, or three in two. What was due yesterday and could not be afforded stays due. A feed without a pattern
    has no better and worse moments: it is refreshed at even intervals.
    """

    estimator: ClusterPattern

    def __init__(self, feeds: int = 0, *, estimator: ClusterPattern | None = None, method: str = "refine") -> None:
        if method not in ("refine", "search"):
            raise SettingsError(f"Retrieval times are found by refine or search, not by “{method}”.")
        self._clusters = (estimator.clusters if estimator is not None else 12) + 1
        self.method = method
        self._plans: dict[tuple[int, int], Floats] = {}
        super().__init__(feeds, estimator=estimator)

    def layout(self) -> Mapping[str, Column]:
        return {
            **super().layout(),
            "due": Column(-np.inf, dtype=np.float64),
            "owed": Column(np.nan),
            "today": Column(0, dtype=np.int16),
            "shape": Column(0, dtype=np.int16),
        }

    def shared(self) -> Mapping[str, Any]:
        return {**super().shared(), "shapes": np.full((self._clusters, 24), 1 / 24)}

    @property
    def due(self) -> Floats:
        return self._columns["due"]

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self._plans.clear()

    def plan_period(self, table: Table, now: float, rate: float) -> None:
        last_day = float(self._shared["until"])
        super().plan_period(table, now, rate)
        c, rows = self._columns, np.arange(len(table))
        day = float(np.floor(now / self.period) * self.period)
        self._shared["until"][...] = day + self.period
        self._update_shapes()
        # After a day that was planned comes a whole one; a day begun in its middle has only its rest to give.
        begins = day if last_day == day else now
        left = (day + self.period - begins) / self.period
        each = np.minimum(self.period / c["every"] * left, MAX_PLANNED_PER_DAY)
        # Feeds of one rate would all fall due on the same days; the moment of their first refresh tells them apart.
        phase = np.mod(np.where(np.isfinite(table.last), table.last, 0.0) * 0.0161803398875, 1.0)
        owed = np.where(np.isnan(c["owed"]), phase, c["owed"]) + each
        whole = np.floor(owed)
        c["owed"][:] = owed - whole
        c["today"][:] = whole
        c["shape"][:] = self.estimator.cluster(rows)
        late = np.isfinite(table.last) & (c["due"] < begins) & np.isfinite(c["due"])
        seen = rows[np.isfinite(table.last) & ~late]
        c["due"][seen] = self._find_next_planned(seen, np.full(len(seen), begins), table.last[seen])

    def _update_shapes(self) -> None:
        """The estimator's patterns, found anew each day; one that hardly moved stays as it was, with its moments."""
        planned, plans = self._shared["shapes"].copy(), self._plans
        self._plans = {}
        for k, line in enumerate(self.estimator.shapes):
            apart = np.abs(planned - line).sum(axis=1) / 2
            old = int(np.argmin(apart))
            near = apart[old] <= SHAPE_TOLERANCE
            self._shared["shapes"][k] = planned[old] if near else line
            if near:
                self._plans |= {(k, many): times for (shape, many), times in plans.items() if shape == old}

    def _find_next_planned(self, rows: Rows, after: Floats, last: Floats) -> Floats:
        """The first planned moment of the present day from `after` on; +inf if there is none left."""
        c = self._columns
        start = float(self._shared["until"]) - self.period
        due = np.where(c["shape"][rows] == 0, last + c["every"][rows], np.inf)
        code = c["shape"][rows].astype(np.intp) * (MAX_PLANNED_PER_DAY + 1) + c["today"][rows]
        for pair in np.unique(code):  # a few hundred at most, whatever the number of feeds
            shape, many = divmod(int(pair), MAX_PLANNED_PER_DAY + 1)
            if many == 0 or shape == 0:
                continue
            times = self._plan_times(shape, many)
            mine = np.flatnonzero(code == pair)
            at = np.searchsorted(times, after[mine] - start, side="left")
            due[mine] = np.where(at < many, start + times[np.minimum(at, many - 1)], np.inf)
        return due

    def _plan_times(self, shape: int, many: int) -> Floats:
        if (shape, many) not in self._plans:
            line = self._shared["shapes"][shape]
            self._plans[shape, many] = plan_retrieval_times(line, many, period=self.period, method=self.method)
        return self._plans[shape, many]

    def observe(self, table: Table, seen: Observed) -> None:
        super().observe(table, seen)
        self.due[seen.rows] = self._find_next_planned(seen.rows, seen.end + 1.0, seen.end)

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        self.plan_if_stale(table, now, budget)
        ready = self.due <= now
        if candidates is not None:
            ready &= candidates
        rows = np.flatnonzero(ready)
        return take_best(rows, now - self.due[rows], budget)

    def explain(self, table: Table, row: int, now: float) -> Decision:
        due, many = float(self.due[row]), int(self._columns["today"][row])
        if due == -np.inf:
            return Decision(NEVER_READ, np.inf, 0.0, now)
        if due == np.inf:
            return Decision(f"planned {many} times today, no more of them to come", -np.inf, 0.0, None)
        if self._columns["shape"][row] == 0:
            every = float(self._columns["every"][row])
            return Decision(f"no daily pattern yet: every {every / 60:.0f} min", now - due, 0.0, due)
        wait = "now" if due <= now else f"in {(due - now) / 60:.0f} min"
        return Decision(f"planned {many} times today at the best moments of its pattern: {wait}", now - due, 0.0, due)
