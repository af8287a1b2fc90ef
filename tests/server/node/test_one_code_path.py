"""The node decides as the lab does: a recorded day, replayed through the lab's sources, leads to the same decisions.

The node's side is everything but the network: documents with dates are judged by `novelty`, written to a real store,
learned through `node.learning`, and the scheduler chooses under politeness and budget at a virtual time. The lab's side
is `lab.replay`'s own sources over the trace behind the documents, and a fresh strategy of the same name.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from headwater.lab.simulation.replay import ReplaySettings, _Publishers
from headwater.lab.traces.trace import Trace
from headwater.model import Document, Ending, Entry, Outcome, Refresh
from headwater.node.crawl.dispatcher import JobOrder, make_local_job
from headwater.node.crawl.ingest import Ingest, LearningPlanner
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.node.crawl.transport import FetchResult
from headwater.schedule.budget import RequestCap
from headwater.schedule.registry import build_strategy
from headwater.schedule.selection import Budget
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.refreshes import list_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.times import DAY, HOUR

Day = tuple[Scheduler, list[NDArray[np.bool_]], list[dict[str, NDArray[np.generic]]]]
CONSTRAINTS = ("window", "pause", "reason", "at_most", "open", "closed", "heavy", "pushed", "active")
FEEDS, WINDOW, TICK, PER_TICK = 16, 10, 600.0, 4
START = 20_000 * DAY


def a_trace() -> Trace:
    """Make two days of feeds that publish from every few minutes to twice a day, at whole seconds, more by day."""
    rng, times = np.random.default_rng(7), []
    for per_day in np.geomspace(2, 300, FEEDS):
        moments = np.sort(rng.integers(0, 2 * DAY, rng.poisson(2 * per_day) + 1))
        by_day = np.unique(moments[(moments % DAY > 8 * HOUR) | (rng.random(len(moments)) < 0.3)])
        times.append(START + (by_day if len(by_day) else moments[:1]).astype(np.float64))
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in times])]).astype(np.intp)
    return Trace(tuple(f"feed {k}" for k in range(FEEDS)), offsets, np.concatenate(times))


class SettableClock:
    now = START + DAY

    def __call__(self) -> float:
        return self.now


def fetched_at(trace: Trace, row: int, now: float, url: str) -> Outcome:
    upto = int(np.searchsorted(trace.feed_times(row), now, side="right"))
    entries = tuple(
        Entry(id=f"{row}-{k}", title=f"Item {k}", published=float(trace.feed_times(row)[k]))
        for k in range(upto - 1, max(upto - WINDOW, 0) - 1, -1)
    )
    return Outcome(Ending.CHANGED, url, url, now, 0.0, 200, Document("rss 2.0", items=entries), bytes=1000)


@pytest.fixture
async def day(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Day]:
    """Run a day of the node under a virtual clock; return its scheduler, and candidates and constraints at each
    tick.
    """
    clock, trace = SettableClock(), a_trace()
    async with await open_store(f"sqlite:///{tmp_path / 'day.sqlite'}") as store:
        await store.write(add_and_subscribe, [NewFeed(f"http://h{k}.example/") for k in range(FEEDS)], START)
        scheduler = Scheduler(
            store,
            build_strategy(request.param),
            BudgetAccount(RequestCap(PER_TICK * 60 / TICK)),
            Politeness(random.Random(1), least=60.0),
            per_host=9,
            clock=clock,
        )
        await scheduler.load_feeds()
        table, ingest = scheduler.feed_table, Ingest(store, planner=LearningPlanner(scheduler))
        candidates: list[NDArray[np.bool_]] = []
        asked: list[dict[str, NDArray[np.generic]]] = []
        for tick in range(int(DAY / TICK)):
            clock.now = START + DAY + tick * TICK
            candidates.append(table.find_candidates(clock.now) & ~table.untried)
            asked.append({name: getattr(table.table, name).copy() for name in CONSTRAINTS})
            chosen = scheduler.choose_feeds(PER_TICK, clock.now)
            known = await store.read(load_feed_states, [int(table.ids[row]) for row, _ in chosen])
            batch = []
            for row, reason in chosen:
                state = known[int(table.ids[row])]
                job = make_local_job(state, JobOrder(state.feed_id, 0, reason, None, False))
                batch.append(FetchResult(job, fetched_at(trace, row, clock.now, state.url)))
            if batch:
                await ingest.save_results(batch)
        yield scheduler, candidates, asked


@pytest.mark.parametrize(
    "day",
    [
        "value",
        "value(estimator=forecast)",
        "two_steps",
        "top_utility",
        "only_tau",
        "advarss",
        "combined",
        "miniflux_entry_frequency",
        "post_rate",
    ],
    indirect=True,
)
async def test_the_nodes_decisions_are_the_labs_on_the_same_history(day: Day, request: pytest.FixtureRequest) -> None:
    scheduler, candidates, asked = day
    trace = a_trace()
    recorded = (await scheduler._store.read(list_refreshes, limit=10_000))[::-1]
    by_tick = {at: list(group) for at, group in groupby(recorded, key=lambda one: one.at)}
    sources = _Publishers(trace, ReplaySettings(window=WINDOW, history_days=0, warmup_days=1))
    strategy = build_strategy(request.node.callspec.params["day"])
    strategy.resize(FEEDS)
    decided = 0
    for tick, allowed in enumerate(candidates):
        now = START + DAY + tick * TICK
        done = by_tick.get(now, [])
        first = [one for one in done if one.reason == "its first refresh"]
        budget = Budget(PER_TICK - len(first), scheduler.budget.rate)
        for name, column in asked[tick].items():  # only the node has politeness
            getattr(sources.table, name)[:] = column
        rows = strategy.choose(sources.table, now, budget, allowed).rows[: budget.now]
        # The store writes a batch in the order of feeds, so only the set of chosen feeds is compared.
        assert sorted(rows.tolist()) == [row_of(scheduler, one) for one in done if one not in first]
        decided += len(rows)
        polled = np.array([row_of(scheduler, one) for one in done], np.intp)
        if not len(polled):
            continue
        seen = sources.poll_feeds(polled, np.full(len(polled), now), shown=True)
        assert seen.new.tolist() == [one.new for one in done]
        assert seen.window.tolist() == [one.window for one in done]
        assert seen.saturated.tolist() == [one.saturated for one in done]
        assert seen.published is not None
        assert seen.published.times.tolist() == [date for one in done for date in one.published]
        seen = replace(seen, lost=np.array([one.lost for one in done]))
        strategy.observe(sources.table, seen)
        sources.mark_polled(seen)
        known = (
            await scheduler._store.read(load_feed_states, [one.feed_id for one in done])
            if tick == len(candidates) - 1
            else {}
        )
        # `feeds list` knows the pause of the strategy's own, such as advaRSS's ten minutes.
        rested = {one.feed_id: strategy.ready_at(sources.table, row_of(scheduler, one)) for one in done}
        assert all((state.next_refresh or 0.0) >= rested[feed_id] for feed_id, state in known.items())
        assert all(state.next_refresh is not None for state in known.values())
    assert decided > 20
    mine, theirs = strategy.due, scheduler.strategy.due
    assert (mine is None) == (theirs is None)
    if mine is not None and theirs is not None:
        assert mine.tolist() == theirs.tolist()
    state, other = strategy.save(), scheduler.strategy.save()
    assert state.keys() == other.keys()
    for key in state:
        np.testing.assert_array_equal(state[key], other[key], err_msg=key)


def row_of(scheduler: Scheduler, refresh: Refresh) -> int:
    row = scheduler.feed_table.find_row(refresh.feed_id)
    assert row is not None
    return row
