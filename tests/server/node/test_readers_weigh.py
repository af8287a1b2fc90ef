"""The readers of each feed and the cost of its refreshes reach the scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from query_world import QueryWorld

from headwater.model import Ending, Known, Refresh, Validators
from headwater.node.crawl.scheduler import make_scheduler
from headwater.node.crawl.spending import FIRST_BYTES, BudgetAccount
from headwater.node.maintenance import Maintenance
from headwater.node.quality.feed_explanation import explain_feed_schedule
from headwater.node.queries.demand import DemandModel
from headwater.query.items.origin import Origin
from headwater.query.source_scope import SourceScope
from headwater.schedule.budget import RequestCap
from headwater.settings import load_settings
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.publishing.hub_subscribers import (
    HubRequest,
    add_hub_request,
    claim_due_hub_requests,
    confirm_hub_request,
)
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.readers.accounts import add_user
from headwater.store.readers.readership import (
    MAX_VISITORS,
    WEEK,
    Readership,
    add_document_readers,
    count_document_readers,
    load_readership,
    week_of,
)
from headwater.store.readers.subscriptions import subscribe_to_feeds, subscribe_to_query_feed
from support.store_samples import NOW, a_verdict


async def settled(world: QueryWorld, folder: Path, **more: Any) -> dict[str, tuple[float, float]]:
    """Return the readers and the weight of each feed, as the scheduler sees them."""
    settings = load_settings(data=folder, **more)
    scheduler = make_scheduler(world.store, settings)
    maintenance = Maintenance(world.store, scheduler, settings, clock=lambda: world.now)
    await maintenance.load_state()
    await maintenance.update_demand(world.processor)
    table = scheduler.feed_table
    rows = {name: table.find_row(feed.id) for name, feed in world.feeds.items()}
    return {
        name: (float(table.table.subscribers[row]), float((table.table.weight * table.table.selectivity)[row]))
        for name, row in rows.items()
        if row is not None
    }


async def test_accounts_readers_of_queries_hub_and_documents_are_counted(world: QueryWorld, tmp_path: Path) -> None:
    assert await settled(world, tmp_path) == {"guardian": (1, 1), "iris": (1, 1)}  # the owner reads both
    store = world.store
    ada, bob = [(await store.write(add_user, name, None, NOW)).id for name in ("ada", "bob")]
    for user in (ada, bob):
        await store.write(subscribe_to_feeds, user, [(world.feeds["guardian"].id, ())], (), NOW)
    # Three against one, per mean number of readers (2).
    assert await settled(world, tmp_path) == {"guardian": (3, 1.5), "iris": (1, 0.5)}
    assert await settled(world, tmp_path, reader_weights=False) == {"guardian": (1, 1), "iris": (1, 1)}
    await world.run('CREATE FEED Lava AS RETURN iris WHERE TITLE CONTAINS "lava"')
    await world.process()
    lava = (await store.read(find_query_feed, "Lava")).id
    await store.write(subscribe_to_query_feed, ada, lava, NOW)
    await store.write(subscribe_to_feeds, ada, [(world.feeds["iris"].id, ())], (), NOW)
    readers = {name: seen[0] for name, seen in (await settled(world, tmp_path)).items()}
    assert readers == {"guardian": 3, "iris": 2}  # ada reads iris twice and counts once
    topic = "https://hw.example/feeds/Lava.atom"
    await store.write(add_hub_request, HubRequest("subscribe", topic, "https://a.example/", lease=1e6), NOW)
    (request,) = await store.write(claim_due_hub_requests, NOW, 60.0)
    await store.write(confirm_hub_request, request, None, NOW, NOW + 1e6)
    await store.write(add_document_readers, week_of(NOW), [("/feeds/lava", b"1"), ("/feeds/lava", b"2")])
    readers = {name: seen[0] for name, seen in (await settled(world, tmp_path)).items()}
    assert readers == {"guardian": 3, "iris": 5}
    await store.write(add_document_readers, week_of(NOW), [("/tags/news", b"1")])
    assert (await settled(world, tmp_path))["guardian"][0] == 4  # by its tag


async def test_the_explanation_of_a_feed_counts_its_readers_as_the_scheduler_does(
    world: QueryWorld, tmp_path: Path
) -> None:
    store, feed = world.store, world.feeds["guardian"]
    known = Known(feed.id, feed.url, last_refresh=NOW, last_success=NOW, validators=Validators('"a"'))
    await save_refreshes(store, [a_verdict(feed, known=known)])
    for name in ("ada", "bob"):
        user = (await store.write(add_user, name, None, NOW)).id
        await store.write(subscribe_to_feeds, user, [(feed.id, ())], (), NOW)
    values = {}
    for weighted in (True, False):
        settings = load_settings(data=tmp_path, strategy="advarss(c=0.5)", reader_weights=weighted)
        explained = await explain_feed_schedule(store, settings, feed.id, NOW + 7200)
        assert explained.value is not None
        values[weighted] = explained.value
    # Three readers of a mean of 2 weigh 1.5, and advarss multiplies by 1 + .5·3; alone it is 1 + .5·1.
    assert values[True] / values[False] == pytest.approx(1.5 * 2.5 / 1.5)


async def test_the_explanation_of_a_feed_counts_its_bytes_where_they_are_scarce(
    world: QueryWorld, tmp_path: Path
) -> None:
    sizes = {"guardian": 30_000, "iris": 10_000}
    for name, size in sizes.items():
        feed = world.feeds[name]
        known = Known(feed.id, feed.url, last_refresh=NOW, last_success=NOW, validators=Validators('"a"'))
        refresh = Refresh(feed.id, NOW, Ending.CHANGED, status=200, bytes=size)
        await save_refreshes(world.store, [a_verdict(feed, known=known, refresh=refresh)])
    values = {}
    for name in sizes:
        for scarce in (True, False):
            settings = load_settings(data=tmp_path, strategy="advarss", budget=60, budget_bytes=100 if scarce else 1e9)
            told = await explain_feed_schedule(world.store, settings, world.feeds[name].id, NOW + 7200)
            assert told.value is not None
            values[name, scarce] = told.value
    # The ordinary document has 20,000 bytes, so that these cost 1.5 and .5.
    assert values["guardian", False] / values["guardian", True] == pytest.approx(1.5)
    assert values["iris", False] / values["iris", True] == pytest.approx(0.5)


async def test_strangers_count_up_to_a_limit_and_are_forgotten(world: QueryWorld) -> None:
    store = world.store
    await world.run('CREATE FEED Lava AS RETURN ALL WHERE TITLE CONTAINS "lava"')
    lava = (await store.read(find_query_feed, "Lava")).id
    many = [("/feeds/lava", n.to_bytes(8, "big")) for n in range(MAX_VISITORS + 50)]
    await store.write(add_document_readers, week_of(NOW), many)
    await store.write(add_document_readers, week_of(NOW), many[:9])
    assert await store.read(count_document_readers, NOW) == {"/feeds/lava": len(many)}
    assert (await store.read(load_readership, NOW)).query_visitors == {lava: MAX_VISITORS}
    await store.write(add_document_readers, week_of(NOW) + 1, many[:9])
    assert await store.read(count_document_readers, NOW + WEEK) == {"/feeds/lava": len(many)}  # a new week has begun
    await store.write(add_document_readers, week_of(NOW) + 2, [])
    assert await store.read(count_document_readers, NOW + 2 * WEEK) == {"/feeds/lava": 9}


async def test_the_first_query_of_a_server_without_feeds_is_no_error(tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'empty.sqlite'}") as store:
        world = QueryWorld(store)
        await world.run("CREATE FEED Everything AS RETURN ALL")
        await world.processor.load()
        await world.process()
        assert await settled(world, tmp_path) == {}


def test_readers_of_several_queries_over_a_feed_count_once() -> None:
    origins = {k: Origin(f"f{k}", f"https://{k}.example/") for k in range(4)}
    model = DemandModel({}, SourceScope(origins, {}), (), {}, Readership([(0, 7), (0, 8), (3, 7)], {}, {}, {3: 2}))
    assert model.count_readers(range(4)) == {0: 2, 1: 0, 2: 0, 3: 3}
    demand = model.compute_demand(dict.fromkeys(range(4), 1.0))
    assert [round(demand[k].weight, 3) for k in range(4)] == [1.143, 0.571, 0.571, 1.714]  # mean (2+1+1+3)/4
    assert demand[1].readers == 0


def test_bytes_cost_where_they_are_scarcer_than_requests() -> None:
    """Both 60 requests and the bytes of 60 documents may be spent per minute; with a tenth of the bytes, size
    decides.
    """
    size, seconds = np.array([FIRST_BYTES / 2, 2 * FIRST_BYTES, np.nan]), np.ones(3)
    ample = BudgetAccount(RequestCap(60.0, 60 * 10 * FIRST_BYTES))
    assert ample.compute_costs(size, seconds).tolist() == [1, 1, 1]
    assert ample.rate == 1.0
    scarce = BudgetAccount(RequestCap(60.0, 60 * FIRST_BYTES / 10))
    assert scarce.compute_costs(size, seconds).tolist() == [0.5, 2, 1]
    assert scarce.rate == 0.1  # ordinary refreshes a second
    busy = BudgetAccount(RequestCap(6000.0), fetches=10)
    busy.note_seconds(np.ones(5))
    assert busy.compute_costs(size, np.array([0.5, 3.0, 1.0])).tolist() == [0.5, 3, 1]
    assert busy.rate == 10.0
