"""The job behind "compare strategies": the store's history becomes a trace, and a worker process replays it.

Nobody has to wait: a sample of the feeds stands for all, each strategy is shown when it is through (the quick ones come
first), and the result is kept in the store for whoever opens the page later.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import msgspec
import numpy as np

from headwater.lab.own_history import (
    COMPARED_STRATEGIES,
    ComparisonRow,
    build_trace,
    compare_strategy,
    find_best,
    sample_feeds,
)
from headwater.store.content.feed_overview import list_item_times, load_window_sizes
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store
from headwater.times import DAY
from headwater.web.shared.background_jobs import BackgroundJob

DAYS = 28.0
LEAST_FEEDS, MOST_FEEDS = 1.0, 96.0  # refreshes per feed and day that a comparison can be about
STATE, VERSION = "comparison", 1


@dataclass(frozen=True, slots=True)
class StrategyComparison:
    """What each strategy would have got of these feeds' items, at the same number of requests; `of` is how many
    strategies there are when all are through. `sampled` feeds of `feeds` stand for all."""

    rows: tuple[ComparisonRow, ...]
    best: str
    feeds: int
    items: int
    days: float
    per_day: float
    at: float
    of: int
    sampled: int


async def replay_strategies(store: Store, per_minute: float, now: float, job: BackgroundJob) -> StrategyComparison:
    """Replay every strategy; `job.result` grows with each. TraceError while the history is too short."""
    job.report_progress(0, "reading the history")
    feeds, times = await store.read(list_item_times, now - DAYS * DAY)
    windows = await store.read(load_window_sizes)
    trace = await asyncio.to_thread(build_trace, np.array(feeds, np.intp), np.array(times, np.float64), windows)
    # The budget that each feed gets on average; a huge budget for few feeds would only show that all catch everything.
    per_day = min(max(per_minute * 1440 / max(len(windows), 1), LEAST_FEEDS), MOST_FEEDS)
    some = sample_feeds(trace, per_day)
    job.total = len(COMPARED_STRATEGIES)
    rows: tuple[ComparisonRow, ...] = ()
    # forkserver: a fork of a process with threads and an event loop may hang; spawned anew, it shares nothing with us.
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, mp_context=context, initializer=os.nice, initargs=(10,)) as pool:
        for name in COMPARED_STRATEGIES:
            job.report_progress(len(rows), name)
            rows += (await asyncio.get_running_loop().run_in_executor(pool, compare_strategy, some, name, per_day),)
            found = StrategyComparison(
                *(rows, find_best(rows).strategy, trace.feeds, len(some.times), trace.days, per_day, now),
                of=len(COMPARED_STRATEGIES),
                sampled=some.feeds,
            )
            job.result = found
    job.report_progress(len(rows))
    await store.write(save_state, STATE, VERSION, msgspec.json.encode(found), now)
    return found


async def load_last_comparison(store: Store) -> StrategyComparison | None:
    """What was found last, also before a restart."""
    saved = await store.read(load_state, STATE)
    if saved is None or saved[0] != VERSION:
        return None
    return msgspec.json.decode(saved[1], type=StrategyComparison)
