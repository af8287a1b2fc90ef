"""Ten thousand feeds survive a restart, a suspended machine and a clock that steps back, without a burst of
requests.
"""

from __future__ import annotations

import asyncio
import random
import time

import numpy as np

from headwater.assembly import build
from headwater.fetch.client import Fetcher
from headwater.model import Ending, Refresh, Verdict
from headwater.node.crawl.local_crawl import LocalCrawl
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.budget import RequestCap
from headwater.schedule.strategies.learned_interval import Fix1h
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe


async def test_after_a_restart_with_ten_thousand_feeds_only_the_due_ones_are_asked(farm, given, eventually) -> None:
    made = await farm(feeds=10_000, speed=1)
    settings = given()
    now = time.time()
    due = {17, 4711}
    async with await open_store(settings.database_url) as store:
        added = await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(10_000)], now)
        known = await store.read(load_feed_states, [one.feed.id for one in added])
        verdicts = []
        for k, one in enumerate(added):
            state = known[one.feed.id]
            after = {"last_refresh": now - 60, "next_refresh": now - 1 if k in due else now + 3600}
            fields = {name: getattr(state, name) for name in state.__slots__} | after
            verdicts.append(Verdict(Refresh(one.feed.id, now - 60, Ending.UNCHANGED), type(state)(**fields)))
        for start in range(0, 10_000, 1000):
            await save_refreshes(store, verdicts[start : start + 1000])
    async with build("node", settings):
        await eventually(lambda: len(made.log) >= len(due), "the due ones are asked for")
        await asyncio.sleep(1.0)
    assert {line.feed for line in made.log} == due


class SteppingClock:
    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.time() + self.offset


async def crawl(made, settings, clock: SteppingClock, budget: float):  # type: ignore[no-untyped-def]
    """Run a crawler on a test clock, with hourly polls."""
    store = await open_store(settings.database_url)
    fetcher = await Fetcher(allow_private=True, per_host=64, clock=clock).__aenter__()
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(made.feeds)], clock())
    scheduler = Scheduler(
        store,
        Fix1h(),
        BudgetAccount(RequestCap(budget)),
        Politeness(random.Random(1), least=0.05),
        per_host=64,
        clock=clock,
    )
    crawler = LocalCrawl(store, scheduler, fetcher, probe_seconds=0.2, clock=clock)
    await scheduler.load_feeds()
    stop = asyncio.Event()
    running = asyncio.create_task(crawler.run(stop))

    async def end() -> None:
        stop.set()
        await running
        await fetcher.__aexit__(None, None, None)
        await store.close()

    return crawler, end


def settled(crawler: LocalCrawl) -> int:
    """Count the feeds that have been refreshed, written and learned from."""
    return int(
        np.count_nonzero(np.isfinite(crawler.scheduler.feed_table.table.last) & ~crawler.scheduler.feed_table.in_flight)
    )


async def test_feeds_that_are_read_anew_while_they_are_refreshed_are_not_asked_twice(farm, given, eventually) -> None:
    made = await farm(feeds=100, speed=1, hints=False)
    crawler, end = await crawl(made, given(), SteppingClock(), budget=100_000)
    while settled(crawler) < 100:
        await crawler.scheduler.load_feeds()  # as if feeds were added all the time
    await end()
    assert len(made.log) == 100


async def test_a_machine_that_slept_for_a_day_catches_up_within_the_budget(farm, given, eventually) -> None:
    made = await farm(feeds=40, speed=1, hints=False)
    clock = SteppingClock()
    crawler, end = await crawl(made, given(), clock, budget=600)
    await eventually(lambda: settled(crawler) == 40, "all feeds refreshed once")
    before, woke = len(made.log), time.monotonic()
    clock.offset += 86_400.0
    await eventually(lambda: len(made.log) >= before + 20, "the feeds are due again")
    assert len(made.log) - before <= 100 + 10 * (time.monotonic() - woke)
    await end()


async def test_a_clock_set_back_a_day_neither_freezes_the_feeds_nor_starts_a_storm(farm, given, eventually) -> None:
    made = await farm(feeds=20, speed=1, hints=False)
    clock = SteppingClock()
    _, end = await crawl(made, given(), clock, budget=150)  # 25 at once, then 2.5 a second
    await eventually(lambda: len(made.log) >= 20, "all feeds refreshed once")
    await asyncio.sleep(0.3)
    clock.offset -= 86_400.0
    await asyncio.sleep(1.5)  # the clock is checked once a second
    assert len(made.log) == 20
    clock.offset += 2 * 3600.0  # two hours of the corrected clock, not a day and two hours
    await eventually(lambda: len(made.log) >= 40, "the feeds are due again")
    await end()
