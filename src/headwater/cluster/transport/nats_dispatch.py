"""Publishes jobs by NATS and grants partitions to terminals: the leader's side of the transport."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import orjson
import structlog

from headwater.cluster.leases.partitions import PARTITIONS, leave_cluster, renew_partitions
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.postgres_transport import GIVEN_UP
from headwater.cluster.transport.wire_messages import Grant, encode, read_hello
from headwater.errors import ClusterError
from headwater.loops import RepeatFilter
from headwater.node.crawl.transport import Job
from headwater.store import cluster_jobs
from headwater.store.store import Store

MAX_CONCURRENT = 256  # jobs published at once
MAX_REFUSALS = 2

log = structlog.get_logger()


class NatsJobSender:
    """Publishes the leader's jobs, while its lease is `valid`; the broker refuses a second one for a feed."""

    def __init__(self, streams: NatsStreams, store: Store, valid: Callable[[], bool]) -> None:
        self._streams = streams
        self._store = store
        self._is_valid = valid
        self._refused: dict[int, int] = {}

    async def send_jobs(self, given: Sequence[Job]) -> set[int]:
        taken: set[int] = set()
        for start in range(0, len(given), MAX_CONCURRENT):
            if not self._is_valid():
                raise ClusterError("The controller's lease could not be renewed: no jobs are given out.")
            part = given[start : start + MAX_CONCURRENT]
            for job, done in zip(part, await publish_jobs(self._streams, part), strict=True):
                if done:
                    taken.add(job.feed_id)
                    self._refused.pop(job.feed_id, None)
                else:
                    await self._count_refusal(job)
        return taken

    async def _count_refusal(self, job: Job) -> None:
        """Quarantine the job that blocks this one, if it is refused again: NATS no longer delivers that job."""
        self._refused[job.feed_id] = self._refused.get(job.feed_id, 0) + 1
        if self._refused[job.feed_id] >= MAX_REFUSALS:
            del self._refused[job.feed_id]
            subject = self._streams.full_subject(f"jobs.{job.partition}.{job.feed_id}")
            await quarantine_last(self._streams, self._store, "JOBS", subject)

    async def count_backlog(self) -> int:
        return await self._streams.count_waiting("RESULTS")

    async def list_in_flight(self) -> set[int]:
        subjects = await self._streams.list_subjects("JOBS", "jobs.*.*")
        return {found[1] for subject in subjects if (found := parse_job_subject(subject)) is not None}

    async def find_newest_result(self) -> int:
        return await self._streams.find_newest("RESULTS")

    async def is_stored_up_to(self, number: int) -> bool:
        upto, waiting = await self._streams.read_ack_floor()
        return upto >= number or waiting == 0


async def publish_jobs(streams: NatsStreams, given: Sequence[Job]) -> list[bool]:
    """Publish jobs; False for one whose feed has a job in that partition already. Raises ClusterError."""
    return await streams.retry.run_once("jobs", "JOBS", partial(publish_jobs_once, streams, given))


async def publish_jobs_once(streams: NatsStreams, given: Sequence[Job]) -> list[bool]:
    return await streams.publish_messages(
        [(streams.full_subject(f"jobs.{job.partition}.{job.feed_id}"), encode(job), None) for job in given]
    )


def parse_job_subject(subject: str) -> tuple[int, int] | None:
    """Return partition and feed of a job's subject; None for one that no controller writes.

    >>> parse_job_subject("jobs.7.12"), parse_job_subject("one.jobs.7.-3"), parse_job_subject("jobs.999.12")
    ((7, 12), (7, -3), None)
    """
    try:
        partition, feed = map(int, subject.split(".")[-2:])
    except ValueError:
        return None
    return (partition, feed) if 0 <= partition < PARTITIONS else None


async def quarantine_stray_jobs(streams: NatsStreams, store: Store) -> None:
    """Quarantine jobs that no terminal ever gets, because their subjects are wrong."""
    for subject in await streams.list_subjects("JOBS", "jobs.*.*"):
        if parse_job_subject(subject) is None:
            await quarantine_last(streams, store, "JOBS", subject)


async def quarantine_last(streams: NatsStreams, store: Store, stream: str, subject: str) -> None:
    """Move the last message of a subject from the stream to the quarantine."""
    from nats.js.errors import NotFoundError

    try:
        message = await streams.context.get_last_msg(streams.stream_name(stream), subject)
    except NotFoundError:
        return
    await _quarantine_message(streams, store, stream, message)


async def _quarantine_message(streams: NatsStreams, store: Store, stream: str, message: Any) -> None:
    log.error("message_quarantined", subject=message.subject)
    await store.write(
        cluster_jobs.quarantine_message,
        streams.strip_prefix(message.subject),
        message.data or b"",
        GIVEN_UP,
    )
    await streams.context.delete_msg(streams.stream_name(stream), message.seq)


OTHER_VERSION = (
    "The controller is of another version and does not understand this terminal. Install the same version here."
)


class PartitionDesk:
    """Grants partitions to terminals that ask by NATS. The leader runs it, with its fenced store."""

    def __init__(self, streams: NatsStreams, store: Store) -> None:
        self._streams = streams
        self._store = store
        self._repeat_filter = RepeatFilter()

    async def run(self, over: asyncio.Event) -> None:
        subject = self._streams.full_subject("terminals")
        given_up = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{self._streams.stream_name('JOBS')}.>"
        greeting = await self._streams.link.subscribe(subject, cb=self._receive_hello)
        advising = await self._streams.link.subscribe(given_up, cb=self._quarantine_undelivered)
        try:
            await over.wait()
        finally:
            for subscription in (greeting, advising):
                if not self._streams.link.is_closed:
                    await subscription.unsubscribe()

    async def _receive_hello(self, message: Any) -> None:
        asyncio.get_running_loop().create_task(self._answer_hello(message))

    async def _answer_hello(self, message: Any) -> None:
        try:
            hello = read_hello(message.data)
            if hello.leaving:
                await self._store.write(leave_cluster, hello.report.name, hello.drained)
                await message.respond(b"")
                return
            timing = self._streams.timing
            grant = await self._store.write(renew_partitions, hello.report, hello.drained, timing)
            await message.respond(encode(grant))
        except msgspec.DecodeError as error:
            if self._repeat_filter.is_news(str(error)):
                log.error("terminal_message_unreadable", error=str(error), message="Install this version there too.")
            if message.reply:
                await message.respond(encode(Grant({}, (), 0.0, 0, time.time(), OTHER_VERSION)))
        except Exception as error:  # a terminal without an answer asks again
            log.error("terminal_not_answered", error=repr(error))

    async def _quarantine_undelivered(self, message: Any) -> None:
        """Quarantine a job that was delivered as often as allowed and never acknowledged."""
        try:
            sequence = int(orjson.loads(message.data)["stream_seq"])
            found = await self._streams.context.get_msg(self._streams.stream_name("JOBS"), seq=sequence)
            await _quarantine_message(self._streams, self._store, "JOBS", found)
        except Exception as error:
            log.error("job_not_quarantined", error=repr(error))
