"""What is left in the streams of a cluster that does not come to rest, by stream and consumer: to find out why."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.cluster.streams import BUFFERS, NatsStreams

CONSUMER_PAGE = 256  # consumers that NATS tells at once


@dataclass(frozen=True, slots=True)
class StreamBacklog:
    """A stream, or a consumer of it: `pending` was never given out, `ack_pending` was and is not done, `redelivered` of
    these were given out more than once. For a stream (`consumer` is None) there is only how many messages it has."""

    stream: str
    consumer: str | None
    messages: int
    pending: int = 0
    ack_pending: int = 0
    redelivered: int = 0

    def __str__(self) -> str:
        if self.consumer is None:
            return f"{self.stream}: {self.messages} messages"
        return (
            f"{self.stream} {self.consumer}: {self.pending} pending, {self.ack_pending} ack pending, "
            f"{self.redelivered} redelivered"
        )


async def list_backlog(streams: NatsStreams) -> list[StreamBacklog]:
    """Everything that is not empty, each stream before its consumers."""
    found: list[StreamBacklog] = []
    for name in BUFFERS:
        there = (await streams.context.stream_info(streams.stream_name(name))).state
        consumers: list[StreamBacklog] = []
        for offset in range(0, there.consumer_count, CONSUMER_PAGE):
            for one in await streams.context.consumers_info(streams.stream_name(name), offset):
                counts = (int(one.num_pending or 0), int(one.num_ack_pending or 0), int(one.num_redelivered or 0))
                if any(counts):
                    consumers.append(StreamBacklog(name, one.name, 0, *counts))
        if there.messages or consumers:
            found += [StreamBacklog(name, None, int(there.messages)), *consumers]
    return found
