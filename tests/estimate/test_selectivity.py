"""The share of a feed's items that a query keeps is learned per pair, from the query's habit at first."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.estimate.selectivity import Selectivity, wanted

ONE = np.array([0])


def test_a_new_pair_believes_what_its_query_keeps_elsewhere() -> None:
    pairs = Selectivity(3)
    pairs.observe(np.array([0, 1]), np.array([100.0, 100.0]), np.array([10.0, 10.0]))
    usual = pairs.usual(np.arange(3), np.zeros(3, dtype=np.intp), 1)
    assert pairs.mean(np.array([2]), usual)[0] == pytest.approx(0.1, abs=0.01)


def test_it_comes_to_the_true_share_and_follows_a_change() -> None:
    pairs = Selectivity(1)
    for _ in range(300):
        pairs.observe(ONE, np.array([10.0]), np.array([3.0]))
    assert pairs.mean(ONE, np.array([0.5]))[0] == pytest.approx(0.3, abs=0.01)
    for _ in range(300):
        pairs.observe(ONE, np.array([10.0]), np.array([8.0]))
    assert pairs.mean(ONE, np.array([0.5]))[0] == pytest.approx(0.8, abs=0.01)


def test_more_queries_want_more_and_a_feed_without_queries_nothing() -> None:
    share, weight = wanted(np.array([0, 1, 1]), np.array([0.4, 0.4, 0.4]), np.ones(3), 3)
    assert share[0] < share[1] < 1
    assert share[2] == weight[2] == 0
    certain, _ = wanted(ONE, np.array([1.0]), np.ones(1), 1)
    assert certain[0] == 1.0


def test_it_survives_saving_and_loading() -> None:
    pairs, other = Selectivity(2), Selectivity()
    pairs.observe(np.array([1]), np.array([5.0]), np.array([2.0]))
    other.load(pairs.save())
    half = np.full(2, 0.5)
    np.testing.assert_array_equal(pairs.mean(np.arange(2), half), other.mean(np.arange(2), half))
