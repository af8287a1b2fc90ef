"""The feeds whose unread articles have waited longest, summed."""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Floats, Rows
from headwater.schedule.advarss import AdvaRSS
from headwater.schedule.base import Table


class MinDelay(AdvaRSS):
    """Minimise the total delay of what is fetched (advaRSS's second comparator, section 5).

    The paper gives no formula: here the k feeds of greatest ∫ λ(t)(now − t) dt since the last retrieval, the delay that
    has piled up (Sia & Cho, Lemma 1), none within 10 min of its last.

    >>> from headwater.estimate.fixed import Fixed
    >>> table = Table.of(1)
    >>> table.last[0] = 0.0
    >>> MinDelay(1, estimator=Fixed(rate=0.5)).score(table, np.array([0]), 4.0).tolist()  # ½·.5·4²
    [4.0]
    """

    name = "min_delay"

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        assert self.estimator is not None
        last = table.last[rows]
        waited = self.estimator.delay(rows, last, np.full(len(rows), now))
        told = table.divergence[rows]
        waited = np.where(np.isnan(told), waited, told * (now - last) / 2)
        people = 1 + self.c * table.subscribers[rows]
        return np.asarray(waited * people * table.weight[rows] * table.selectivity[rows] / table.cost[rows])
