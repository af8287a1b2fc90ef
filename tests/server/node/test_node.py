"""A running node stores every published item once, keeps its budget, and restarts without a burst of requests."""

from __future__ import annotations

import asyncio
import time

import pytest

from headwater.assembly import build
from headwater.errors import RefreshHeld
from headwater.farm.faults import Fault
from headwater.model import Ending
from headwater.node.crawl import scheduler
from headwater.store.content.feed_state import iterate_schedule_rows
from headwater.store.content.feeds import NewFeed, change_feed, find_feed, list_feeds
from headwater.store.content.items import count_items, list_items
from headwater.store.content.refreshes import list_refreshes, summarise_activity
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.store.opening import open_store
from headwater.store.readers import marks
from headwater.store.readers.accounts import find_owner
from headwater.store.readers.marks import mark_items
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions
from headwater.store.readers.unread_counts import count_unread
from headwater.store.store import Store
from support.store_samples import SOMEBODY, a_verdict, an_item, one_feed


async def test_the_first_items_of_every_feed_are_stored_and_each_refresh_has_its_record(
    farm, given, eventually
) -> None:
    made = await farm(feeds=20, speed=1000)
    async with build("node", given()) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(20)], time.time())

        async def all_refreshed() -> bool:
            return (await node.store.read(summarise_activity, time.time())).never_refreshed == 0

        await eventually(all_refreshed, "all feeds refreshed")
        refreshes = await node.store.read(list_refreshes, limit=1000)
        assert {one.feed_id for one in refreshes} == {feed.id for feed in await node.store.read(list_feeds)}
        assert sum(one.new for one in refreshes) == await node.store.read(count_items)
        assert await node.store.read(count_items) > 0
        assert all(one.reason for one in refreshes)


async def test_a_restart_asks_for_nothing_that_is_not_due(farm, given, eventually) -> None:
    made = await farm(feeds=30, speed=1)
    settings = given(least_interval=120.0)
    async with build("node", settings) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(30)], time.time())

        async def all_refreshed() -> bool:
            return (await node.store.read(summarise_activity, time.time())).never_refreshed == 0

        await eventually(all_refreshed, "all feeds refreshed")
    before = len(made.log)
    assert before == 30
    async with build("node", settings) as node:
        await eventually(lambda: node.status().feeds == 30, "the feeds are known again")
        await asyncio.sleep(1.0)
    assert len(made.log) == before


async def test_upkeep_says_what_people_have_read_with_fewer_marks(given, monkeypatch) -> None:
    monkeypatch.setattr(marks, "MANY_READ", 2)
    async with build("node", given()) as node:
        feed = await one_feed(node.store, "https://127.0.0.1:1/")
        await save_refreshes(node.store, [a_verdict(feed, *(an_item(feed.id, name) for name in "abcdef"))])
        owner = await node.store.read(find_owner)
        ids = sorted(one.id or 0 for one in await node.store.read(list_items))
        await node.store.write(mark_items, owner.id, ids[:5], time.time(), read=True)
        await node.maintenance.prune_store()
        (mine,) = await node.store.read(list_subscriptions, owner.id)
        assert mine.read_up_to == ids[-1]
        assert (await node.store.read(count_unread, owner.id)).total == 1


async def test_the_budget_holds_from_the_first_second_however_many_feeds_wait(farm, given, eventually) -> None:
    made = await farm(feeds=50, speed=1000)
    started = time.time()
    async with build("node", given(budget=60)) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(50)], time.time())
        await eventually(lambda: len(made.log) >= 10, "the first burst is used")
        await asyncio.sleep(1.5)
        assert len(made.log) <= 10 + (time.time() - started)


async def test_feeds_removed_or_paused_by_another_process_are_left_alone(farm, given, eventually) -> None:
    made = await farm(feeds=3, speed=1)
    settings = given()
    async with build("node", settings) as node, await open_store(settings.database_url) as other:
        feeds = [
            added.feed
            for added in await other.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(3)], time.time())
        ]

        async def all_refreshed() -> bool:
            return (await other.read(summarise_activity, time.time())).never_refreshed == 0

        await eventually(all_refreshed, "feeds added elsewhere are noticed")
        await other.write(move_feed_to_trash, feeds[0].id, by=SOMEBODY)
        await other.write(change_feed, feeds[1].id, paused=True)
        await eventually(lambda: node.status().feeds == 1, "only one feed is left active")


async def test_a_bad_feed_never_stops_the_others_and_its_ending_is_recorded(farm, given, eventually) -> None:
    faults = {0: Fault("410"), 1: Fault("503"), 2: Fault("damaged"), 3: Fault("login"), 4: Fault("reset")}
    made = await farm(feeds=8, speed=1000, faults=faults)
    async with build("node", given()) as node:
        added = await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(8)], time.time())

        async def all_tried() -> bool:
            return len({one.feed_id for one in await node.store.read(list_refreshes, limit=1000)}) == 8

        await eventually(all_tried, "every feed was tried")
        endings = {one.feed_id: one.ending for one in reversed(await node.store.read(list_refreshes, limit=1000))}
        of = [endings[one.feed.id] for one in added]
        assert of[0] is Ending.GONE
        assert of[1] is Ending.THROTTLED
        assert of[3] is Ending.UNREADABLE
        assert of[4] is Ending.CONNECTION
        assert all(ending.ok for ending in of[5:])
        assert (await node.store.read(find_feed, added[0].feed.id)).gone_since is not None


async def test_a_persons_wish_is_refreshed_first_but_never_inside_retry_after(farm, given, eventually) -> None:
    made = await farm(feeds=2, speed=1, hosts=2, faults={1: Fault("429", "600")})
    async with build("node", given(least_interval=120.0)) as node:
        added = await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(2)], time.time())

        async def all_tried() -> bool:
            return len(await node.store.read(list_refreshes)) >= 2

        await eventually(all_tried, "both were tried")
        settled = await node.crawl.request_refresh(added[0].feed.id)
        assert settled.verdict.refresh.ending.ok
        with pytest.raises(RefreshHeld, match="asked to be left alone"):
            await node.crawl.request_refresh(added[1].feed.id)


async def test_feeds_added_while_it_runs_do_not_find_the_strategy_unprepared(farm, given, monkeypatch) -> None:
    made = await farm(feeds=4, speed=1000)
    async with build("node", given(strategy="value")) as node:
        await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(4)], time.time())

        async def slowly(store: Store):  # the loop chooses while the next rows are awaited
            async for rows in iterate_schedule_rows(store):
                yield rows
                await node.crawl.dispatcher.step()

        monkeypatch.setattr(scheduler, "iterate_schedule_rows", slowly)
        await node.crawl.scheduler.load_feeds()
        assert not node._broken.is_set()
        assert len(node.crawl.scheduler.strategy) == 4
