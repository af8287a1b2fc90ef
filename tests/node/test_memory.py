"""What was learned is found again by the feed it was learned of, whatever its row is now."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.node.memory import arranged
from headwater.schedule.base import Interval, Observed, Table
from headwater.schedule.fix import Fix1h


def learned(ids: list[int]) -> tuple[Interval, np.ndarray]:  # type: ignore[type-arg]
    strategy = Fix1h(len(ids))
    rows = np.arange(len(ids))
    end = np.array([float(feed) for feed in ids])
    zero = np.zeros(len(ids))
    seen = Observed(rows, end - 1, end, zero, zero + 10, zero.astype(bool))
    strategy.observe(Table.of(len(ids)), seen)
    return strategy, np.array(ids, np.int64)


@pytest.mark.parametrize("now", [[1, 2, 3], [3, 1], [9, 2, 8, 3], [], [7]])
def test_rows_follow_their_feeds_and_new_feeds_start_afresh(now: list[int]) -> None:
    strategy, ids = learned([1, 2, 3])
    blank = Fix1h(len(now))
    blank.load(arranged(strategy.save(), ids, np.array(now, np.int64), blank))
    assert len(blank) == len(now)
    assert blank.due.tolist() == [feed + 3600.0 if feed in (1, 2, 3) else -np.inf for feed in now]


def test_a_removed_feeds_row_is_not_given_to_anybody() -> None:
    strategy, ids = learned([1, 2])
    ids[0] = -1
    blank = Fix1h(2)
    blank.load(arranged(strategy.save(), ids, np.array([-1, 2], np.int64), blank))
    assert blank.due.tolist() == [-np.inf, 3602.0]
