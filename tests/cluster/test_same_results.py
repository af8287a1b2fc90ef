"""One farm gives the same items, matches, deliveries and promises on all three rungs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from cluster_in_process import roles, settings
from sqlalchemy import Connection, select

from headwater.assembly import build
from headwater.cluster.demo.servers import NatsServer
from headwater.farm.farm import Farm
from headwater.node.node import Node
from headwater.node.quality.promises import find_promise
from headwater.node.quality.targets import load_deadlines, load_outcomes
from headwater.store.content.feeds import NewFeed
from headwater.store.content.outbox import find_last_position, read_checkpoint
from headwater.store.content.refreshes import summarise_activity
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.schema.feed_tables import feed
from headwater.store.schema.item_tables import item
from headwater.store.schema.publication_tables import delivery
from headwater.store.schema.query_tables import hit
from support.databases import PostgresServer, sqlite_url

FEEDS = 8
STARTED = 1_800_000_000.0
QUERIES = """
CREATE FEED Everything AS RETURN ALL DELIVER TO WEBHOOK "http://127.0.0.1:9/hook";
CREATE FEED Some AS RETURN ALL WHERE TITLE CONTAINS "the" OR TITLE CONTAINS "a";
CREATE FEED Alarm AS RETURN ALL TARGET DELAY <= 5 MINUTES;
"""


@asynccontextmanager
async def rung0(folder: Path, **_: Any) -> AsyncIterator[Node]:
    async with build("node", settings(database=sqlite_url(folder), per_host=64)) as node:
        yield node


@asynccontextmanager
async def rung1(folder: Path, database: str, **_: Any) -> AsyncIterator[Node]:
    given = settings(database=database, per_host=64)
    async with AsyncExitStack() as stack:
        for name in ("one", "two"):
            node = await stack.enter_async_context(build("node", given.with_changes({"member": name})))
        yield node


@asynccontextmanager
async def rung2(folder: Path, database: str, nats: str, prefix: str) -> AsyncIterator[Node]:
    given = settings(database=database, nats=nats, nats_prefix=prefix, per_host=64)
    async with (
        roles(given, "controller", "storer", "processor", "publisher", "terminal"),
        build("web", given.with_changes({"member": "pages"})) as node,
    ):
        yield node


def everything(connection: Connection) -> dict[str, set[tuple[Any, ...]]]:
    """Return the items, matches and deliveries of the run, without ids and times."""
    of_item = (feed.c.url, item.c.identity)
    stored = select(*of_item, item.c.title, item.c.link, item.c.content_hash, item.c.version)
    stored = stored.join(feed, feed.c.id == item.c.feed_id)
    matches = select(hit.c.query_id, *of_item).join(item, item.c.id == hit.c.item_id)
    matches = matches.join(feed, feed.c.id == item.c.feed_id).where(hit.c.current)
    sent = select(delivery.c.query, delivery.c.kind, delivery.c.address, *of_item)
    sent = sent.join(item, item.c.id == delivery.c.item_id).join(feed, feed.c.id == item.c.feed_id)
    named = {"items": stored, "matches": matches, "deliveries": sent}
    return {name: {tuple(row) for row in connection.execute(query)} for name, query in named.items()}


async def run(make: Callable[..., Any], port: int, eventually: Any, **given: Any) -> tuple[dict[str, Any], int]:
    async with (
        Farm(FEEDS, 5, hints=False, port=port, clock=lambda: STARTED, rates=(5, 50)) as made,
        make(**given) as node,
    ):
        store = node.store
        await store.write(run_script, QUERIES, time.time())
        added = await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())

        async def refreshed() -> bool:
            return (await store.read(summarise_activity, time.time())).never_refreshed == 0

        await eventually(refreshed, "all feeds are refreshed")
        made.advance(2 * 86_400.0)
        for _ in range(2):  # a refresh already under way may answer the first
            await asyncio.gather(*(node.crawl.request_refresh(one.feed.id) for one in added))

        async def processed() -> bool:
            return await store.read(read_checkpoint, "queries") == await store.read(find_last_position)

        await eventually(processed, "everything has met the queries")

        async def promised() -> bool:
            known = (await load_outcomes(store)).get("Alarm")  # it begins without feeds
            there = known is not None and known.feeds == FEEDS and await load_deadlines(store)
            return bool(there) and await find_promise(store, "Alarm", time.time()) is not None

        await eventually(promised, "the target is promised and measured")
        targets = {(one.query, one.reached, one.feeds) for one in (await load_outcomes(store)).values()}
        hurried = {(one.query, one.seconds) for one in (await load_deadlines(store)).values()}
        return {**await store.read(everything), "targets": targets, "deadlines": hurried}, made.port


async def test_items_matches_deliveries_and_promises_are_the_same_on_every_rung(
    tmp_path: Path, postgres: PostgresServer, nats: NatsServer, prefix: str, eventually
) -> None:
    databases = [postgres.create(), postgres.create()]
    alone, port = await run(rung0, 0, eventually, folder=tmp_path)
    shared, _ = await run(rung1, port, eventually, folder=tmp_path, database=postgres.url(databases[0]))
    in_cluster = {"database": postgres.url(databases[1]), "nats": nats.url, "prefix": prefix}
    apart, _ = await run(rung2, port, eventually, folder=tmp_path, **in_cluster)
    for what in ("items", "matches", "deliveries"):
        assert len(alone[what]) > 2 * FEEDS, what
        assert alone[what] == shared[what] == apart[what], what
    for what in ("targets", "deadlines"):
        assert alone[what], what
        assert alone[what] == shared[what] == apart[what], what
    for name in databases:
        postgres.drop(name)
