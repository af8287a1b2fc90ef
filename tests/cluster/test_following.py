"""Who follows the items gets every one in order: from the stream, and where that has lost some, from the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cluster_in_process import streams_at

from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.items import PIECE, RELAY, Announced, Followed, Relay, pieces, read_announced
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.wire_messages import encode
from headwater.model import Feed
from headwater.store import cluster_leases
from headwater.store.content.outbox import OutboxEntry, find_last_position, list_outbox_entries, read_checkpoint
from headwater.store.content.verdicts import save_refreshes
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item, one_feed


async def more(store: Store, feed: Feed, first: int, last: int) -> None:
    for k in range(first, last + 1):
        await save_refreshes(store, [a_verdict(feed, an_item(feed.id, f"{k}"), at=NOW + k)])


@asynccontextmanager
async def relaying(streams: NatsStreams, store: Store) -> AsyncIterator[None]:
    """The outbox goes to the stream while the block runs."""
    held = await store.write(cluster_leases.acquire_lease, RELAY, "test", 600.0)
    assert held is not None
    over = asyncio.Event()
    running = asyncio.create_task(Relay(streams, store).run(held, over))
    try:
        yield
    finally:
        over.set()
        await running


async def relayed(store: Store) -> bool:
    return await store.read(read_checkpoint, RELAY) == await store.read(find_last_position)


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
        middle = (await store.read(list_outbox_entries, 0, 12))[-1].position
        again = Followed(streams, store)
        assert await all_of(again, middle, 8) == names(13, 20)
        await more(store, feed, 21, 25)
        assert await all_of(again, await store.read(find_last_position) - 5, 5) == names(21, 25)
        await again.close()


async def test_what_the_stream_has_lost_comes_from_the_database_and_the_rest_from_the_stream(
    store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    feed = await one_feed(store)
    async with streams_at(nats.url, prefix, "us") as streams, relaying(streams, store):
        await more(store, feed, 1, 14)
        await eventually(lambda: relayed(store), "all is in the stream")
        await streams.context.purge_stream(streams.stream_name("ITEMS"))  # as after three days
        await more(store, feed, 15, 20)
        await eventually(lambda: relayed(store), "all is in the stream")
        followed = Followed(streams, store)
        assert await all_of(followed, 0, 20) == names(1, 20)
        assert followed.counts["from_database"] >= 14
        assert followed.counts["from_stream"] > 0
        await streams.context.delete_stream(streams.stream_name("ITEMS"))
        end = await store.read(find_last_position)
        await more(store, feed, 21, 23)
        assert await all_of(followed, end, 3) == names(21, 23)
        await streams.ensure_streams("us")  # else the relay, which waits for the stream, does not end
        await followed.close()


async def entries(store: Store, feed: Feed, *lengths: int) -> list[OutboxEntry]:
    """Items with texts of these lengths, written together."""
    items = [an_item(feed.id, f"{k}", content="x" * length) for k, length in enumerate(lengths, 1)]
    await save_refreshes(store, [a_verdict(feed, *items, at=NOW)])
    return await store.read(list_outbox_entries, 0, len(lengths))


async def test_what_was_written_together_goes_in_few_messages_and_what_is_too_large_for_any_comes_from_the_database(
    store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    feed = await one_feed(store)
    found = await entries(store, feed, 10, PIECE // 2, PIECE // 2, 10, 3 * PIECE, 10, 9 * PIECE, 10, 10)
    cut = list(pieces(found, 0, 8 * PIECE))
    said = [[one.entry.item.identity for one in read_announced(body)] for _, _, body in cut]
    assert said == [["1", "2"], ["3", "4"], ["5"], ["6"], ["8", "9"]]
    assert len({identity for _, identity, _ in cut}) == len(cut)
    async with streams_at(nats.url, prefix, "us") as streams:
        await deliver(streams, [body for _, _, body in cut])
        followed = Followed(streams, store)
        assert await all_of(followed, 0, 9) == names(1, 9)
        assert followed.counts["from_stream"] >= 6
        assert followed.counts["from_database"] > 0
        await followed.close()


async def test_messages_of_an_older_relay_and_what_is_told_again_otherwise_cut_are_understood(
    store: Store, nats: NatsServer, prefix: str
) -> None:
    feed = await one_feed(store)
    found = await entries(store, feed, *[10] * 12)
    before = [0, *(entry.position for entry in found)]
    one_by_one = [encode(Announced(entry, before[k])) for k, entry in enumerate(found[:5])]
    [(_, _, again)] = pieces(found[2:8], found[1].position, PIECE)  # by a relay that died before it could note them
    [(_, _, more)] = pieces(found[2:], found[1].position, PIECE)
    async with streams_at(nats.url, prefix, "us") as streams:
        await deliver(streams, [*one_by_one, again, more])
        followed = Followed(streams, store)
        assert await all_of(followed, 0, 12) == names(1, 12)
        assert (followed.counts["from_stream"], followed.counts["from_database"]) == (12, 0)
        await followed.close()


async def deliver(streams: NatsStreams, bodies: Sequence[bytes]) -> None:
    messages = [(streams.full_subject("it.0.1"), body, None) for body in bodies]
    assert await streams.publish_messages(messages) == [True] * len(bodies)
