"""The running crawler never exceeds the cap in a minute, serves people and new feeds first, and limits bytes and
hosts.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given as given_examples
from hypothesis import strategies as st

from headwater.assembly import build
from headwater.fetch.client import Fetcher
from headwater.node.crawl.local_crawl import LocalCrawl
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.budget import RequestCap
from headwater.schedule.politeness.host_rate import HostRate
from headwater.schedule.strategies.round_robin import Reference, Uniform
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.readers.accounts import add_user
from headwater.store.readers.subscriptions import add_and_subscribe, list_reader_feeds


class FastClock:
    """A clock on which a minute passes in a second."""

    def __init__(self, speed: float = 60.0) -> None:
        self.speed, self.start = speed, time.time()

    def __call__(self) -> float:
        return self.of(time.time())

    def of(self, real: float) -> float:
        return self.start + (real - self.start) * self.speed


async def run_fast(eventually, made, settings, strategy, spending, requests):  # type: ignore[no-untyped-def]
    """Crawl until so many requests have reached the farm; return their times on the fast clock."""
    clock = FastClock()
    async with (
        await open_store(settings.database_url) as store,
        Fetcher(allow_private=True, per_host=64) as fetcher,
    ):
        await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(made.feeds)], time.time())
        courtesy = Politeness(random.Random(1), least=0.05)
        scheduler = Scheduler(store, strategy, spending, courtesy, per_host=64, clock=clock)
        crawler = LocalCrawl(store, scheduler, fetcher, clock=clock)
        await scheduler.load_feeds()
        scheduler.feed_table.earliest[:] = 0.0  # tried before, so the strategy chooses, not the rule of first refreshes
        stop = asyncio.Event()
        running = asyncio.create_task(crawler.run(stop))
        await eventually(lambda: len(made.log) >= requests, "the requests reached the farm", 60.0)
        stop.set()
        await running
    return sorted((clock.of(line.arrived), line.feed) for line in made.log)


def fullest_minute(moments: list[float]) -> int:
    at = np.sort(np.array(moments))
    return int((np.arange(len(at)) - np.searchsorted(at, at - 60, side="right") + 1).max())


@pytest.mark.parametrize("strategy", [Uniform, Reference])
async def test_no_sixty_seconds_hold_more_requests_than_the_budget(farm, given, eventually, strategy) -> None:
    made = await farm(feeds=130, speed=1000, hints=False)
    asked = await run_fast(eventually, made, given(), strategy(), BudgetAccount(RequestCap(40)), requests=120)
    assert asked[-1][0] - asked[0][0] > 100
    assert fullest_minute([at for at, _ in asked]) <= 40


async def test_a_host_is_never_asked_faster_than_its_own_budget_allows(farm, given, eventually) -> None:
    made = await farm(feeds=20, speed=1000, hints=False)
    asked = await run_fast(
        eventually, made, given(), Uniform(), BudgetAccount(RequestCap(1000), HostRate(6)), requests=18
    )
    assert fullest_minute([at for at, _ in asked]) <= 7  # one more, because requests arrive milliseconds late


async def test_bytes_are_reserved_before_a_fetch_and_settled_after_it() -> None:
    spending = BudgetAccount(RequestCap(600, bytes=100_000.0))
    assert spending.count_available(0.0) == 5  # 20 kB each are expected
    reserved = spending.reserve(0.0, 0)
    assert spending.count_available(0.0) == 4
    spending.charge(1.0, reserved, 100_000)
    assert spending.count_available(1.0) == 0
    assert spending.measure_use(1.0).bytes == 100_000
    assert spending.count_available(62.0) > 0


async def test_a_request_given_up_keeps_its_reservation() -> None:
    spending = BudgetAccount(RequestCap(60, bytes=1e9))
    reserved = spending.reserve(2.0, 0)
    spending.charge_without_document(3.0, reserved, reserved)
    assert spending.measure_use(3.0).requests == 1
    assert spending.measure_use(3.0).bytes == pytest.approx(reserved)


async def test_a_clock_set_back_does_not_freeze_the_budget() -> None:
    spending = BudgetAccount(RequestCap(60), HostRate(60))
    for k in range(10):
        spending.charge(1000.0, spending.reserve(1000.0, k), 10)
    assert spending.count_available(1000.0) == 0
    spending.shift_clock(900.0)
    assert spending.count_available(105.0) == 5
    assert spending.is_host_ready(0, 102.0)


async def test_people_come_first_then_new_feeds_then_the_strategy_out_of_one_budget(given, eventually) -> None:
    async with (
        await open_store(given().database_url) as store,
        Fetcher(allow_private=True) as fetcher,
    ):
        added = await store.write(add_and_subscribe, [NewFeed(f"http://h{k}.example/feed") for k in range(6)], 0.0)
        spending, courtesy = BudgetAccount(RequestCap(60)), Politeness(random.Random(1))
        scheduler = Scheduler(store, Uniform(), spending, courtesy, per_host=64)
        crawler = LocalCrawl(store, scheduler, fetcher)
        await scheduler.load_feeds()
        scheduler.feed_table.earliest[:4] = 0.0  # only the last two were never tried
        wish = asyncio.create_task(crawler.request_refresh(added[3].feed.id))
        find_requested = crawler.dispatcher._find_requested_rows
        await eventually(lambda: len(find_requested(time.time())) > 0, "the wish is known")
        requested = find_requested(time.time())
        chosen = scheduler.choose_feeds(4, time.time(), requested)
        assert [row for row, _ in chosen] == [3, 4, 5, 0]
        assert [why for _, why in chosen[:3]] == ["asked for by a person", *["its first refresh"] * 2]
        assert [row for row, _ in scheduler.choose_feeds(1, time.time(), requested)] == [3]
        wish.cancel()


async def test_a_persons_wish_comes_before_forty_feeds_that_wait(farm, given, eventually) -> None:
    made = await farm(feeds=40, speed=1000, hints=False)
    async with build("node", given(budget=60)) as node:
        added = await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(40)], time.time())
        await eventually(lambda: len(made.log) >= 10, "the first burst is spent")
        settled = await node.crawl.request_refresh(added[35].feed.id)
        assert settled.verdict.refresh.reason == "asked for by a person"
        order = [line.feed for line in made.log]
        assert order.index(35) <= 13
        assert Counter(order)[35] == 1


@given_examples(
    st.integers(1, 20),
    st.lists(st.tuples(st.floats(0.0, 20.0), st.booleans(), st.floats(0.0, 30.0), st.floats(0.0, 1.0)), max_size=80),
)
def test_no_minute_of_refreshes_and_peoples_requests_has_more_than_the_budget(
    cap: int, wishes: list[tuple[float, bool, float, float]]
) -> None:
    """Each request takes a while and arrives at any time within it; people's requests come first."""
    spending, now, running, arrived = BudgetAccount(RequestCap(cap)), 0.0, list[tuple[float, float]](), list[float]()
    for pause, by_person, length, moment in wishes:
        now += pause
        for one in sorted(one for one in running if one[0] <= now):
            spending.charge_without_document(one[0], one[1], one[1])
            running.remove(one)
        spending.people_waiting = int(by_person)
        if by_person and spending.count_for_people(now):
            running.append((now + length, spending.reserve_for_person(now)))
        elif not by_person and spending.count_available(now):
            running.append((now + length, spending.reserve(now, 0)))
        else:
            continue
        arrived.append(now + moment * length)
    assert not arrived or fullest_minute(arrived) <= cap


async def test_feeds_of_readers_get_their_share_of_the_budget_and_the_owners_the_rest(given) -> None:
    """Sixty feeds of readers and twenty of the owner are always due: 40 requests a minute, a quarter for readers."""
    async with await open_store(given().database_url) as store:
        reader = await store.write(add_user, "rita", None, 0.0)
        urls = [f"http://h{k}.example/feed" for k in range(80)]
        await store.write(add_and_subscribe, [NewFeed(url) for url in urls[:60]], 0.0, subscriber=reader.id)
        await store.write(add_and_subscribe, [NewFeed(url) for url in urls[60:]], 0.0)
        spending, courtesy = BudgetAccount(RequestCap(40)), Politeness(random.Random(1), least=0.0)
        scheduler = Scheduler(store, Uniform(), spending, courtesy, per_host=64, reader_share=0.25)
        await scheduler.load_feeds()
        feeds = scheduler.feed_table
        feeds.set_reader_feeds(await store.read(list_reader_feeds))
        assert feeds.of_readers.tolist() == [True] * 60 + [False] * 20
        feeds.earliest[:] = 0.0
        readers, others, waits = [], [], []
        for now in np.arange(1000.0, 1300.0, 0.5).tolist():
            for row, _ in scheduler.choose_feeds(spending.count_available(now), now):
                (readers if feeds.of_readers[row] else others).append(now)
                spending.charge(now, spending.reserve(now, row), 10)
            feeds.earliest[60:] = np.inf  # only feeds of readers are due: the loop waits for their share
            waits.append(scheduler.find_next_due(now) - now)
            feeds.earliest[60:] = 0.0
        assert fullest_minute(readers) == 10
        assert len(readers) >= 45
        assert len(others) >= 140
        assert max(waits) > 5
        scheduler.reader_share.share = 1.0
        assert len(scheduler.choose_feeds(20, 1400.0)) == 20
