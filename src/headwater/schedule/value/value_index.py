"""Ranks feeds by the value index for fixed cycles: the best b at every tick.

Let G(T) be the expected gain of a refresh T after the last one. A policy that pays ν per refresh does best to refresh
when G(T) − T·[G(T + 1) − G(T)] reaches ν. For completeness G = sel·w·E min(N, W), and the index is nearly sel·w·W·P(N >
W): refresh where the next loss is most probable. Where signals give the divergence d and the wanted items a among it, G
is known now and only its growth is expected.
"""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.errors import SettingsError
from headwater.estimate.estimator import Estimator
from headwater.estimate.models.bayes import Bayes
from headwater.estimate.poisson import expect_shown
from headwater.schedule.strategies.ranking import RankingStrategy
from headwater.schedule.strategy import Table
from headwater.schedule.weights import chance_window_shows_wanted
from headwater.times import DAY

PIECES = 8
PAUSES = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 32, 40, 60, 80.0])  # steps


class ValueIndex(RankingStrategy):
    """Rank by the value index (ours; docs/value.md).

        (1 − θ)·[G(T) − T·G′(T)] + θ·[T·F(T) − ΣF] + η·λT²/2          G in items, F the missing share of the window

    `step` is the time between two choices, in seconds; `freshness` is θ, `delay` is η per item and step.

    >>> from headwater.estimate.models.fixed import FixedRate
    >>> table = Table.of(1, window=10.0)
    >>> table.last[0] = 0.0
    >>> index = ValueIndex(1, step=1.0, estimator=FixedRate(1, rate=100.0))
    >>> round(float(index.score(table, np.array([0]), 1.0)[0]), 3)  # surely full: a window's worth, 10 items
    10.0
    """

    name = "value_index"

    def __init__(
        self,
        feeds: int = 0,
        *,
        step: float = 600.0,
        freshness: float = 0.0,
        delay: float = 0.0,
        estimator: Estimator | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        if step <= 0 or not 0 <= freshness <= 1 or delay < 0:
            raise SettingsError("value_index needs step > 0, freshness within 0…1 and delay ≥ 0.")
        self.step, self.freshness, self.delay = step, freshness, delay
        super().__init__(feeds, estimator=estimator if estimator is not None else Bayes(), rng=rng)

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        assert self.estimator is not None
        age = np.maximum(now - table.last[rows], self.step)
        steps = age / self.step
        window = np.maximum(table.window[rows], 1.0)
        at, last = np.full(len(rows), now), table.last[rows]
        items = self.estimator.expected(rows, last, at)
        soon = self.estimator.expected(rows, at, at + self.step)
        shown, next_shown = expect_shown(window, items), expect_shown(window, items + soon)
        worth = table.weight[rows] * table.selectivity[rows] / table.cost[rows]
        index = worth * (shown - steps * (next_shown - shown))
        given = ~np.isnan(table.divergence[rows])
        if given.any():
            index[given] = self._index_with_divergence(table, rows[given], soon[given], window[given])
        index *= 1 - self.freshness
        if self.freshness:
            matters = chance_window_shows_wanted(table.selectivity[rows], window)
            index += self.freshness * matters * self._index_staleness(rows, last, age, items, window) / self.step
        if self.delay:
            index += self.delay * worth * items * steps / 2
        # Feeds of no worth take turns, so that a wrong forecast is corrected some day.
        return np.asarray(np.maximum(index, 0.0) + 1e-9 * age / DAY)

    def _index_with_divergence(self, table: Table, rows: Rows, soon: Floats, window: Floats) -> Floats:
        """Return the index of feeds whose waiting items are known.

        Waiting one more step pays if it adds more wanted items than the feed earns per step in the long run. At a price
        ν it earns g(ν) = max_T [G(T) − ν]/T, so the price at which the added items x just equal it is max_T [G(T) −
        T·x]. A full window loses by waiting: it is worth a whole window, or its content if that is more.
        """
        waiting = np.minimum(table.divergence[rows], window)
        share = table.selectivity[rows]
        wanted = share * waiting
        if table.relevant is not None:
            wanted = np.where(np.isnan(table.relevant[rows]), wanted, table.relevant[rows])
        room = window - waiting
        pushed = soon - expect_shown(room, soon)
        added = share * soon - pushed * (wanted + share * room) / window
        brings = share[:, None] * expect_shown(window[:, None], soon[:, None] * PAUSES)
        index = (brings - PAUSES * np.maximum(added, 0.0)[:, None]).max(1)
        index = np.where(added <= 0, np.maximum(share * window, wanted), index)
        return np.asarray(table.weight[rows] / table.cost[rows] * index)

    def _index_staleness(self, rows: Rows, last: Floats, age: Floats, items: Floats, window: Floats) -> Floats:
        """Return T·F(T) − Σ F(k) over the steps k before T, in seconds; F is the expected missing share of the window.

        Refreshes happen only at steps, so the cost of a pause of T is the sum over its steps. The integral would be
        half a step higher, which matters for pauses of a few steps.
        """
        assert self.estimator is not None
        middles = (np.arange(PIECES) + 0.5) / PIECES
        whole = [self.step * np.floor(age / self.step * middle) for middle in middles]
        parts = [self.estimator.expected(rows, last, last + pause) for pause in whole]
        missing = expect_shown(window, np.stack([*parts, items])) / window
        return np.asarray(age * (missing[-1] - missing[:-1].mean(axis=0)))
