"""Selectivity: the share of a feed's items that a query keeps, one Beta posterior per pair of feed and query.

A row is a pair, not a feed. A new pair starts with what its query keeps elsewhere, worth `doubt` items; old evidence
fades by `forget` per item, so that a feed that changes its subject is believed again after some hundred items.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwater.estimate.base import Column, Floats, Rows, Rowwise


class Selectivity(Rowwise):
    """E s = (kept + doubt·usual) / (seen + doubt), the mean of Beta(kept + doubt·usual, missed + doubt·(1 − usual)).

    >>> pairs = Selectivity(1, doubt=2.0)
    >>> pairs.observe(np.array([0]), seen=np.array([8.0]), kept=np.array([2.0]))
    >>> pairs.mean(np.array([0]), usual=np.array([0.5])).tolist()  # (2 + 2·½) / (8 + 2)
    [0.3]
    """

    name = "selectivity"

    def __init__(self, pairs: int = 0, *, doubt: float = 4.0, forget: float = 0.002) -> None:
        self.doubt, self.forget = doubt, forget
        super().__init__(pairs)

    def layout(self) -> Mapping[str, Column]:
        return {"seen": Column(0.0), "kept": Column(0.0)}

    def observe(self, rows: Rows, seen: Floats, kept: Floats) -> None:
        """Of `seen` new items of each pair's feed its query kept `kept`."""
        fade = np.exp(-self.forget * seen)
        for key, more in (("seen", seen), ("kept", np.minimum(kept, seen))):
            old = self._columns[key][rows].astype(np.float64)
            # The first items of a pair carry full weight; only what was there before fades.
            self._columns[key][rows] = old * fade + more

    def mean(self, rows: Rows, usual: Floats) -> Floats:
        """The expected share; `usual` is what each pair's query keeps over all feeds."""
        seen, kept = self._columns["seen"][rows].astype(np.float64), self._columns["kept"][rows].astype(np.float64)
        return np.asarray((kept + self.doubt * usual) / (seen + self.doubt))

    def usual(self, rows: Rows, query: Rows, queries: int, start: float = 0.5) -> Floats:
        """What each query keeps over all its pairs, drawn to `start` by one item."""
        seen = np.bincount(query, weights=self._columns["seen"][rows], minlength=queries)
        kept = np.bincount(query, weights=self._columns["kept"][rows], minlength=queries)
        return np.asarray((kept + start) / (seen + 1.0))


def wanted(feed: Rows, share: Floats, importance: Floats, feeds: int) -> tuple[Floats, Floats]:
    """For each feed: the share of its items that any query wants, and the mean weight of a wanted item.

    Queries are taken as independent: an item is wanted by none with Π(1 − s). An item that several want is worth their
    importances together; feeds that no query reads have share 0 and weight 0.

    >>> share, weight = wanted(np.array([0, 0]), np.array([.5, .5]), np.array([1.0, 3.0]), 2)
    >>> share.tolist(), weight.round(3).tolist()  # 1 − ½·½; (½·1 + ½·3) / ¾
    ([0.75, 0.0], [2.667, 0.0])
    """
    with np.errstate(divide="ignore"):
        none = np.bincount(feed, weights=np.log1p(-np.clip(share, 0.0, 1.0)), minlength=feeds)
    any_of = np.abs(np.expm1(none))
    total = np.bincount(feed, weights=share * importance, minlength=feeds)
    return any_of, np.asarray(np.where(any_of > 0, total / np.where(any_of > 0, any_of, 1.0), 0.0))
