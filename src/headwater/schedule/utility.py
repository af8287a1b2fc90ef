"""The utility of a refresh, Uti = age·Div − ∫Div, and strategies that go by it.

Olston & Widom's best-effort synchronisation for feeds (Horincar's thesis, eq. 4.5; the paper's eq. 1): the area *above*
the divergence curve since the last refresh. A feed that diverged only lately is worth more than one that diverged at
once and has been quiet since, because it will stay in step for longer.
"""

from __future__ import annotations

import numpy as np

from headwater.estimate.base import Estimator, Floats, Rows
from headwater.estimate.single import SingleRate
from headwater.schedule.base import Table
from headwater.schedule.ranking import RankingStrategy, estimate_divergence, filter_blocks, value_window_divergence


def compute_utility(estimator: Estimator | None, table: Table, rows: Rows, now: float) -> Floats:
    """Uti(now) = age·Div − ∫Div per row, times the weight, divided by the cost of a refresh.

    Where the divergence is told exactly its curve is unknown; for a constant rate ∫Div = ½·age·Div (thesis 4.4.1), so
    Uti = ½·age·Div_A. Where it is believed, the estimator integrates its own curve, scaled to the wanted items that the
    window can still show.

    >>> from headwater.estimate.fixed import Fixed
    >>> table = Table.of(1)
    >>> table.last[0], table.weight[0] = 0.0, 3.0
    >>> float(compute_utility(Fixed(1, rate=1.0), table, np.array([0]), 4.0)[0])  # (4·4 − ½·4·4) · 3
    24.0
    """
    asked = table.part(rows)
    published = estimate_divergence(estimator, asked, rows, now)
    late = compute_utility_share(estimator, rows, asked.last, asked.divergence, published, now)
    return np.asarray((now - asked.last) * value_window_divergence(asked, published) * late)


def compute_utility_share(
    estimator: Estimator | None, rows: Rows, last: Floats, told: Floats, published: Floats, now: float
) -> Floats:
    """Uti / (age·Div), at most 1: ½ for a constant rate or a divergence that is told, more where items came late."""
    believed = np.isnan(told)
    if estimator is None or not believed.any():
        return np.full(len(rows), 0.5)
    if not believed.all():
        share = np.full(len(rows), 0.5)
        few = rows[believed], last[believed], told[believed], published[believed]
        share[believed] = compute_utility_share(estimator, *few, now)
        return share
    waited = estimator.delay(rows, last, np.full(len(rows), now))
    whole = (now - last) * published
    some = whole > 0
    return np.where(some, 1 - np.minimum(waited / np.where(some, whole, 1.0), 1.0), 0.5)


class UtilityStrategy(RankingStrategy):
    """A ranking strategy that believes by `single` unless told otherwise."""

    def __init__(
        self, feeds: int = 0, *, estimator: Estimator | None = None, rng: np.random.Generator | int | None = None
    ) -> None:
        super().__init__(feeds, estimator=estimator if estimator is not None else SingleRate(), rng=rng)

    def score(self, table: Table, rows: Rows, now: float) -> Floats:
        return compute_utility(self.estimator, table, rows, now)

    def find_useful(self, table: Table, rows: Rows, now: float, least: float) -> tuple[Rows, Floats]:
        """The rows whose utility is `least` or more, with it; those never refreshed before all others."""

        def sift(part: Rows) -> tuple[Rows, Floats]:
            asked = table.part(part)
            known = np.isfinite(asked.last)
            if known.all():
                published = estimate_divergence(self.estimator, asked, part, now)
                return self.filter_by_utility(
                    asked, part, published, value_window_divergence(asked, published), now, least
                )
            good, value = sift(part[known]) if known.any() else (part[:0], np.empty(0))
            new = part[~known]
            return np.concatenate([new, good]), np.concatenate([np.full(len(new), np.inf), value])

        good, value = filter_blocks(sift, rows)
        return good, value

    def filter_by_utility(
        self, asked: Table, rows: Rows, published: Floats, worth: Floats, now: float, least: float
    ) -> tuple[Rows, Floats]:
        """Those of `rows` whose utility is `least` or more. No utility is above age·Div, and only where that allows it
        is the curve integrated: for a million feeds the difference between a few numbers of each and all of them.
        """
        ceiling = (now - asked.last) * worth
        few = np.flatnonzero(ceiling >= least)
        some = rows[few], asked.last[few], asked.divergence[few], published[few]
        value = ceiling[few] * compute_utility_share(self.estimator, *some, now)
        good = np.flatnonzero(value >= least)
        return rows[few[good]], value[good]
