"""PostgreSQL alone carries everything: jobs are rows that are taken under locks others skip, results go straight in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog
from sqlalchemy import Connection

from headwater.cluster import errands, sharing
from headwater.cluster.hands import Taken, Then
from headwater.cluster.messages import Grant, Job, Report, Result, encode, read_job
from headwater.cluster.seat import pause
from headwater.cluster.storer import Storer
from headwater.cluster.terminal import Terminal
from headwater.cluster.timing import Timing
from headwater.errors import HeadwaterError
from headwater.fetch.errand import Hopped
from headwater.store import jobs, leases
from headwater.store.jobs import JobRow
from headwater.store.store import Store

LOOK, LONGEST = 0.25, 1.0  # seconds between two looks for jobs while there are none, and have been none for a while
SOON = 0.02  # between two looks whether there is room for more of them
MOST_TRIES = 3
LARGEST_BATCH = 256
TOGETHER, ENOUGH = 0.2, 128  # seconds that a result waits for others to be written with, unless there are so many
GIVEN_UP = "Nobody who took it came back."

log = structlog.get_logger()
read_report = msgspec.json.Decoder(Report).decode


class PostgresOutgoing:
    """Jobs as rows; under the controller's lease when its store is fenced. `on_offered` hears when there are some."""

    def __init__(self, store: Store, on_offered: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_offered = on_offered

    async def offer(self, given: Sequence[Job]) -> set[int]:
        rows = [JobRow(job.feed_id, job.partition, encode(job)) for job in given]
        taken = await self._store.write(jobs.offer, rows)
        self._on_offered()
        return taken

    async def unstored(self) -> int:
        return 0  # a result is stored by who fetched it: what was not heard of is not there

    async def on_their_way(self) -> set[int]:
        return await self._store.read(jobs.on_their_way)

    async def newest(self) -> int:
        return 0

    async def stored(self, number: int) -> bool:
        return True


class PostgresLandlord:
    """Partitions straight from the leases."""

    def __init__(self, store: Store, report: Callable[[], Report], timing: Timing) -> None:
        self._store = store
        self._report = report
        self._timing = timing

    async def tend(self, drained: Mapping[int, int]) -> Grant:
        return await self._store.write(tend, self._report(), drained, self._timing)

    async def leave(self, held: Mapping[int, int]) -> None:
        await self._store.write(leave, self._report().name, held)


def tend(connection: Connection, report: Report, drained: Mapping[int, int], timing: Timing) -> Grant:
    """Greet a terminal and give it its share, in the caller's transaction."""
    now = leases.greet(connection, report.name, report.role, encode_json(report))
    others = [one for one in leases.members(connection, timing.lease) if one.role in (report.role, "node")]
    well = [one for one in others if read_report(one.info).away_since is None]
    if well and report.away_since is not None:  # it reaches nobody: others do
        share = sharing.keep(connection, report.name, report.keep, drained, timing.lease)
    else:
        share = sharing.tend(connection, report.name, len(well or others), drained, timing.lease)
    leading = leases.read(connection, "controller")
    epoch = leading[0].epoch if leading else 0
    return Grant(share.partitions, share.surplus, timing.lease, epoch, now, lacking=share.lacking)


def leave(connection: Connection, name: str, held: Mapping[int, int]) -> None:
    sharing.release(connection, name, held)
    leases.leave(connection, name)


def encode_json(report: Report) -> str:
    return msgspec.json.encode(report).decode()


class PostgresJobs:
    """Looks for jobs of the partitions that a terminal holds: from time to time, and when it is woken."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """This process has offered some; of those of others it does not hear."""
        self._woken.set()

    async def follow(self, terminal: Terminal, stop: asyncio.Event) -> None:
        more, wait = False, LOOK  # more than there was room for: looked for as soon as there is some, not one by one
        while not stop.is_set():
            self._woken.clear()
            mine, room = terminal.mine, min(terminal.room, 2 * terminal.concurrency)
            if more and room < terminal.concurrency:
                await asyncio.sleep(SOON)
                continue
            rows = await self._taken(mine, room, terminal.timing.ack) if mine and room > 0 else []
            for row in rows:
                await self._hand_over(terminal, row)
            more = 0 < len(rows) == room
            wait = LOOK if rows else min(2 * wait, LONGEST)
            if not more:
                await pause(self._woken, wait)

    async def _taken(self, mine: Sequence[int], room: int, seconds: float) -> list[JobRow]:
        try:
            return await self._store.statement(jobs.take, mine, room, seconds)
        except HeadwaterError as error:
            log.warning("jobs_not_taken", error=str(error))
            return []

    async def _hand_over(self, terminal: Terminal, row: JobRow) -> None:
        if row.tries > MOST_TRIES:  # whoever took it before did not live to tell
            log.error("job_put_aside", feed=row.feed_id, tries=row.tries)
            await self._store.write(_put_aside, row)
            return

        async def done() -> None:
            """The job went with its result's transaction."""

        async def give_back() -> None:
            await self._store.write(jobs.give_back, [row.feed_id])

        async def put_down() -> None:
            await self._store.write(jobs.put_down, row)

        async def hand_on(job: Job) -> None:
            await self._store.write(jobs.hand_on, JobRow(job.feed_id, job.partition, encode(job)))

        job = read_job(row.body)

        async def answer(hopped: Hopped) -> None:
            assert job.errand is not None
            await self._store.write(errands.answered, row, job.errand.reply, encode(hopped))

        terminal.take(Taken(job, done, give_back, put_down, hand_on, answer))


def _put_aside(connection: Connection, row: JobRow) -> None:
    jobs.put_aside(connection, f"jobs.{row.partition}.{row.feed_id}", row.body, GIVEN_UP)
    jobs.finish(connection, [row.feed_id])


class StoredAtOnce:
    """Results of this process, written by its own storer in batches that grow with the load."""

    def __init__(self, storer: Storer, on_saved: Callable[[], None] = lambda: None) -> None:
        self._storer = storer
        self._on_saved = on_saved
        self._queue: asyncio.Queue[tuple[Result, Then]] = asyncio.Queue()
        self._enough = asyncio.Event()

    def put(self, result: Result, then: Then) -> None:
        self._queue.put_nowait((result, then))
        if self._queue.qsize() >= ENOUGH:
            self._enough.set()

    def abandon(self) -> None:
        """Whoever runs us ends us, after those who bring results."""

    async def run(self) -> None:
        """Until cancelled. A batch that cannot be written is tried again until it can: nothing is thrown away."""
        while True:
            batch = [await self._queue.get()]
            await pause(self._enough, TOGETHER)
            while len(batch) < LARGEST_BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            if self._queue.qsize() < ENOUGH:
                self._enough.clear()
            await self._settle(batch)

    async def _settle(self, batch: Sequence[tuple[Result, Then]]) -> None:
        wait = 0.5
        while True:
            try:
                saved = await self._storer.settle([result for result, _ in batch])
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
