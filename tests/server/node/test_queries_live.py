"""Standing queries in a running node, against a real farm: noticed, filled, steering, restarted."""

from __future__ import annotations

import time

from headwater.node.node import Node
from headwater.node.queries.demand import MIN_WEIGHT
from headwater.store.store import Store
from headwater.store.values import NewFeed
from support.store_samples import SOMEBODY


async def test_a_query_given_by_another_process_comes_alive_and_its_items_come_out(farm, given, eventually) -> None:
    made = await farm(feeds=4, speed=5000)
    settings = given()
    hits = []
    async with Node(settings, on_hits=hits.extend) as node, await Store.open(settings.database_url) as other:
        await other.add_feeds([NewFeed(made.url(0), name="first", tags=("a",))], time.time())
        await other.queries.execute('CREATE FEED Some AS RETURN TAG "a" WHERE HAS TITLE', time.time())
        await eventually(lambda: any(hit.fresh for hit in hits), "an item of a live query is delivered")
        query = await other.queries.find("some")
        assert query.active == query.text
        assert await other.queries.document(query, time.time())
        assert node.status().queries == 1
        await other.queries.execute(f'CREATE FEED Far AS RETURN "{made.url(3)}"', time.time())

        async def arrived() -> bool:
            return bool(await other.queries.document(await other.queries.find("Far"), time.time()))

        await eventually(arrived, "a feed that only a query names is refreshed")
        await other.queries.drop("Far", by=SOMEBODY)
        await eventually(lambda: node.status().queries == 1 and node.status().feeds == 1, "dropped, and its feed left")


async def test_weights_follow_the_queries_and_targets_are_compared_with_the_budget(farm, given, eventually) -> None:
    made = await farm(feeds=3, speed=100)
    settings = given(only_wanted_by_queries=True, budget=0.001, strategy="top_utility")
    async with await Store.open(settings.database_url) as other:
        new = [NewFeed(made.url(k), name=f"f{k}") for k in range(3)]
        feeds = [one.feed.id for one in await other.add_feeds(new, time.time())]
        script = "CREATE FEED Q AS RETURN f1 IMPORTANCE 5 TARGET COMPLETENESS >= 0.99 AND DELAY <= 5 MINUTES"
        await other.queries.execute(script, time.time())
        async with Node(settings) as node:
            await eventually(lambda: node.status().aims, "the target is looked at")
            table, row = node.crawler.feed_table.table, node.crawler.feed_table.find_row
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
        async with Node(settings, on_hits=count) as node:
            await node.store.add_feeds([NewFeed(made.url(k)) for k in range(6)], time.time())
            if not await node.store.queries.count():
                await node.store.queries.execute("CREATE FEED All_ AS RETURN ALL KEEP LAST 10 ITEMS", time.time())
            before = len(told)

            async def more(node=node, before=before) -> bool:
                for feed in await node.store.feeds():
                    if node.crawler.roster.row(feed.id) is not None:
                        await node.crawler.refresh_now(feed.id)
                return len(told) > before

            await eventually(more, "new items come out")
    assert len(told) == len(set(told))
