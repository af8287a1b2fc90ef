"""PostgreSQL alone carries everything: jobs are rows that are taken under locks others skip, results go straight in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog
from sqlalchemy import Connection

from headwater.cluster.cluster_ingest import ClusterIngest
from headwater.cluster.fetch_pool import FetchPool
from headwater.cluster.leases import partitions
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport import proxied_requests
from headwater.cluster.transport.terminal_ports import OnSafe, ReceivedJob
from headwater.cluster.transport.wire_messages import FetchResult, Grant, Job, MemberReport, encode, read_job
from headwater.errors import HeadwaterError
from headwater.fetch.http.remote_session import RemoteReply
from headwater.loops import pause
from headwater.store import cluster_jobs, cluster_leases
from headwater.store.cluster_jobs import JobRow
from headwater.store.store import Store

POLL_SECONDS, MAX_POLL_SECONDS = (
    0.25,
    1.0,
)  # seconds between two looks for jobs while there are none, and have been none for a while
ROOM_SECONDS = 0.02  # between two looks whether there is room for more of them
MAX_TRIES = 3
MAX_BATCH = 256
BATCH_SECONDS, FULL_BATCH = (
    0.2,
    128,
)  # seconds that a result waits for others to be written with, unless there are so many
GIVEN_UP = "Nobody who took it came back."

log = structlog.get_logger()
read_report = msgspec.json.Decoder(MemberReport).decode


class PostgresJobSender:
    """Jobs as rows; under the controller's lease when its store is fenced. `on_offered` hears when there are some."""

    def __init__(self, store: Store, on_offered: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_sent = on_offered

    async def send_jobs(self, given: Sequence[Job]) -> set[int]:
        rows = [JobRow(job.feed_id, job.partition, encode(job)) for job in given]
        taken = await self._store.write(cluster_jobs.add_jobs, rows)
        self._on_sent()
        return taken

    async def count_backlog(self) -> int:
        return 0  # a result is stored by who fetched it: what was not heard of is not there

    async def list_in_flight(self) -> set[int]:
        return await self._store.read(cluster_jobs.list_queued_feeds)

    async def find_newest_result(self) -> int:
        return 0

    async def is_stored_up_to(self, number: int) -> bool:
        return True


class PostgresPartitionSource:
    """Partitions straight from the leases."""

    def __init__(self, store: Store, report: Callable[[], MemberReport], timing: LeaseTiming) -> None:
        self._store = store
        self._report = report
        self._timing = timing

    async def renew_partitions(self, drained: Mapping[int, int]) -> Grant:
        return await self._store.write(renew_partitions, self._report(), drained, self._timing)

    async def release_partitions(self, held: Mapping[int, int]) -> None:
        await self._store.write(leave_cluster, self._report().name, held)


def renew_partitions(
    connection: Connection, report: MemberReport, drained: Mapping[int, int], timing: LeaseTiming
) -> Grant:
    """Greet a terminal and give it its share, in the caller's transaction."""
    now = cluster_leases.record_heartbeat(connection, report.name, report.role, encode_report(report))
    others = [one for one in cluster_leases.list_members(connection, timing.lease) if one.role in (report.role, "node")]
    well = [one for one in others if read_report(one.info).away_since is None]
    if well and report.away_since is not None:  # it reaches nobody: others do
        share = partitions.keep_partitions(connection, report.name, report.keep, drained, timing.lease)
    else:
        share = partitions.share_partitions(connection, report.name, len(well or others), drained, timing.lease)
    leading = cluster_leases.list_leases(connection, "controller")
    epoch = leading[0].epoch if leading else 0
    return Grant(share.partitions, share.surplus, timing.lease, epoch, now, lacking=share.lacking)


def leave_cluster(connection: Connection, name: str, held: Mapping[int, int]) -> None:
    partitions.release_partitions(connection, name, held)
    cluster_leases.remove_member(connection, name)


def encode_report(report: MemberReport) -> str:
    return msgspec.json.encode(report).decode()


class PostgresJobReceiver:
    """Looks for jobs of the partitions that a terminal holds: from time to time, and when it is woken."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """This process has offered some; of those of others it does not hear."""
        self._woken.set()

    async def receive_jobs(self, terminal: FetchPool, stop: asyncio.Event) -> None:
        more, wait = (
            False,
            POLL_SECONDS,
        )  # more than there was room for: looked for as soon as there is some, not one by one
        while not stop.is_set():
            self._woken.clear()
            mine, room = terminal.open_partitions, min(terminal.room, 2 * terminal.concurrency)
            if more and room < terminal.concurrency:
                await asyncio.sleep(ROOM_SECONDS)
                continue
            rows = await self._take_rows(mine, room, terminal.timing.ack_seconds) if mine and room > 0 else []
            for row in rows:
                await self._hand_over(terminal, row)
            more = 0 < len(rows) == room
            wait = POLL_SECONDS if rows else min(2 * wait, MAX_POLL_SECONDS)
            if not more:
                await pause(self._woken, wait)

    async def _take_rows(self, mine: Sequence[int], room: int, seconds: float) -> list[JobRow]:
        try:
            return await self._store.write_one(cluster_jobs.claim_jobs, mine, room, seconds)
        except HeadwaterError as error:
            log.warning("jobs_not_taken", error=str(error))
            return []

    async def _hand_over(self, terminal: FetchPool, row: JobRow) -> None:
        if row.tries > MAX_TRIES:  # whoever took it before did not live to tell
            log.error("job_put_aside", feed=row.feed_id, tries=row.tries)
            await self._store.write(_quarantine_job, row)
            return

        async def done() -> None:
            """The job went with its result's transaction."""

        async def give_back() -> None:
            await self._store.write(cluster_jobs.return_jobs, [row.feed_id])

        async def put_down() -> None:
            await self._store.write(cluster_jobs.drop_job, row)

        async def hand_on(job: Job) -> None:
            await self._store.write(cluster_jobs.move_job, JobRow(job.feed_id, job.partition, encode(job)))

        job = read_job(row.body)

        async def answer(hopped: RemoteReply) -> None:
            assert job.errand is not None
            await self._store.write(proxied_requests.store_reply, row, job.errand.reply, encode(hopped))

        terminal.accept_job(ReceivedJob(job, done, give_back, put_down, hand_on, answer))


def _quarantine_job(connection: Connection, row: JobRow) -> None:
    cluster_jobs.quarantine_message(connection, f"jobs.{row.partition}.{row.feed_id}", row.body, GIVEN_UP)
    cluster_jobs.delete_jobs(connection, [row.feed_id])


class LocalIngest:
    """Results of this process, written by its own storer in batches that grow with the load."""

    def __init__(self, storer: ClusterIngest, on_saved: Callable[[], None] = lambda: None) -> None:
        self._ingest = storer
        self._on_saved = on_saved
        self._queue: asyncio.Queue[tuple[FetchResult, OnSafe]] = asyncio.Queue()
        self._enough = asyncio.Event()

    def send_result(self, result: FetchResult, then: OnSafe) -> None:
        self._queue.put_nowait((result, then))
        if self._queue.qsize() >= FULL_BATCH:
            self._enough.set()

    def abandon(self) -> None:
        """Whoever runs us ends us, after those who bring results."""

    async def run(self) -> None:
        """Until cancelled. A batch that cannot be written is tried again until it can: nothing is thrown away."""
        while True:
            batch = [await self._queue.get()]
            await pause(self._enough, BATCH_SECONDS)
            while len(batch) < MAX_BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            if self._queue.qsize() < FULL_BATCH:
                self._enough.clear()
            await self._save_batch(batch)

    async def _save_batch(self, batch: Sequence[tuple[FetchResult, OnSafe]]) -> None:
        wait = 0.5
        while True:
            try:
                saved = await self._ingest.save_results([result for result, _ in batch])
                break
            except HeadwaterError as error:
                log.warning("batch_waits", results=len(batch), error=str(error))
                await asyncio.sleep(wait)
                wait = min(2 * wait, 10.0)
            except Exception as error:
                log.error("batch_not_written", results=len(batch), error=repr(error))
                for _, then in batch:
                    await then(error)
                return
        for _, then in batch:
            await then(None)
        if any(one.new_ids or one.updated_ids for one in saved):
            self._on_saved()
