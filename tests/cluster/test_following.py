"""Who follows the items gets every one in order: from the stream, and where that has lost some, from the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cluster_in_process import streams_at

from headwater.cluster.items import RELAY, Followed, Relay
from headwater.cluster.servers import NatsServer
from headwater.cluster.streams import Streams
from headwater.model import Feed
from headwater.store import leases
from headwater.store.store import Store
from store_samples import NOW, a_verdict, an_item, one_feed


async def more(store: Store, feed: Feed, first: int, last: int) -> None:
    for k in range(first, last + 1):
        await store.save([a_verdict(feed, an_item(feed.id, f"{k}"), at=NOW + k)])


@asynccontextmanager
async def relaying(streams: Streams, store: Store) -> AsyncIterator[None]:
    """The outbox goes to the stream while the block runs."""
    held = await store.write(leases.take, RELAY, "test", 600.0)
    assert held is not None
    over = asyncio.Event()
    running = asyncio.create_task(Relay(streams, store).run(held, over))
    try:
        yield
    finally:
        over.set()
        await running


async def relayed(store: Store) -> bool:
    return await store.checkpoint(RELAY) == await store.outbox_end()


async def all_of(followed: Followed, after: int, goal: int) -> list[str]:
    """Identities as they come, a few at a time."""
    found: list[str] = []
    async with asyncio.timeout(60):
        while len(found) < goal:
            for entry in await followed.read(after, 7):
                assert entry.position > after
                after = entry.position
                found.append(entry.item.identity)
    return found


def names(first: int, last: int) -> list[str]:
    return [str(k) for k in range(first, last + 1)]


async def test_a_new_follower_catches_up_from_the_stream_and_one_that_restarts_goes_on_where_it_was(
    store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    feed = await one_feed(store)
    async with streams_at(nats.url, prefix, "us") as streams, relaying(streams, store):
        await more(store, feed, 1, 20)
        await eventually(lambda: relayed(store), "all is in the stream")
        first = Followed(streams, store)
        assert await all_of(first, 0, 20) == names(1, 20)
        assert (first.counts["from_stream"], first.counts["from_database"]) == (20, 0)
        await first.close()
        middle = (await store.outbox(0, 12))[-1].position
        again = Followed(streams, store)
        assert await all_of(again, middle, 8) == names(13, 20)
        await more(store, feed, 21, 25)
        assert await all_of(again, await store.outbox_end() - 5, 5) == names(21, 25)
        await again.close()


async def test_what_the_stream_has_lost_comes_from_the_database_and_the_rest_from_the_stream(
    store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    feed = await one_feed(store)
    async with streams_at(nats.url, prefix, "us") as streams, relaying(streams, store):
        await more(store, feed, 1, 20)
        await eventually(lambda: relayed(store), "all is in the stream")
        await streams.context.purge_stream(streams.stream("ITEMS"), seq=15)  # as after three days
        followed = Followed(streams, store)
        assert await all_of(followed, 0, 20) == names(1, 20)
        assert followed.counts["from_database"] >= 14
        assert followed.counts["from_stream"] > 0
        await streams.context.delete_stream(streams.stream("ITEMS"))
        end = await store.outbox_end()
        await more(store, feed, 21, 23)
        assert await all_of(followed, end, 3) == names(21, 23)
        await streams.ensure("us")  # else the relay, which waits for the stream, does not end
        await followed.close()
