"""In a network of two, each node follows a query feed of the other, and both push."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from pushing_source import PushingSource, source, until

from headwater.store.content.feeds import NewFeed, list_feeds
from headwater.store.content.items import list_items
from headwater.store.content.outbox import find_last_position, read_checkpoint
from headwater.store.content.refreshes import list_refreshes
from headwater.store.content.websub_leases import list_pushed_feeds
from headwater.store.opening import open_store
from headwater.store.publishing.private_feeds import set_private
from headwater.store.queries.hits import list_hits_after
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store


@dataclass
class NodeProcess:
    """A `headwater serve` process and its database."""

    name: str
    base: str
    store: Store

    @property
    def feed(self) -> str:
        return f"{self.base}/feeds/{self.name}.atom"

    async def titles(self) -> list[str]:
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self.base}/feeds/{self.name}.json")
            return [item["title"] for item in answer.json()["items"]] if answer.status_code == 200 else []

    async def follow(self, *addresses: str) -> None:
        await self.store.write(add_and_subscribe, [NewFeed(address) for address in addresses], time.time())

    async def pushed(self) -> bool:
        feeds = await self.store.read(list_feeds)
        return len(await self.store.read(list_pushed_feeds, time.time())) == len(feeds)

    async def hits(self) -> list[str | None]:
        query = await self.store.read(find_query_feed, self.name)
        return [hit.item.title for hit in await self.store.read(list_hits_after, query.id, after=0, limit=100)]


@asynccontextmanager
async def server(folder: Path, name: str) -> AsyncIterator[NodeProcess]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    given = {"HEADWATER_DATA": str(folder), "HEADWATER_ALLOW_PRIVATE": "1", "HEADWATER_PUBLIC_URL": base}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headwater", "serve", "--port", str(port), "--json", "--log-level", "warning"),
        env=os.environ | given,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert json.loads(await process.stdout.readuntil(b"}\n"))["url"] == f"{base}/"
    try:
        async with await open_store(f"sqlite:///{folder / 'headwater.sqlite'}") as store:
            text = f'CREATE FEED {name} AS RETURN ALL WHERE TITLE CONTAINS "lava"'
            await store.write(run_script, text, time.time())
            await store.write(set_private, f"/feeds/{name}", False)
            yield NodeProcess(name, base, store)
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def confirmed(*origins: PushingSource) -> None:
    """Let the sources' hubs confirm every subscriber."""

    async def asked() -> bool:
        return all(origin.asked for origin in origins)

    await until(asked, "both nodes ask the hubs of their sources")
    for origin in origins:
        assert (await origin.verify()).status_code == 200


async def test_two_nodes_push_to_each_other_and_recognise_returning_items(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        ours, theirs = [await stack.enter_async_context(source()) for _ in range(2)]
        starting = (stack.enter_async_context(server(tmp_path / name, name)) for name in ("one", "two"))
        one, two = await asyncio.gather(*starting)
        await one.follow(f"{ours.base}/feed.xml", two.feed)
        await two.follow(f"{theirs.base}/feed.xml", one.feed)
        await confirmed(ours, theirs)
        await until(one.pushed, "all feeds of the first are pushed")
        await until(two.pushed, "all feeds of the second are pushed")
        assert (await ours.push("lava here")).status_code == 200
        assert (await theirs.push("lava there")).status_code == 200
        both = {"lava here", "lava there"}

        async def arrived() -> bool:
            return set(await one.titles()) == set(await two.titles()) == both

        await until(arrived, "both have both")

        async def came_back() -> bool:
            return all([sorted(map(str, await returned(node))) == sorted(both) for node in (one, two)])

        await until(came_back, "what each has published comes back from the other")
        for node in (one, two):
            assert sorted(await node.titles()) == sorted(both)
            assert sorted(map(str, await node.hits())) == sorted(both)  # once each
            other = (await node.store.read(list_feeds))[1]
            reasons = [refresh.reason for refresh in await node.store.read(list_refreshes, other.id) if refresh.new]
            assert set(reasons) == {"pushed by its hub"}


async def returned(node: NodeProcess) -> list[str | None]:
    """Return the items that came from the other node and have been matched."""
    if await node.store.read(read_checkpoint, "queries") < await node.store.read(find_last_position):
        return []
    return [item.title for item in await node.store.read(list_items, feed_id=(await node.store.read(list_feeds))[1].id)]
