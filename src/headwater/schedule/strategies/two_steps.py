"""Horincar et al.: utility, saturation, threshold τ and the four strategies built on them.

The utility of a refresh is Olston & Widom's best-effort synchronisation applied to feeds (thesis, eq. 4.5; the paper's
eq. 1): Uti = age·Div − ∫Div, the area *above* the divergence curve since the last refresh. A feed that diverged lately
is worth more than one that diverged at once and has been quiet since, because it will stay in step for longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.estimator import Estimator
from headwater.estimate.models.smoothing import SingleRate
from headwater.schedule.selection import Budget, Choice, take_best
from headwater.schedule.strategies.ranking import (
    RankingStrategy,
    estimate_divergence,
    filter_blocks,
    value_window_divergence,
)
from headwater.schedule.strategy import Table

THRESHOLD_UP, THRESHOLD_DOWN, THRESHOLD_SHARE = 1.05, 0.95, 0.9  # Θ, θ and p of alg. 4.2
GUESS = 0.9  # of the last price: prices change slowly, and feeds below need no integral


def compute_utility(estimator: Estimator | None, table: Table, rows: Rows, now: float) -> Floats:
    """Return Uti(now) = age·Div − ∫Div per row, times the weight, divided by the cost of a refresh.

    An exact divergence has no known curve; for a constant rate ∫Div = ½·age·Div (thesis 4.4.1), so Uti = ½·age·Div_A.
    For an expected divergence the estimator integrates its own curve, scaled to the wanted items that the window can
    still show.

    >>> from headwater.estimate.models.fixed import FixedRate
    >>> table = Table.of(1)
    >>> table.last[0], table.weight[0] = 0.0, 3.0
    >>> float(compute_utility(FixedRate(1, rate=1.0), table, np.array([0]), 4.0)[0])  # (4·4 − ½·4·4) · 3
    24.0
    """
    subtable = table.part(rows)
    published = estimate_divergence(estimator, subtable, rows, now)
    late = compute_utility_share(estimator, rows, subtable.last, subtable.divergence, published, now)
    return np.asarray((now - subtable.last) * value_window_divergence(subtable, published) * late)


def compute_utility_share(
    estimator: Estimator | None, rows: Rows, last: Floats, divergence: Floats, published: Floats, now: float
) -> Floats:
    """Return Uti / (age·Div), at most 1: ½ for a constant rate or an exact divergence, more where items came late."""
    estimated = np.isnan(divergence)
    if estimator is None or not estimated.any():
        return np.full(len(rows), 0.5)
    if not estimated.all():
        share = np.full(len(rows), 0.5)
        few = rows[estimated], last[estimated], divergence[estimated], published[estimated]
        share[estimated] = compute_utility_share(estimator, *few, now)
        return share
    waited = estimator.delay(rows, last, np.full(len(rows), now))
    whole = (now - last) * published
    some = whole > 0
    return np.where(some, 1 - np.minimum(waited / np.where(some, whole, 1.0), 1.0), 0.5)


class UtilityStrategy(RankingStrategy):
    """Ranks feeds by utility; the default estimator is `single`."""

    def __init__(
        self, feeds: int = 0, *, estimator: Estimator | None = None, rng: np.random.Generator | int | None = None
    ) -> None:
        super().__init__(feeds, estimator=estimator if estimator is not None else SingleRate(), rng=rng)

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        return compute_utility(self.estimator, table, rows, now)

    def find_useful(self, table: Table, rows: Rows, now: float, least: float) -> tuple[Rows, Floats]:
        """Return the rows of utility `least` or more with their utility; feeds never refreshed come first."""

        def sift(part: Rows) -> tuple[Rows, Floats]:
            subtable = table.part(part)
            known = np.isfinite(subtable.last)
            if known.all():
                published = estimate_divergence(self.estimator, subtable, part, now)
                return self.filter_by_utility(
                    subtable, part, published, value_window_divergence(subtable, published), now, least
                )
            good, value = sift(part[known]) if known.any() else (part[:0], np.empty(0))
            new = part[~known]
            return np.concatenate([new, good]), np.concatenate([np.full(len(new), np.inf), value])

        good, value = filter_blocks(sift, rows)
        return good, value

    def filter_by_utility(
        self, subtable: Table, rows: Rows, published: Floats, worth: Floats, now: float, least: float
    ) -> tuple[Rows, Floats]:
        """Return the rows of utility `least` or more, with their utility.

        Utility never exceeds age·Div, so the curve is integrated only where that bound allows it: a few numbers per
        feed instead of all, which matters for a million feeds.
        """
        ceiling = (now - subtable.last) * worth
        few = np.flatnonzero(ceiling >= least)
        some = rows[few], subtable.last[few], subtable.divergence[few], published[few]
        value = ceiling[few] * compute_utility_share(self.estimator, *some, now)
        good = np.flatnonzero(value >= least)
        return rows[few[good]], value[good]


def adjust_threshold(
    tau: float,
    used: int,
    budget: int,
    raise_by: float = THRESHOLD_UP,
    lower_by: float = THRESHOLD_DOWN,
    enough: float = THRESHOLD_SHARE,
) -> float:
    """Return the next threshold (thesis, alg. 4.2).

        τ ← τ · Θ if more than b was used,  τ · θ if less than p·b,  else τ      Θ = 1.05, θ = .95, p = .9

    >>> [adjust_threshold(1.0, used, 10) for used in (11, 8, 9, 10)]
    [1.05, 0.95, 1.0, 1.0]
    """
    if used > budget:
        return tau * raise_by
    return tau * lower_by if used < enough * budget else tau


def store_threshold(cell: NDArray[np.float64], tau: float) -> None:
    """Write τ back, but never so small that ×1.05 could not raise it again within a day of ticks."""
    cell[...] = min(max(tau, 1e-12), 1e30)


class TopUtility(UtilityStrategy):
    """Refresh the b feeds of largest Uti = age·Div − ∫Div (“topKUtility”, Horincar et al., section 5).

    >>> table = Table.of(2)
    >>> table.last[:] = [0.0, 6.0]
    >>> table.divergence[:] = [3.0, 8.0]
    >>> TopUtility(2).choose(table, 10.0, Budget(1)).value.tolist()  # ½·10·3 = 15 against ½·4·8 = 16
    [16.0]
    """

    name = "top_utility"
    fair = True
    monotone = True

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        rows = self.eligible_rows(table, candidates)
        value = None
        if budget.host is None and len(rows) > 8 * budget.now > 0:
            # Feeds near the last price are probably enough; if not, all are scored.
            good, worth = self.find_useful(table, rows, now, GUESS * self.price)
            if len(good) >= budget.now:
                rows, value = good, worth
        value = self.value_feeds(table, rows, now) if value is None else value
        return self.remember_price(take_best(rows, value, budget, self._rng), budget)


class OnlyTau(UtilityStrategy):
    """Refresh every feed with Uti ≥ τ (thesis, eq. 4.4); τ follows the budget (alg. 4.2).

    With `capped=False` one cycle may take more than b feeds, as in the paper's experiments, where b holds on average
    only. A server keeps the cap, and τ follows the number of feeds that qualified.

    >>> table = Table.of(2)
    >>> table.last[:] = 0.0
    >>> table.divergence[:] = [1.0, 2.0]
    >>> strategy = OnlyTau(2, tau=6.0)
    >>> strategy.choose(table, 10.0, Budget(2)).rows.tolist()  # utilities ½·10·1 = 5 and ½·10·2 = 10
    [1]
    >>> round(strategy.price, 2)  # one of two used: less than 90 %
    5.7
    """

    name = "only_tau"
    monotone = True

    def __init__(
        self,
        feeds: int = 0,
        *,
        tau: float = 1.0,
        capped: bool = True,
        raise_by: float = THRESHOLD_UP,
        lower_by: float = THRESHOLD_DOWN,
        enough: float = THRESHOLD_SHARE,
        estimator: Estimator | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        self._tau, self.capped = tau, capped
        self.raise_by, self.lower_by, self.enough = raise_by, lower_by, enough
        super().__init__(feeds, estimator=estimator, rng=rng)

    def shared(self) -> Mapping[str, Any]:
        return {"price": self._tau}

    def choose(self, table: Table, now: float, budget: Budget, candidates: Bools | None = None) -> Choice:
        rows = self.eligible_rows(table, candidates)
        rows, value = self.find_useful(table, rows, now, self.price)
        self.adjust_tau(len(rows), budget)
        return take_best(rows, value, budget if self.capped else lift_budget(budget, len(rows)), self._rng)

    def adjust_tau(self, used: int, budget: Budget) -> None:
        """Adjust τ to the number of feeds that qualified (alg. 4.2)."""
        if budget.now > 0:
            tau = adjust_threshold(self.price, used, budget.now, self.raise_by, self.lower_by, self.enough)
            store_threshold(self._shared["price"], tau)


def lift_budget(budget: Budget, rows: int) -> Budget:
    """Return the budget enlarged to all rows, if it allows any."""
    return Budget(rows if budget.now > 0 else 0, budget.rate, budget.host, budget.room)


class OnlySat(UtilityStrategy):
    """Refresh the b saturated feeds (Div_F ≥ W) of largest window divergence Div_A > 0 (thesis, alg. 4.1, step 1).

    >>> table = Table.of(3, window=10.0)
    >>> table.last[:] = 0.0
    >>> table.divergence[:] = [9.0, 10.0, 30.0]
    >>> OnlySat(3).choose(table, 1.0, Budget(3)).rows.tolist()  # nine items still fit
    [1, 2]
    """

    name = "only_sat"
    monotone = True

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        subtable = table.part(rows)
        published = estimate_divergence(self.estimator, subtable, rows, now)
        return np.where(published >= subtable.window, value_window_divergence(subtable, published), 0.0)

    def filter_ready(self, table: Table, rows: Rows, value: Floats, now: float) -> tuple[Rows, Floats]:
        full = np.flatnonzero(value > 0)
        return rows[full], value[full]


class TwoSteps(OnlyTau):
    """Refresh saturated feeds first, then every feed whose utility reaches what is left of the budget.

    Horincar, Amann & Artières, algorithm 1 (thesis, alg. 4.1), with budget b and threshold τ:

        step 1   S = the b feeds of largest Div_A among those with Div_F ≥ W and Div_A > 0;   b_sat = |S|
        step 2   if b_sat < b:  S ∪ { feed : Uti(feed) ≥ b / (b − b_sat) · τ }
        then     τ ← alg. 4.2 applied to the number of feeds of both steps

    A feed never refreshed counts as saturated: its whole window is unread. `capped=False` lets step 2 exceed b, as in
    the paper's experiments.

    >>> table = Table.of(3, window=10.0)
    >>> table.last[:] = 0.0
    >>> table.divergence[:] = [12.0, 4.0, 1.0]
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
        # A feed never refreshed counts as saturated: its whole window is unread.
        full, gain = np.concatenate([new, full]), np.concatenate([np.full(len(new), np.inf), gain])
        saturated = take_best(full, gain, budget, self._rng)
        left = budget.after(saturated.rows)
        if left.now <= 0:
            self.adjust_tau(len(saturated.rows), budget)
            return saturated
        useful, utility = self.find_useful(table, rows, now, budget.now / left.now * self.price)
        others = ~np.isin(useful, saturated.rows)
        useful, utility = useful[others], utility[others]
        self.adjust_tau(len(saturated.rows) + len(useful), budget)
        left = left if self.capped else lift_budget(left, len(useful))
        return saturated + take_best(useful, utility, left, self._rng)

    def _find_saturated(self, table: Table, rows: Rows, now: float) -> tuple[Rows, Floats]:
        """Return the saturated feeds among `rows` with their window divergence."""
        subtable = table.part(rows)
        published = estimate_divergence(self.estimator, subtable, rows, now)
        brings = value_window_divergence(subtable, published)
        full = np.flatnonzero((published >= subtable.window) & (brings > 0))
        return rows[full], brings[full]
