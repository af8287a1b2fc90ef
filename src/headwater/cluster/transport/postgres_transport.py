"""Carries jobs as rows under SKIP LOCKED between the nodes of a shared database.

Results never leave the process: the node that fetched stores, and deletes the job's row in the transaction of its
result. A proxied request is a job as well, and its reply a row under a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec
import structlog
from sqlalchemy import Connection

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partitions import leave_cluster, renew_partitions
from headwater.cluster.transport.proxied_requests import store_reply
from headwater.cluster.transport.wire_messages import (
    Grant,
    MemberReport,
    describe_unreadable,
    encode,
    read_addressed_job,
)
from headwater.errors import HeadwaterError
from headwater.fetch.http.remote_session import RemoteReply
from headwater.loops import pause
from headwater.node.crawl.transport import FetchResult, Intake, Job, OnSafe, ReceivedJob, ResultBatch
from headwater.store import cluster_jobs
from headwater.store.cluster_jobs import JobRow
from headwater.store.store import Store

POLL_SECONDS, MAX_POLL_SECONDS = 0.25, 1.0  # between two looks for jobs, and after a while without any
ROOM_SECONDS = 0.02  # between two looks whether there is room for more jobs
MAX_TRIES = 3
MAX_BATCH = 256
BATCH_SECONDS, FULL_BATCH = 0.2, 128  # that a result waits for others, and results that end the wait
GIVEN_UP = "Nobody who took it came back."

log = structlog.get_logger()


class PostgresJobSender:
    """Sends jobs as rows; under the leader's lease when its store is fenced. `on_sent` wakes the pool of this
    process."""

    def __init__(self, store: Store, on_sent: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_sent = on_sent

    async def send_jobs(self, jobs: Sequence[Job]) -> set[int]:
        taken = await self._store.write(cluster_jobs.add_jobs, [_make_row(job) for job in jobs])
        self._on_sent()
        return taken

    async def count_backlog(self) -> int:
        return 0  # a result is stored by the process that fetched it

    async def list_in_flight(self) -> set[int]:
        return await self._store.read(cluster_jobs.list_queued_feeds)

    async def find_newest_result(self) -> int:
        return 0

    async def is_stored_up_to(self, number: int) -> bool:
        return True


class PostgresTransport:
    """The transport of one node: takes jobs of its partitions, and hands results to its own ingest."""

    def __init__(self, store: Store, report: Callable[[], MemberReport], timing: LeaseTiming) -> None:
        self._store = store
        self._report = report
        self._timing = timing
        self._woken = asyncio.Event()
        self._results: asyncio.Queue[tuple[FetchResult, OnSafe]] = asyncio.Queue()
        self._batch_full = asyncio.Event()

    def wake(self) -> None:
        """Look for jobs now: this process has sent some."""
        self._woken.set()

    # partitions

    async def renew_partitions(self, drained: Mapping[int, int]) -> Grant:
        return await self._store.write(renew_partitions, self._report(), drained, self._timing)

    async def release_partitions(self, held: Mapping[int, int]) -> None:
        await self._store.write(leave_cluster, self._report().name, held)

    # jobs

    async def receive_jobs(self, intake: Intake) -> AsyncIterator[Sequence[ReceivedJob]]:
        more, wait = (
            False,
            POLL_SECONDS,
        )  # more jobs than room: claim again when there is much room, not one by one
        while True:
            self._woken.clear()
            partitions, room = intake.open_partitions, min(intake.room, 2 * intake.concurrency)
            if more and room < intake.concurrency:
                await asyncio.sleep(ROOM_SECONDS)
                continue
            rows = await self._claim_jobs(partitions, room) if partitions and room > 0 else []
            yield [received for row in rows if (received := await self._read_job(row)) is not None]
            more = 0 < len(rows) == room
            wait = POLL_SECONDS if rows else min(2 * wait, MAX_POLL_SECONDS)
            if not more:
                await pause(self._woken, wait)

    async def _read_job(self, row: JobRow) -> ReceivedJob | None:
        """Decode a job; None for one that was quarantined."""
        problem = GIVEN_UP  # the processes that had it died
        if row.tries <= MAX_TRIES:
            try:
                return ReceivedJob(read_addressed_job(row.body, (row.partition, row.feed_id)), row)
            except msgspec.DecodeError as error:
                problem = describe_unreadable(error)
        log.error("job_quarantined", feed=row.feed_id, tries=row.tries, problem=problem)
        try:
            await self._store.write(_quarantine_job, row, problem)
        except HeadwaterError as error:  # it is claimed again later
            log.warning("job_not_quarantined", error=str(error))
        return None

    async def _claim_jobs(self, partitions: Sequence[int], room: int) -> list[JobRow]:
        try:
            return await self._store.write_one(cluster_jobs.claim_jobs, partitions, room, self._timing.ack_seconds)
        except HeadwaterError as error:
            log.warning("jobs_not_claimed", error=str(error))
            return []

    async def ack_job(self, received: ReceivedJob) -> None:
        """Do nothing: the row was deleted in the transaction of its result."""

    async def give_back(self, received: ReceivedJob) -> None:
        await self._store.write(cluster_jobs.return_jobs, [received.job.feed_id])

    async def drop_job(self, received: ReceivedJob) -> None:
        await self._store.write(cluster_jobs.drop_job, received.token)

    # proxied requests

    async def reply(self, received: ReceivedJob, reply: RemoteReply) -> None:
        request = received.job.errand
        if request is not None:
            await self._store.write(store_reply, received.token, request.reply, encode(reply))

    # results

    async def send_result(self, result: FetchResult, on_safe: OnSafe) -> None:
        self._results.put_nowait((result, on_safe))
        if self._results.qsize() >= FULL_BATCH:
            self._batch_full.set()

    def abandon_results(self) -> None:
        """Do nothing: the ingest of this process stores the rest."""

    async def receive_results(self, stop: asyncio.Event) -> AsyncIterator[ResultBatch]:
        while True:
            first = await self._next_result(stop)
            if first is None:
                return
            batch = [first]
            if not stop.is_set():
                await pause(self._batch_full, BATCH_SECONDS)
            while len(batch) < MAX_BATCH and not self._results.empty():
                batch.append(self._results.get_nowait())
            if self._results.qsize() < FULL_BATCH:
                self._batch_full.clear()
            yield ResultBatch([result for result, _ in batch], [on_safe for _, on_safe in batch])

    async def _next_result(self, stop: asyncio.Event) -> tuple[FetchResult, OnSafe] | None:
        if not self._results.empty():
            return self._results.get_nowait()
        waiting = asyncio.ensure_future(self._results.get())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            stopping.cancel()

    async def ack_results(self, batch: ResultBatch) -> None:
        for on_safe in batch.token:
            await on_safe(None)

    async def keep_results(self, batch: ResultBatch) -> None:
        """Do nothing: nobody else gets them."""

    async def reject_results(self, batch: ResultBatch, failed: Sequence[tuple[FetchResult, Exception]]) -> None:
        problems = {id(result): error for result, error in failed}
        for result, on_safe in zip(batch.results, batch.token, strict=True):
            await on_safe(problems.get(id(result)))


def _make_row(job: Job) -> JobRow:
    return JobRow(job.feed_id, job.partition, encode(job))


def _quarantine_job(connection: Connection, row: JobRow, problem: str) -> None:
    cluster_jobs.quarantine_message(connection, f"jobs.{row.partition}.{row.feed_id}", row.body, problem)
    cluster_jobs.delete_jobs(connection, [row.feed_id])
