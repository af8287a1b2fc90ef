"""Compares strategies on the server's own history, which a worker process replays as a trace.

A sample of the feeds represents all. The page shows each strategy as soon as it has finished, fast ones first, and the
store keeps the last result.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import msgspec
import numpy as np

from headwater.estimate.class_spec import split_specs
from headwater.lab.own_history import (
    COMPARED_STRATEGIES,
    ComparisonRow,
    build_trace,
    choose_compared,
    compare_strategy,
    find_best,
    sample_feeds,
)
from headwater.store.content.feed_overview import list_item_times, load_window_sizes
from headwater.store.readers.readership import load_readership
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store
from headwater.times import DAY
from headwater.web.shared.background_jobs import BackgroundJob

DAYS = 28.0
MIN_REFRESHES_PER_DAY, MAX_REFRESHES_PER_DAY = 1.0, 96.0  # per feed
STATE, VERSION = "comparison", 1


@dataclass(frozen=True, slots=True)
class StrategyComparison:
    """The share of items that each strategy would have caught with the same number of requests.

    `rows` grows until it holds `of` strategies. The replay covers `sampled` of all `feeds`.
    """

    rows: tuple[ComparisonRow, ...]
    best: str
    feeds: int
    items: int
    days: float
    per_day: float
    at: float
    of: int
    sampled: int


def list_compared(current: str, wanted: str | None) -> tuple[str, ...]:
    """Return the strategies to compare: the usual ones, the server's, and those `wanted`, separated by commas."""
    return choose_compared(COMPARED_STRATEGIES, current, split_specs(wanted or ""))


async def replay_strategies(
    store: Store, per_minute: float, now: float, job: BackgroundJob, names: Sequence[str] = ()
) -> StrategyComparison:
    """Replay every strategy and extend `job.result` after each. Raise TraceError if the history is too short."""
    names = names or COMPARED_STRATEGIES
    job.report_progress(0, "reading the history")
    feeds, times = await store.read(list_item_times, now - DAYS * DAY)
    windows = await store.read(load_window_sizes)
    readers = (await store.read(load_readership, now)).count_feed_readers()
    trace = await asyncio.to_thread(
        build_trace, np.array(feeds, np.intp), np.array(times, np.float64), windows, readers or None
    )
    # The average budget of a feed, limited: with a huge budget for few feeds all strategies would catch everything.
    per_day = min(max(per_minute * 1440 / max(len(windows), 1), MIN_REFRESHES_PER_DAY), MAX_REFRESHES_PER_DAY)
    some = sample_feeds(trace, per_day)
    job.total = len(names)
    rows: tuple[ComparisonRow, ...] = ()
    # Not fork: a fork of a process with threads and an event loop may hang.
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, mp_context=context, initializer=os.nice, initargs=(10,)) as pool:
        for name in names:
            job.report_progress(len(rows), name)
            rows += (await asyncio.get_running_loop().run_in_executor(pool, compare_strategy, some, name, per_day),)
            found = StrategyComparison(
                *(rows, find_best(rows).strategy, trace.feeds, len(some.times), trace.days, per_day, now),
                of=len(names),
                sampled=some.feeds,
            )
            job.result = found
    job.report_progress(len(rows))
    await store.write(save_state, STATE, VERSION, msgspec.json.encode(found), now)
    return found


async def load_last_comparison(store: Store) -> StrategyComparison | None:
    """Return the last saved comparison, None if there is none of this version."""
    saved = await store.read(load_state, STATE)
    if saved is None or saved[0] != VERSION:
        return None
    return msgspec.json.decode(saved[1], type=StrategyComparison)
