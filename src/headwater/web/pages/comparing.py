"""The job behind "compare strategies": the store's history becomes a trace, and a worker process replays it."""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from headwater.estimate.base import DAY
from headwater.lab.compared import Compared
from headwater.store.store import Store
from headwater.web.jobs import Job

DAYS = 28.0
LEAST, MOST = 1.0, 96.0  # refreshes per feed and day that a comparison can be about


@dataclass(frozen=True, slots=True)
class Comparison:
    """What each strategy would have got of these feeds' items, at the same number of requests."""

    rows: tuple[Compared, ...]
    best: str
    feeds: int
    items: int
    days: float
    per_day: float


async def comparison(store: Store, per_minute: float, now: float, job: Job) -> Comparison:
    """Replay every strategy; progress is told strategy by strategy. TraceError while the history is too short."""
    # The lab is large and seldom asked: a server must not wait for it when it starts.
    from headwater.lab.own_history import COMPARED, best, compare, trace_of

    job.progress(0, "reading the history")
    feeds, times = await store.pages.times(now - DAYS * DAY)
    windows = await store.pages.windows()
    trace = trace_of(np.array(feeds, np.intp), np.array(times, np.float64), windows)
    # The budget that each feed gets on average; a huge budget for few feeds would only show that all catch everything.
    per_day = min(max(per_minute * 1440 / max(len(windows), 1), LEAST), MOST)
    job.total = len(COMPARED)
    rows: list[Compared] = []
    # forkserver: a fork of a process with threads and an event loop may hang; spawned anew, it shares nothing with us.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
        for name in COMPARED:
            job.progress(len(rows), name)
            rows.append(await asyncio.get_running_loop().run_in_executor(pool, compare, trace, name, per_day))
    job.progress(len(rows))
    return Comparison(tuple(rows), best(rows).strategy, trace.feeds, len(trace.times), trace.days, per_day)
