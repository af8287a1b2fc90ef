"""Results that NATS keeps although they were acknowledged, as it can after kill −9, hold nobody up."""

from __future__ import annotations

from nats.js.api import StreamConfig

from headwater.cluster.by_nats import NatsOutgoing
from headwater.cluster.link import connect
from headwater.cluster.streams import CLUSTER, STORERS, Streams
from headwater.cluster.timing import Timing
from headwater.store.store import Store


async def test_what_was_acknowledged_does_not_wait_though_it_is_there(nats, prefix: str, store: Store) -> None:
    link = await connect(nats.url, "test")
    streams = Streams(link, prefix, Timing())
    # A stream that keeps everything stands for one that was killed before it had written what it had let go.
    kept = StreamConfig(name=streams.stream("RESULTS"), subjects=[streams.subject("res.*")], metadata={CLUSTER: "us"})
    await streams.context.add_stream(kept)
    await streams.ensure("us")
    outgoing = NatsOutgoing(streams, store, lambda: True)
    for _ in range(3):
        await streams.context.publish(streams.subject("res.7"), b"a result")
    assert await outgoing.newest() == 3
    assert (await outgoing.unstored(), await outgoing.stored(2)) == (3, False)
    storer = await streams.context.pull_subscribe_bind(STORERS, streams.stream("RESULTS"))
    first, second, third = await storer.fetch(3)
    await first.ack_sync()
    await second.ack_sync()
    assert (await outgoing.unstored(), await outgoing.stored(2), await outgoing.stored(3)) == (1, True, False)
    await third.ack_sync()
    assert (await streams.context.stream_info(streams.stream("RESULTS"))).state.messages == 3
    assert (await outgoing.unstored(), await outgoing.stored(3), await streams.waiting("RESULTS")) == (0, True, 0)
    await link.close()
