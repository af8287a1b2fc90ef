"""Learned state is restored for the feed it was learned from, whatever its row is now."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from headwater.arrays import Ragged
from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.snapshot import (
    HOSTS,
    STRATEGY,
    VERSION,
    align_rows,
    load_host_state,
    load_snapshot,
    pack_arrays,
    save_snapshot,
)
from headwater.node.quality.quality_monitor import STATE_NAME as HISTORY
from headwater.node.quality.quality_monitor import QualityHistory, load_history
from headwater.node.quality.quality_report import REPORT, load_last_report
from headwater.schedule.registry import build_strategy
from headwater.schedule.strategies.learned_interval import Fix1h
from headwater.schedule.strategy import IntervalStrategy, Observed, Table
from headwater.store.opening import open_store
from headwater.store.saved_state import load_state, save_state


def learned(ids: list[int]) -> tuple[IntervalStrategy, np.ndarray]:  # type: ignore[type-arg]
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
    blank.load(align_rows(strategy.save(), ids, np.array(now, np.int64), blank))
    assert len(blank) == len(now)
    assert blank.due.tolist() == [feed + 3600.0 if feed in (1, 2, 3) else -np.inf for feed in now]


def test_a_removed_feeds_row_is_not_given_to_anybody() -> None:
    strategy, ids = learned([1, 2])
    ids[0] = -1
    blank = Fix1h(2)
    blank.load(align_rows(strategy.save(), ids, np.array([-1, 2], np.int64), blank))
    assert blank.due.tolist() == [-np.inf, 3602.0]


def test_a_column_of_another_layout_does_not_stop_a_server() -> None:
    """An older version remembered 336 half hours of each feed: that memory begins anew, all else is continued."""
    strategy = build_strategy("value", "forecast")
    strategy.resize(2)
    zero, end = np.zeros(2), np.array([1e6, 2e6])
    dates = Ragged.of([[end[0] - 9.0], [end[1] - 9.0]])
    strategy.observe(Table.of(2), Observed(np.arange(2), zero - np.inf, end, zero + 1, zero + 10, zero > 0, dates))
    state = strategy.save()
    state["estimator/memory/recent"] = state["estimator/memory/recent"][:, :336]
    blank = build_strategy("value", "forecast")
    blank.resize(3)
    blank.load(align_rows(state, np.array([5, 6], np.int64), np.array([6, 7, 5], np.int64), blank))
    taken = blank.save()
    assert taken["due"].tolist() == [state["due"][1], -np.inf, state["due"][0]]
    np.testing.assert_array_equal(taken["estimator/items"][[2, 0]], state["estimator/items"])
    assert taken["estimator/memory/recent"].shape == (3, 384)


@pytest.mark.parametrize(
    ("version", "blob"),
    [
        (VERSION, b""),
        (VERSION, b"nonsense"),
        (VERSION, pack_arrays({"due": np.arange(9.0)})[:-30]),
        (VERSION, pack_arrays({"due": np.arange(9.0)})),
        (VERSION, pack_arrays({"feed_ids": np.array([1]), "_class": np.array("fix_1h/99"), "_feeds": np.array(1)})),
        (VERSION + 1, pack_arrays({"feed_ids": np.array([1])})),
    ],
    ids=["empty", "nonsense", "cut", "without feeds", "of another version", "of another program"],
)
async def test_saved_state_that_cannot_be_used_is_put_aside_with_a_word_and_nothing_stops(
    tmp_path: Path, version: int, blob: bytes
) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'x.sqlite'}") as store:
        for name in (STRATEGY, HOSTS, HISTORY, REPORT):
            await store.write(save_state, name, version, blob, 0.0)
        with capture_logs() as said:
            assert not await load_snapshot(store, FeedTable(), Fix1h())
        assert [line["event"] for line in said] == ["strategy_state_ignored"]
        courtesy = Politeness(random.Random(0))
        await load_host_state(store, courtesy)
        assert courtesy.held_domains == {}
        assert (await load_history(store)).list_since(0.0) == QualityHistory().list_since(0.0) == []
        assert await load_last_report(store) is None


async def test_without_feeds_no_learned_state_is_written(tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'x.sqlite'}") as store:
        await save_snapshot(store, FeedTable(), Fix1h(), Politeness(random.Random(0)), 0.0)
        assert await store.read(load_state, STRATEGY) is None
        assert await store.read(load_state, HOSTS) is not None
