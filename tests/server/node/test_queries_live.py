"""A running node notices, fills and restarts standing queries, and they steer its polling of a real farm."""

from __future__ import annotations

import time

from headwater.assembly import build
from headwater.node.queries.demand import MIN_WEIGHT
from headwater.store.content.feeds import NewFeed, list_feeds
from headwater.store.opening import open_store
from headwater.store.queries.document_hits import list_document_hits
from headwater.store.queries.query_feeds import count_query_feeds, find_query_feed
from headwater.store.queries.query_scripts import drop_query_feed, run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from support.store_samples import SOMEBODY


async def test_a_query_given_by_another_process_comes_alive_and_its_items_come_out(farm, given, eventually) -> None:
    made = await farm(feeds=4, speed=5000)
    settings = given()
    hits = []
    async with build("node", settings, on_hits=hits.extend) as node, await open_store(settings.database_url) as other:
        await other.write(add_and_subscribe, [NewFeed(made.url(0), name="first", tags=("a",))], time.time())
        await other.write(run_script, 'CREATE FEED Some AS RETURN TAG "a" WHERE HAS TITLE', time.time())
        await eventually(lambda: any(hit.fresh for hit in hits), "an item of a live query is delivered")
        query = await other.read(find_query_feed, "some")
        assert query.active == query.text
        assert await other.read(list_document_hits, query, time.time())
        assert node.status().queries == 1
        await other.write(run_script, f'CREATE FEED Far AS RETURN "{made.url(3)}"', time.time())

        async def arrived() -> bool:
            return bool(await other.read(list_document_hits, await other.read(find_query_feed, "Far"), time.time()))

        await eventually(arrived, "a feed that only a query names is refreshed")
        await other.write(drop_query_feed, "Far", by=SOMEBODY)
        await eventually(lambda: node.status().queries == 1 and node.status().feeds == 1, "dropped, and its feed left")


async def test_weights_follow_the_queries_and_targets_are_compared_with_the_budget(farm, given, eventually) -> None:
    made = await farm(feeds=3, speed=100)
    settings = given(only_wanted_by_queries=True, budget=0.001, strategy="top_utility")
    async with await open_store(settings.database_url) as other:
        new = [NewFeed(made.url(k), name=f"f{k}") for k in range(3)]
        feeds = [one.feed.id for one in await other.write(add_and_subscribe, new, time.time())]
        script = "CREATE FEED Q AS RETURN f1 IMPORTANCE 5 TARGET COMPLETENESS >= 0.99 AND DELAY <= 5 MINUTES"
        await other.write(run_script, script, time.time())
        async with build("node", settings) as node:
            await eventually(lambda: node.status().aims, "the target is looked at")
            table, row = node.crawl.scheduler.feed_table.table, node.crawl.scheduler.feed_table.find_row
            worth = [float(table.weight[row(feed)] * table.selectivity[row(feed)]) for feed in feeds]
            assert worth[1] > 1.0
            assert worth[0] == worth[2] == MIN_WEIGHT
            (aim,) = node.status().aims
            assert (aim.query, aim.reached, aim.feeds) == ("Q", False, 1)
            assert "requests per minute" in aim.message


async def test_hits_survive_a_restart_and_nothing_comes_twice(farm, given, eventually) -> None:
    made = await farm(feeds=6, speed=20_000, hints=False)
    settings = given()
    told: list[tuple[int, int]] = []

    def count(hits) -> None:
        told.extend((hit.query_id, hit.item.id) for hit in hits if hit.fresh)

    for _ in range(3):
        async with build("node", settings, on_hits=count) as node:
            await node.store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(6)], time.time())
            if not await node.store.read(count_query_feeds):
                await node.store.write(run_script, "CREATE FEED All_ AS RETURN ALL KEEP LAST 10 ITEMS", time.time())
            before = len(told)

            async def more(node=node, before=before) -> bool:
                for feed in await node.store.read(list_feeds):
                    if node.crawl.scheduler.feed_table.find_row(feed.id) is not None:
                        await node.crawl.request_refresh(feed.id)
                return len(told) > before

            await eventually(more, "new items come out")
    assert len(told) == len(set(told))
