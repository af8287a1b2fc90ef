"""Adam et al. (advaRSS): expected articles × subscribers; and their comparator of minimum delay."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats, Rows
from headwater.estimate.estimator import Estimator
from headwater.estimate.models.hour_histogram import HourlyRate
from headwater.schedule.strategies.ranking import RankingStrategy, estimate_divergence
from headwater.schedule.strategy import Table
from headwater.times import MINUTE


class AdvaRSS(RankingStrategy):
    """Refresh the k feeds of largest rank, none within 10 min of its last refresh (advaRSS, eq. 2).

        rank(f, t) = articles_f(t) · (1 + c·subscribers(f))

    Importance and cost enter as in all strategies: × weight × selectivity / cost.

    >>> table = Table.of(1)
    >>> table.last[0], table.divergence[0], table.subscribers[0] = 0.0, 6.0, 3.0
    >>> AdvaRSS(1, c=0.5).score(table, np.array([0]), 3600.0).tolist()  # 6·(1 + .5·3)
    [15.0]
    """

    name = "advarss"
    fair = True
    monotone = True

    def __init__(
        self,
        feeds: int = 0,
        *,
        c: float = 0.0,
        politeness: float = 10 * MINUTE,
        estimator: Estimator | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        self.c, self.politeness = c, politeness
        super().__init__(feeds, estimator=estimator if estimator is not None else HourlyRate(), rng=rng)

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        subtable = table.part(rows)
        articles = estimate_divergence(self.estimator, subtable, rows, now)
        readers = 1 + self.c * subtable.subscribers
        return np.asarray(articles * readers * subtable.weight * subtable.selectivity / subtable.cost)

    def filter_ready(self, table: Table, rows: Rows, value: Floats, now: float) -> tuple[Rows, Floats]:
        rested = np.flatnonzero(now - table.last[rows] >= self.politeness)
        return rows[rested], value[rested]

    def ready_at(self, table: Table, row: int) -> float:
        return float(table.last[row] + self.politeness)


class MinDelay(AdvaRSS):
    """Minimise the total delay of the articles fetched (advaRSS's second comparator, section 5).

    The paper gives no formula. This implementation takes the k feeds of largest ∫ λ(t)(now − t) dt since the last
    retrieval, the accumulated delay (Sia & Cho, Lemma 1), none within 10 min of its last.

    >>> from headwater.estimate.models.fixed import FixedRate
    >>> table = Table.of(1)
    >>> table.last[0] = 0.0
    >>> MinDelay(1, estimator=FixedRate(rate=0.5)).score(table, np.array([0]), 4.0).tolist()  # ½·.5·4²
    [4.0]
    """

    name = "min_delay"

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        assert self.estimator is not None
        last = table.last[rows]
        waited = self.estimator.delay(rows, last, np.full(len(rows), now))
        divergence = table.divergence[rows]
        waited = np.where(np.isnan(divergence), waited, divergence * (now - last) / 2)
        readers = 1 + self.c * table.subscribers[rows]
        return np.asarray(waited * readers * table.weight[rows] * table.selectivity[rows] / table.cost[rows])
