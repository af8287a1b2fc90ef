"""A crawl that stands still is noticed: its last move stays in the past."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from headwater.assembly import build
from headwater.farm.faults import Fault
from headwater.node.crawl.dispatcher import Dispatcher
from headwater.node.crawl.local_crawl import LocalCrawl
from headwater.node.node import Node
from headwater.settings import Settings
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe

FEEDS = 3


async def start_farm(farm, settings: Settings, *faults: Fault):
    made = await farm(feeds=FEEDS, hosts=FEEDS, speed=1000, rates=(5, 50), hints=False)
    made.faults.update(dict(enumerate(faults)))
    async with await open_store(settings.database_url) as store:
        await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    return made


def wake(node: Node) -> float | None:
    """Let the dispatcher step; return when the crawl moved last."""
    crawl = node.crawl
    assert isinstance(crawl, LocalCrawl)
    crawl.dispatcher.wake()
    return crawl.status().moved_at


async def test_a_crawl_that_works_moves(farm, given: Callable[..., Settings], eventually) -> None:
    await start_farm(farm, given(), Fault("slow", "1"))  # one answers late
    async with build("node", given()) as node:
        await eventually(lambda: wake(node) is not None, "the crawl begins")
        first = time.time()
        await eventually(lambda: (wake(node) or 0.0) > first, "the crawl goes on")


async def test_requests_without_a_result_are_no_move(farm, given: Callable[..., Settings], eventually) -> None:
    await start_farm(farm, given(), *[Fault("slow", "2")] * FEEDS)
    async with build("node", given()) as node:
        assert isinstance(node.crawl, LocalCrawl)
        in_flight = node.crawl.dispatcher.in_flight
        await eventually(lambda: len(in_flight) == FEEDS and wake(node) is not None, "all feeds are asked")
        asked = time.time()
        for _ in range(20):
            moved = wake(node)
            await asyncio.sleep(0.02)
            if len(in_flight) < FEEDS:  # on a very slow machine
                break
            assert moved is not None
            assert moved <= asked
        await eventually(lambda: (wake(node) or 0.0) > asked, "a result comes")


async def test_steps_that_fail_are_no_move(
    farm, given: Callable[..., Settings], eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start_farm(farm, given())
    async with build("node", given()) as node:
        await eventually(lambda: wake(node) is not None, "the crawl begins")

        async def fail(self: Dispatcher) -> int:
            raise RuntimeError("a defect")

        monkeypatch.setattr(Dispatcher, "step", fail)
        await asyncio.sleep(0.05)  # a step that has begun
        last = wake(node)
        for _ in range(10):
            await asyncio.sleep(0.02)
            assert wake(node) == last
