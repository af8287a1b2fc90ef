"""The utility of a refresh, Uti = age·Div − ∫Div, and strategies that go by it.

Olston & Widom's best-effort synchronisation for feeds (Horincar's thesis, eq. 4.5; the paper's eq. 1): the area *above*
the divergence curve since the last refresh. A feed that diverged only lately is worth more than one that diverged at
once and has been quiet since, because it will stay in step for longer.
"""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Estimator, Floats, Rows
from headwater.estimate.single import Single
from headwater.schedule.base import Table
from headwater.schedule.ranking import Ranking, divergence, relevant


def utility(estimator: Estimator | None, table: Table, rows: Rows, now: float) -> Floats:
    """Uti(now) = age·Div − ∫Div per row, times the weight, divided by the cost of a refresh.

    Where the divergence is told exactly its curve is unknown; for a constant rate ∫Div = ½·age·Div (thesis 4.4.1), so
    Uti = ½·age·Div_A. Where it is believed, the estimator integrates its own curve, scaled to the wanted items that the
    window can still show.

    >>> from headwater.estimate.fixed import Fixed
    >>> table = Table.of(1)
    >>> table.last[0], table.weight[0] = 0.0, 3.0
    >>> float(utility(Fixed(1, rate=1.0), table, np.array([0]), 4.0)[0])  # (4·4 − ½·4·4) · 3
    24.0
    """
    age = now - table.last[rows]
    published = divergence(estimator, table, rows, now)
    shown = relevant(published, table, rows)
    half = np.full(len(rows), 0.5)
    believed = np.isnan(table.divergence[rows])
    if estimator is not None and believed.any():
        asked = rows[believed]
        waited = estimator.delay(asked, table.last[asked], np.full(len(asked), now))
        whole = age[believed] * published[believed]
        # Uti / (age·Div): ½ for a constant rate, more where the items came late.
        half[believed] = np.where(whole > 0, 1 - np.minimum(waited / np.where(whole > 0, whole, 1.0), 1.0), 0.5)
    return np.asarray(age * shown * half * table.weight[rows] / table.cost[rows])


class Utilitarian(Ranking):
    """A ranking strategy that believes by `single` unless told otherwise."""

    def __init__(
        self, feeds: int = 0, *, estimator: Estimator | None = None, rng: np.random.Generator | int | None = None
    ) -> None:
        super().__init__(feeds, estimator=estimator if estimator is not None else Single(), rng=rng)
