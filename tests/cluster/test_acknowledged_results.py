"""Results that a killed NATS keeps although they were acknowledged block nothing."""

from __future__ import annotations

from nats.js.api import StreamConfig

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_dispatch import NatsJobSender
from headwater.cluster.transport.nats_streams import CLUSTER_ID_KEY, STORER_CONSUMER, NatsStreams
from headwater.store.store import Store


async def test_what_was_acknowledged_does_not_wait_though_it_is_there(nats, prefix: str, store: Store) -> None:
    link = await connect_nats(nats.url, "test")
    streams = NatsStreams(link, prefix, LeaseTiming())
    # A stream that keeps everything stands for a NATS that was killed before it had written its deletions.
    kept = StreamConfig(
        name=streams.stream_name("RESULTS"), subjects=[streams.full_subject("res.*")], metadata={CLUSTER_ID_KEY: "us"}
    )
    await streams.context.add_stream(kept)
    await streams.ensure_streams("us")
    outgoing = NatsJobSender(streams, store, lambda: True)
    for _ in range(3):
        await streams.context.publish(streams.full_subject("res.7"), b"a result")
    assert await outgoing.find_newest_result() == 3
    assert (await outgoing.count_backlog(), await outgoing.is_stored_up_to(2)) == (3, False)
    storer = await streams.context.pull_subscribe_bind(STORER_CONSUMER, streams.stream_name("RESULTS"))
    first, second, third = await storer.fetch(3)
    await first.ack_sync()
    await second.ack_sync()
    assert (await outgoing.count_backlog(), await outgoing.is_stored_up_to(2), await outgoing.is_stored_up_to(3)) == (
        1,
        True,
        False,
    )
    await third.ack_sync()
    assert (await streams.context.stream_info(streams.stream_name("RESULTS"))).state.messages == 3
    assert (
        await outgoing.count_backlog(),
        await outgoing.is_stored_up_to(3),
        await streams.count_waiting("RESULTS"),
    ) == (0, True, 0)
    await link.close()
