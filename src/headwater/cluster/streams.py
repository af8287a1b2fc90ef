"""The streams of a cluster in NATS JetStream, and making them where they are missing.

| stream | subjects | kept | |
|---|---|---|---|
| JOBS | jobs.<p>.<feed> | in memory | work queue; one message per subject: a second job for a feed is refused |
| RESULTS | res.<p> | on disk | work queue; full means refused, which stops terminals and then the controller |
| ITEMS | it.<p>.<feed> | on disk | three days; several in a message, message id = positions in the outbox |
| OUT | out.<sink> | on disk | work queue; one consumer per kind of sink |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from headwater.cluster.acks import Acks, Message
from headwater.cluster.partition import PARTITIONS
from headwater.cluster.patience import Patience
from headwater.cluster.refusals import Refused
from headwater.cluster.timing import Timing
from headwater.errors import ClusterError

BUFFERS = ("JOBS", "RESULTS", "OUT")  # streams that empty when nothing is behind
KINDS = ("email", "webhook", "notify")
RESULTS_BYTES = 1 << 30
JOBS_BYTES = 64 << 20
OUT_BYTES = 64 << 20
ITEMS_AGE = 3 * 86_400.0
DUPLICATES = 600.0  # seconds within which NATS recognises a message by its id
MOST_DELIVERED = 3
STORERS = "storers"  # the consumer of RESULTS
CLUSTER = "headwater"  # the key of our identity in the streams' metadata

log = structlog.get_logger()


class Streams:
    """Names and definitions, under a prefix where several clusters share a NATS."""

    def __init__(self, link: Any, prefix: str, timing: Timing, replicas: int = 1) -> None:
        self.link = link
        self.context = link.jetstream(timeout=5)
        self.patience = Patience(link)
        self._acks = Acks(link)
        self.timing = timing
        self._prefix = prefix
        self._replicas = replicas

    def stream(self, name: str) -> str:
        return f"{self._prefix}-{name}" if self._prefix else name

    def subject(self, subject: str) -> str:
        return f"{self._prefix}.{subject}" if self._prefix else subject

    def strip(self, subject: str) -> str:
        return subject.removeprefix(f"{self._prefix}.") if self._prefix else subject

    async def publish(self, messages: Sequence[Message]) -> list[bool]:
        """In their order; False for one whose subject has the one message that it may have. Refused with what else a
        stream says against one; what else goes wrong is for `patience` to explain, too."""
        said = await self._acks.publish(messages)
        for one in said:
            if one is not None and not one.one_is_there:
                raise Refused(one)
        return [one is None for one in said]

    async def identity(self) -> str | None:
        """Which cluster the streams belong to; None where there are none."""
        from nats.js.errors import NotFoundError

        try:
            info = await self.context.stream_info(self.stream("RESULTS"))
        except NotFoundError:
            return None
        metadata: Mapping[str, str] = info.config.metadata or {}
        return metadata.get(CLUSTER)

    async def ensure(self, identity: str) -> list[str]:
        """Make what is missing; the names of what was. ClusterError where the streams are another cluster's."""
        there = await self.identity()
        if there is not None and there != identity:
            raise ClusterError(
                f"The streams {self.stream('RESULTS')} … at this NATS belong to another cluster. Give this one its own "
                "names by --nats-prefix, or its own NATS."
            )
        made = [str(config.name) for config in self._configs(identity) if await self._made(config)]
        if await self._make_consumers():
            made.append("consumers")
        return made

    async def _made(self, config: Any) -> bool:
        from nats.js.errors import NotFoundError

        try:
            await self.context.stream_info(config.name)
        except NotFoundError:
            await self.context.add_stream(config)
            return True
        return False

    def _configs(self, identity: str) -> list[Any]:
        from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

        common: dict[str, Any] = {"num_replicas": self._replicas, "metadata": {CLUSTER: identity}}
        queue: dict[str, Any] = {"retention": RetentionPolicy.WORK_QUEUE, "discard": DiscardPolicy.NEW}
        return [
            StreamConfig(
                name=self.stream("JOBS"),
                subjects=[self.subject("jobs.*.*")],
                storage=StorageType.MEMORY,
                max_msgs_per_subject=1,
                discard_new_per_subject=True,
                max_bytes=JOBS_BYTES,
                **queue,
                **common,
            ),
            StreamConfig(
                name=self.stream("RESULTS"),
                subjects=[self.subject("res.*")],
                storage=StorageType.FILE,
                max_bytes=RESULTS_BYTES,
                duplicate_window=DUPLICATES,
                **queue,
                **common,
            ),
            StreamConfig(
                name=self.stream("ITEMS"),
                subjects=[self.subject("it.*.*")],
                storage=StorageType.FILE,
                max_age=ITEMS_AGE,
                duplicate_window=DUPLICATES,
                **common,
            ),
            StreamConfig(
                name=self.stream("OUT"),
                subjects=[self.subject("out.*")],
                storage=StorageType.FILE,
                max_bytes=OUT_BYTES,
                duplicate_window=DUPLICATES,
                **queue,
                **common,
            ),
        ]

    async def _make_consumers(self) -> bool:
        from nats.js.api import ConsumerConfig

        made = False
        jobs = await self.context.stream_info(self.stream("JOBS"))
        if jobs.state.consumer_count < PARTITIONS:
            made = True
            for p in range(PARTITIONS):
                config = ConsumerConfig(
                    durable_name=consumer(p),
                    filter_subject=self.subject(f"jobs.{p}.*"),
                    ack_wait=self.timing.ack,
                    max_deliver=MOST_DELIVERED,
                    max_waiting=64,
                    mem_storage=True,
                )
                await self.context.add_consumer(self.stream("JOBS"), config)
        results = await self.context.stream_info(self.stream("RESULTS"))
        if not results.state.consumer_count:
            made = True
            config = ConsumerConfig(durable_name=STORERS, ack_wait=self.timing.lease, max_ack_pending=20_000)
            await self.context.add_consumer(self.stream("RESULTS"), config)
        out = await self.context.stream_info(self.stream("OUT"))
        if out.state.consumer_count < len(KINDS):
            made = True
            for kind in KINDS:
                config = ConsumerConfig(
                    durable_name=kind, filter_subject=self.subject(f"out.{kind}"), ack_wait=120.0, max_deliver=5
                )
                await self.context.add_consumer(self.stream("OUT"), config)
        return made

    async def waiting(self, name: str) -> int:
        """Messages in a stream. Of results, those that storers have not acknowledged: when NATS is killed it can keep
        messages that were, which nobody gets any more."""
        if name == "RESULTS":
            return (await self.stored())[1]
        info = await self.context.stream_info(self.stream(name))
        return int(info.state.messages)

    async def stored(self) -> tuple[int, int]:
        """The number up to which all results are stored, and how many are not; nothing waits where nobody asks yet."""
        from nats.js.errors import NotFoundError

        try:
            info = await self.context.consumer_info(self.stream("RESULTS"), STORERS)
        except NotFoundError:  # it is made anew soon
            return 0, 0
        floor = info.ack_floor.stream_seq if info.ack_floor is not None else 0
        return int(floor), int(info.num_pending or 0) + int(info.num_ack_pending or 0)

    async def newest(self, name: str) -> int:
        """The number of the last message there was."""
        from nats.js.errors import NotFoundError

        try:
            return int((await self.context.stream_info(self.stream(name))).state.last_seq)
        except NotFoundError:  # it is made anew soon
            return 0

    async def subjects(self, name: str, under: str) -> list[str]:
        """Of the messages in a stream."""
        from nats.js.errors import NotFoundError

        try:
            info = await self.context.stream_info(self.stream(name), subjects_filter=self.subject(under))
        except NotFoundError:
            return []
        return list(info.state.subjects or ())

    async def present(self) -> bool:
        """Whether every stream is there with its consumers."""
        from nats.js.errors import NotFoundError

        try:
            jobs = await self.context.stream_info(self.stream("JOBS"))
            for name in ("RESULTS", "ITEMS", "OUT"):
                await self.context.stream_info(self.stream(name))
        except NotFoundError:
            return False
        return int(jobs.state.consumer_count) >= PARTITIONS


def consumer(partition: int) -> str:
    """The durable consumer of a partition's jobs."""
    return f"p{partition:03}"
