"""Saturated feeds first, then every feed whose utility has reached what is left of the budget."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Bools, Floats, Rows
from headwater.schedule.base import Budget, Choice, Table, take_best
from headwater.schedule.only_tau import OnlyTau, lift_budget
from headwater.schedule.ranking import estimate_divergence, filter_blocks, value_window_divergence
from headwater.schedule.threshold import adjust_threshold, store_threshold


class TwoSteps(OnlyTau):
    """Horincar's thesis, alg. 4.1 (the paper's algorithm 1).

    1. the b saturated feeds of greatest Div_A > 0;
    2. if b_sat < b of them were found: every other feed with Uti ≥ b/(b − b_sat)·τ.

    Then τ is adjusted by alg. 4.2 with the number of both. As in `only_tau`, `capped=False` lets the second step
    run over b, as in the paper's experiments.

    >>> table = Table.of(3, window=10.0)
    >>> table.last[:] = 0.0
    >>> table.estimate_divergence[:] = [12.0, 4.0, 1.0]
    >>> strategy = TwoSteps(3, tau=5.0)
    >>> strategy.choose(table, 10.0, Budget(2)).rows.tolist()  # 12 ≥ W; then ½·10·4 = 20 ≥ 2/(2 − 1)·5, but ½·10·1 < 10
    [0, 1]
    """

    name = "two_steps"

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        rows = self.eligible_rows(table, candidates)
        known = np.isfinite(table.last[rows])
        new, rows = rows[~known], rows if known.all() else rows[known]
        full, gain = filter_blocks(lambda part: self._find_saturated(table, part, now), rows)
        # Feeds never seen count as saturated: their whole window is unread.
        full, gain = np.concatenate([new, full]), np.concatenate([np.full(len(new), np.inf), gain])
        first = take_best(full, gain, budget, self._rng)
        left = budget.now - len(first.rows)
        if left <= 0:
            self._adjust_tau(len(first.rows), budget)
            return first
        rest, value = self.find_useful(table, rows, now, budget.now / left * self.price)
        other = ~np.isin(rest, first.rows)
        rest, value = rest[other], value[other]
        self._adjust_tau(len(first.rows) + len(rest), budget)
        room = budget.room
        if budget.host is not None and room is not None:
            room = room - np.bincount(budget.host[first.rows], minlength=len(room))
        second = Budget(left, budget.rate, budget.host, room)
        more = take_best(rest, value, second if self.capped else lift_budget(second, len(rest)), self._rng)
        return Choice(np.concatenate([first.rows, more.rows]), np.concatenate([first.value, more.value]))

    def _find_saturated(self, table: Table, rows: Rows, now: float) -> tuple[Rows, Floats]:
        """The saturated feeds among `rows`, with what a refresh of each brings."""
        asked = table.part(rows)
        published = estimate_divergence(self.estimator, asked, rows, now)
        brings = value_window_divergence(asked, published)
        full = np.flatnonzero((published >= asked.window) & (brings > 0))
        return rows[full], brings[full]

    def _adjust_tau(self, used: int, budget: Budget) -> None:
        if budget.now > 0:
            store_threshold(self._shared["price"], adjust_threshold(self.price, used, budget.now))
