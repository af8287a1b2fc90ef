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
from headwater.schedule.ranking import Ranking, divergence, in_blocks, relevant, sifted


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
    ceiling, published = _ceiling(estimator, table, rows, now)
    share = np.full(len(rows), 0.5)
    believed = np.isnan(table.divergence[rows])
    if estimator is not None and believed.any():
        asked = rows[believed]
        waited = estimator.delay(asked, table.last[asked], np.full(len(asked), now))
        whole = (now - table.last[asked]) * published[believed]
        # Uti / (age·Div): ½ for a constant rate, more where the items came late.
        share[believed] = np.where(whole > 0, 1 - np.minimum(waited / np.where(whole > 0, whole, 1.0), 1.0), 0.5)
    return np.asarray(ceiling * share)


def most(estimator: Estimator | None, table: Table, rows: Rows, now: float) -> Floats:
    """age·Div·weight/cost: no utility is greater, and it needs no integral of the divergence curve."""
    return _ceiling(estimator, table, rows, now)[0]


def _ceiling(estimator: Estimator | None, table: Table, rows: Rows, now: float) -> tuple[Floats, Floats]:
    published = divergence(estimator, table, rows, now)
    shown = relevant(published, table, rows)
    return (now - table.last[rows]) * shown * table.weight[rows] / table.cost[rows], published


class Utilitarian(Ranking):
    """A ranking strategy that believes by `single` unless told otherwise."""

    def __init__(
        self, feeds: int = 0, *, estimator: Estimator | None = None, rng: np.random.Generator | int | None = None
    ) -> None:
        super().__init__(feeds, estimator=estimator if estimator is not None else Single(), rng=rng)

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        return utility(self.estimator, table, rows, now)

    def at_least(self, table: Table, rows: Rows, now: float, least: float) -> tuple[Rows, Floats]:
        """The rows whose utility is `least` or more, with it. Only where the ceiling allows it is the curve integrated:
        for a million feeds that is the difference between reading a few numbers of each and reading all of them.
        """
        rows = sifted(lambda part: self._sift(table, part, now, least), rows)
        value = in_blocks(lambda part: self._value(table, part, now), rows)
        return rows[value >= least], value[value >= least]

    def _sift(self, table: Table, rows: Rows, now: float, least: float) -> Rows:
        known = np.isfinite(table.last[rows])
        if known.all():
            return rows[most(self.estimator, table, rows, now) >= least]
        hopeful = ~known
        hopeful[known] = most(self.estimator, table, rows[known], now) >= least
        return rows[hopeful]
