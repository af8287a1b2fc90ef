"""Combines the importance and selectivity of several queries into a feed's weight."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats, Rows


def combine_query_weights(
    feeds: int, feed: Rows, importance: Floats, selectivity: Floats, own: Floats | None = None
) -> tuple[Floats, Floats]:
    """Combine the queries of each feed so that weight × selectivity = Σ importance × selectivity.

    One position per (feed, query) pair. Divergences relevant to disjoint queries add up (thesis, Definition 2.1.3). The
    combined selectivity is the probability that an item passes any of the queries, taken as independent. `own` is the
    weight for readers of the whole feed, for whom every item passes.

    >>> weight, sel = combine_query_weights(2, np.array([0, 0]), np.array([2.0, 1.0]), np.array([0.5, 0.5]))
    >>> (weight * sel).tolist(), sel.tolist()  # 2·.5 + 1·.5; 1 − .5·.5; nobody reads the second feed
    ([1.5, 0.0], [0.75, 0.0])
    """
    worth = np.bincount(feed, importance * selectivity, minlength=feeds).astype(np.float64)
    missed = np.zeros(feeds)
    np.add.at(missed, feed, np.log1p(-np.minimum(selectivity, 1 - 1e-12)))
    passes = np.abs(np.expm1(missed))  # never −0
    if own is not None:
        worth = worth + own
        passes = np.where(own > 0, 1.0, passes)
    return np.where(passes > 0, worth / np.where(passes > 0, passes, 1.0), 0.0), passes


def chance_window_shows_wanted(selectivity: Floats, window: Floats) -> Floats:
    """Return the probability that a window shows any wanted item.

    A window without one is fresh, however old (F_W, thesis ch. 2).

    >>> chance_window_shows_wanted(np.array([0.0, 0.1, 1.0]), np.array([10.0, 10.0, 1.0])).round(2).tolist()
    [0.0, 0.65, 1.0]
    """
    return np.asarray(1 - (1 - np.clip(selectivity, 0.0, 1.0)) ** window)
