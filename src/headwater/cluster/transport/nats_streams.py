"""Makes and inspects the streams of a cluster in NATS JetStream.

| stream | subjects | kept | |
|---|---|---|---|
| JOBS | jobs.<p>.<feed> | in memory | work queue; one message per subject: a second job for a feed is refused |
| RESULTS | res.<p> | on disk | work queue; full means refused, which stops terminals and then the controller |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partitions import PARTITIONS
from headwater.cluster.transport.nats_errors import PublishRefused
from headwater.cluster.transport.nats_publisher import NatsPublisher, OutgoingMessage
from headwater.cluster.transport.nats_retry import NatsRetry
from headwater.errors import ClusterError

BUFFERS = ("JOBS", "RESULTS")  # empty when nothing waits
RESULTS_BYTES = 1 << 30
JOBS_BYTES = 64 << 20
DUPLICATE_SECONDS = 600.0  # within which NATS recognises a message by its id
MAX_DELIVERIES = 3
STORER_CONSUMER = "storers"  # the consumer of RESULTS
CLUSTER_ID_KEY = "headwater"  # in the metadata of the streams

log = structlog.get_logger()


class NatsStreams:
    """The streams of one cluster; a prefix keeps apart several clusters on one NATS."""

    def __init__(self, link: Any, prefix: str, timing: LeaseTiming) -> None:
        self.link = link
        self.context = link.jetstream(timeout=5)
        self.retry = NatsRetry(link)
        self._publisher = NatsPublisher(link)
        self.timing = timing
        self._prefix = prefix

    def stream_name(self, name: str) -> str:
        return f"{self._prefix}-{name}" if self._prefix else name

    def full_subject(self, subject: str) -> str:
        return f"{self._prefix}.{subject}" if self._prefix else subject

    def strip_prefix(self, subject: str) -> str:
        return subject.removeprefix(f"{self._prefix}.") if self._prefix else subject

    async def publish_messages(self, messages: Sequence[OutgoingMessage]) -> list[bool]:
        """Publish messages in order; False for one whose subject already has its one message.

        Raises PublishRefused for any other refusal; `retry` explains that and all other errors.
        """
        refusals = await self._publisher.publish_all(messages)
        for one in refusals:
            if one is not None and not one.is_duplicate:
                raise PublishRefused(one)
        return [one is None for one in refusals]

    async def read_cluster_id(self) -> str | None:
        """Return the id of the cluster that the streams belong to, or None if there are none."""
        from nats.js.errors import NotFoundError

        try:
            info = await self.context.stream_info(self.stream_name("RESULTS"))
        except NotFoundError:
            return None
        metadata: Mapping[str, str] = info.config.metadata or {}
        return metadata.get(CLUSTER_ID_KEY)

    async def ensure_streams(self, cluster_id: str) -> list[str]:
        """Make missing streams and consumers; return the names of those made. ClusterError if the streams are another
        cluster's."""
        there = await self.read_cluster_id()
        if there is not None and there != cluster_id:
            raise ClusterError(
                f"The streams {self.stream_name('RESULTS')} … at this NATS belong to another cluster. Give this one "
                "its own names by --nats-prefix, or its own NATS. If the other database is gone, delete the streams."
            )
        made = [str(config.name) for config in self._list_configs(cluster_id) if await self._make_stream(config)]
        if await self._make_consumers():
            made.append("consumers")
        return made

    async def _make_stream(self, config: Any) -> bool:
        from nats.js.errors import NotFoundError

        try:
            await self.context.stream_info(config.name)
        except NotFoundError:
            await self.context.add_stream(config)
            return True
        return False

    def _list_configs(self, cluster_id: str) -> list[Any]:
        from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

        common: dict[str, Any] = {"num_replicas": 1, "metadata": {CLUSTER_ID_KEY: cluster_id}}
        queue: dict[str, Any] = {"retention": RetentionPolicy.WORK_QUEUE, "discard": DiscardPolicy.NEW}
        return [
            StreamConfig(
                name=self.stream_name("JOBS"),
                subjects=[self.full_subject("jobs.*.*")],
                storage=StorageType.MEMORY,
                max_msgs_per_subject=1,
                discard_new_per_subject=True,
                max_bytes=JOBS_BYTES,
                **queue,
                **common,
            ),
            StreamConfig(
                name=self.stream_name("RESULTS"),
                subjects=[self.full_subject("res.*")],
                storage=StorageType.FILE,
                max_bytes=RESULTS_BYTES,
                duplicate_window=DUPLICATE_SECONDS,
                **queue,
                **common,
            ),
        ]

    async def _make_consumers(self) -> bool:
        from nats.js.api import ConsumerConfig

        made = False
        jobs = await self.context.stream_info(self.stream_name("JOBS"))
        if jobs.state.consumer_count < PARTITIONS:
            made = True
            for p in range(PARTITIONS):
                config = ConsumerConfig(
                    durable_name=consumer_name(p),
                    filter_subject=self.full_subject(f"jobs.{p}.*"),
                    ack_wait=self.timing.ack_seconds,
                    max_deliver=MAX_DELIVERIES,
                    max_waiting=64,
                    mem_storage=True,
                )
                await self.context.add_consumer(self.stream_name("JOBS"), config)
        results = await self.context.stream_info(self.stream_name("RESULTS"))
        if not results.state.consumer_count:
            made = True
            config = ConsumerConfig(durable_name=STORER_CONSUMER, ack_wait=self.timing.lease, max_ack_pending=20_000)
            await self.context.add_consumer(self.stream_name("RESULTS"), config)
        return made

    async def count_waiting(self, name: str) -> int:
        """Count the messages in a stream; of RESULTS only those not acknowledged.

        A NATS that was killed may keep acknowledged messages, which nobody gets any more.
        """
        if name == "RESULTS":
            return (await self.read_ack_floor())[1]
        info = await self.context.stream_info(self.stream_name(name))
        return int(info.state.messages)

    async def read_ack_floor(self) -> tuple[int, int]:
        """Return the number up to which all results are stored, and how many are not; (0, 0) without a consumer."""
        from nats.js.errors import NotFoundError

        try:
            info = await self.context.consumer_info(self.stream_name("RESULTS"), STORER_CONSUMER)
        except NotFoundError:  # it is made anew soon
            return 0, 0
        floor = info.ack_floor.stream_seq if info.ack_floor is not None else 0
        return int(floor), int(info.num_pending or 0) + int(info.num_ack_pending or 0)

    async def find_newest(self, name: str) -> int:
        """Return the number of the last message of a stream."""
        from nats.js.errors import NotFoundError

        try:
            return int((await self.context.stream_info(self.stream_name(name))).state.last_seq)
        except NotFoundError:  # it is made anew soon
            return 0

    async def list_subjects(self, name: str, under: str) -> list[str]:
        """List the subjects of the messages in a stream."""
        from nats.js.errors import NotFoundError

        try:
            info = await self.context.stream_info(self.stream_name(name), subjects_filter=self.full_subject(under))
        except NotFoundError:
            return []
        return list(info.state.subjects or ())

    async def are_present(self) -> bool:
        """Whether every stream is there with its consumers."""
        from nats.js.errors import NotFoundError

        try:
            jobs = await self.context.stream_info(self.stream_name("JOBS"))
            await self.context.stream_info(self.stream_name("RESULTS"))
        except NotFoundError:
            return False
        return int(jobs.state.consumer_count) >= PARTITIONS


def consumer_name(partition: int) -> str:
    """Return the name of the durable consumer of a partition's jobs."""
    return f"p{partition:03}"


CONSUMER_PAGE = 256  # consumers that NATS lists at once


@dataclass(frozen=True, slots=True)
class StreamBacklog:
    """The messages of a stream (`consumer` is None), or those that wait for one of its consumers.

    `pending` were never delivered, `ack_pending` were and are not acknowledged, `redelivered` of these more than once.
    """

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
    """List all streams and consumers with waiting messages, each stream before its consumers."""
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
