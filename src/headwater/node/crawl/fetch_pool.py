"""Fetches jobs concurrently and hands the results on; decides nothing.

    receive_jobs ─► queue ─► as many workers as may fetch at once ─► send_result ─► safe: the job is acknowledged

`Holdings` say which partitions this process may fetch for, and until when: a process that hung and comes back begins
nothing. A single server holds every partition for ever (`AllHoldings`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog

from headwater.fetch.client import Fetcher
from headwater.fetch.http.redirects import Handover
from headwater.fetch.http.remote_session import RemoteReply
from headwater.loops import boot_clock, pause
from headwater.model import Ending, Outcome
from headwater.node.crawl.network_outage import NetworkOutage, describe_outage
from headwater.node.crawl.transport import FetchResult, Job, JobReceiver, ReceivedJob

QUEUE_FACTOR = 4  # jobs in hand, as a multiple of the concurrency
STOP_SECONDS = 10.0  # that fetches may take to end when the pool stops

log = structlog.get_logger()

FetchOutcome = Outcome | Handover | RemoteReply  # of a refresh; of one that was redirected; of a proxied request


class Holdings(Protocol):
    """The partitions that may be fetched for; `now` is `loops.boot_clock`."""

    def list_open(self, now: float) -> Sequence[int]: ...

    def find_epoch(self, partition: int, now: float) -> int | None:
        """Return the epoch under which a fetch may begin there, None where it may not."""
        ...

    def begin_job(self, partition: int) -> None: ...

    def end_job(self, partition: int) -> None: ...

    def note_leader(self, epoch: int, now: float) -> None:
        """Note that a leader sent a job under this epoch."""
        ...

    def is_outdated(self, epoch: int) -> bool:
        """Whether the leader of that epoch has been replaced."""
        ...


class AllHoldings:
    """Every partition, for ever: one process has all hosts to itself."""

    def list_open(self, now: float) -> Sequence[int]:
        return (0,)

    def find_epoch(self, partition: int, now: float) -> int | None:
        return 0

    def begin_job(self, partition: int) -> None:
        pass

    def end_job(self, partition: int) -> None:
        pass

    def note_leader(self, epoch: int, now: float) -> None:
        pass

    def is_outdated(self, epoch: int) -> bool:
        return False


class JobDecision(Enum):
    """The ways to go on with a job that a terminal has received."""

    BEGIN = "its request may begin"
    DROP = "its leader was replaced: the next one sees that it is gone, and chooses for itself"
    GIVE_BACK = "its host may not be asked by this process, or not any more"
    TOO_LATE = "its time to begin is over: the leader hears of it"


def decide_job(job: Job, holdings: Holdings, boot: float, now: float) -> tuple[JobDecision, int]:
    """Decide about a job, with the epoch under which its request begins; `now` is the database's time."""
    if job.errand is None and holdings.is_outdated(job.epoch):
        return JobDecision.DROP, 0
    epoch = holdings.find_epoch(job.partition, boot)
    if epoch is None:
        return JobDecision.GIVE_BACK, 0
    if job.begin_by is not None and now > job.begin_by:
        return JobDecision.TOO_LATE, epoch
    return JobDecision.BEGIN, epoch


def _make_unbegun_reply(job: Job) -> RemoteReply:
    message = f"No terminal could ask {urlsplit(job.url).hostname} in time. Try again."
    return RemoteReply(ending=Ending.TIMEOUT, message=message)


class JobFetch(Protocol):
    """Fetches one job."""

    def quiet_seconds(self, job: Job) -> float:
        """Return how long the job's host must be left alone first."""
        ...

    async def fetch_job(self, job: Job) -> FetchOutcome | None:
        """Fetch; None where the lease would end before the fetch."""
        ...


async def fetch_hop(fetcher: Fetcher, job: Job) -> Outcome | Handover:
    """Send the one request that a job stands for."""
    return await fetcher.fetch_hop(
        *(job.url, job.validators), body_hash=job.body_hash, delta=job.delta, window=job.window, way=job.way
    )


class DirectFetch:
    """Fetches with the process's own client."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def quiet_seconds(self, job: Job) -> float:
        return 0.0

    async def fetch_job(self, job: Job) -> Outcome | Handover:
        return await fetch_hop(self._fetcher, job)


class FetchPool:
    """Fetches until it is stopped."""

    def __init__(
        self,
        name: str,
        transport: JobReceiver,
        fetch: JobFetch,
        *,
        holdings: Holdings | None = None,
        outage: NetworkOutage | None = None,
        concurrency: int = 64,
        stop_seconds: float = STOP_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._transport = transport
        self._fetch = fetch
        self.holdings: Holdings = AllHoldings() if holdings is None else holdings
        self.outage = NetworkOutage() if outage is None else outage
        self.concurrency = concurrency
        self._stop_seconds = stop_seconds
        self._clock = clock
        self.demand_changed = asyncio.Event()  # a partition was opened, or there is room again
        self.jobs_in_hand = 0  # until their results are safe
        self._queue: deque[ReceivedJob] = deque()
        self._hands_empty = asyncio.Event()
        self._workers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._probing: asyncio.Task[None] | None = None
        names = ("fetched", "refused", "failed", "handed_on", "errands", "unasked", "unbegun", "bytes")
        self.counts = dict.fromkeys(names, 0)
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        return self._problem if self.find_outage() is None else describe_outage()

    def find_outage(self) -> tuple[float, tuple[int, ...]] | None:
        """Return since when no server answers, and the partitions needed to probe; None while servers answer."""
        return self.outage.find_outage(self.open_partitions)

    @property
    def room(self) -> int:
        """The number of jobs that it would take now."""
        return QUEUE_FACTOR * self.concurrency - self.jobs_in_hand

    @property
    def open_partitions(self) -> Sequence[int]:
        return self.holdings.list_open(boot_clock())

    async def run(self, stop: asyncio.Event) -> None:
        """Fetch until `stop` is set; then let running fetches end."""
        receiving = asyncio.create_task(self._receive_jobs())
        try:
            await stop.wait()
            await _cancel_tasks(receiving)
            self.outage.release_all()
            if self.jobs_in_hand:
                self._hands_empty.clear()
                await pause(self._hands_empty, self._stop_seconds)
        finally:
            await _cancel_tasks(receiving, *filter(None, [self._probing]))
            await _cancel_tasks(*self._tasks)  # no more of them begin
            self._transport.abandon_results()

    async def _receive_jobs(self) -> None:
        async for received in self._transport.receive_jobs(self):
            for one in received:
                self.accept_job(one)

    def accept_job(self, received: ReceivedJob) -> None:
        """Queue a job, and start a worker if fewer run than may fetch at once."""
        self.holdings.note_leader(received.job.epoch, boot_clock())
        self.holdings.begin_job(received.job.partition)
        self.jobs_in_hand += 1
        self._queue.append(received)
        if self._workers < self.concurrency:
            self._workers += 1
            self._start_task(self._run_worker())

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_worker(self) -> None:
        try:
            while self._queue:
                await self._run_job(self._queue.popleft())
        finally:
            self._workers -= 1

    def _end_job(self, job: Job) -> None:
        self.holdings.end_job(job.partition)
        self.jobs_in_hand -= 1
        if not self.jobs_in_hand:
            self._hands_empty.set()
        if self.room == self.concurrency:  # there was less: more jobs may come
            self.demand_changed.set()

    async def _run_job(self, received: ReceivedJob) -> None:
        """Fetch one job. The next fetch does not wait until the result is safe."""
        job = received.job
        try:
            if (quiet := self._fetch.quiet_seconds(job)) > 0:
                await asyncio.sleep(quiet)
            decision, epoch = decide_job(job, self.holdings, boot_clock(), self._clock())
            if decision in (JobDecision.DROP, JobDecision.GIVE_BACK):
                self.counts["refused"] += 1
                drops = decision is JobDecision.DROP
                await (self._transport.drop_job if drops else self._transport.give_back)(received)
                self._end_job(job)
                return
            if decision is JobDecision.TOO_LATE:
                self.counts["unbegun"] += 1
                if job.errand is not None:
                    self._start_task(self._finish_job(received, epoch, _make_unbegun_reply(job)))
                    return
                unbegun = FetchResult(job, self._make_no_outcome(job), self.name, epoch, unasked=True, unbegun=True)
                await self._send_result(unbegun, received)
                return
            if self.outage.away_since is not None and not job.wished and job.errand is None:
                self.outage.remember_unasked(job)
                unasked = FetchResult(job, self._make_no_outcome(job), self.name, epoch, unasked=True)
                await self._send_result(unasked, received)
                return
            found = await self._fetch.fetch_job(job)
            if isinstance(found, Outcome) and self.outage.is_clear(found):
                await self._send_result(FetchResult(job, found, self.name, epoch), received)
            else:
                self._start_task(self._finish_job(received, epoch, found))
        except Exception as error:
            self._record_failure(job, error)
            self._end_job(job)

    async def _finish_job(self, received: ReceivedJob, epoch: int, found: FetchOutcome | None) -> None:
        """Finish a fetch without a plain result: abandoned, redirected, proxied, or suspect."""
        job, sent = received.job, False
        try:
            if found is None:
                self.counts["refused"] += 1
                await self._transport.give_back(received)
                return
            if isinstance(found, Handover) or (isinstance(found, RemoteReply) and found.status is not None):
                self.outage.note_answer(self._clock())
            if isinstance(found, RemoteReply):
                self.counts["errands"] += 1
                await self._transport.reply(received, found)
                return
            if isinstance(found, Handover):
                self.counts["handed_on"] += 1
                hop = Outcome(Ending.REDIRECTS, found.asked, found.at, found.started, found.elapsed)
                result = FetchResult(job, hop, self.name, epoch, unasked=True, way=found)
            else:
                counts = await self._may_judge(job, found)
                result = FetchResult(job, found, self.name, epoch, unasked=not counts)
            await self._send_result(result, received)
            sent = True
        except Exception as error:
            self._record_failure(job, error)
        finally:
            if not sent:
                self._end_job(job)

    def _make_no_outcome(self, job: Job) -> Outcome:
        """Make the outcome of a job whose host was not asked."""
        return Outcome(Ending.CONNECTION, job.url, job.url, self._clock(), 0.0)

    def _record_failure(self, job: Job, error: Exception) -> None:
        self.counts["failed"] += 1
        self._problem = f"A job failed: {error}"
        log.error("job_failed", feed=job.feed_id, error=repr(error))

    async def _send_result(self, result: FetchResult, received: ReceivedJob) -> None:
        if not (result.way or result.unbegun):
            self.counts["unasked" if result.unasked else "fetched"] += 1
        self.counts["bytes"] += result.outcome.bytes
        await self._transport.send_result(result, partial(self._confirm_result, received))

    async def _confirm_result(self, received: ReceivedJob, problem: Exception | None) -> None:
        """Acknowledge a job whose result is safe, or cannot be made so."""
        try:
            if problem is not None:
                raise problem
            await self._transport.ack_job(received)
        except Exception as error:
            self._record_failure(received.job, error)
        finally:
            self._end_job(received.job)

    # an outage of our own network

    async def _may_judge(self, job: Job, outcome: Outcome) -> bool:
        counts = await self.outage.may_judge(job, outcome, self._clock())
        if self.outage.away_since is not None and (self._probing is None or self._probing.done()):
            self._probing = asyncio.create_task(self._probe_network())
        return counts

    async def _probe_network(self) -> None:
        """While no server answers, fetch one of the unasked jobs from time to time, if its host is ours."""
        while self.outage.away_since is not None:
            await asyncio.sleep(self.outage.probe_seconds)
            job = self.outage.next_probe(self.open_partitions)
            epoch = None if job is None else self.holdings.find_epoch(job.partition, boot_clock())
            if job is None or epoch is None or self.outage.away_since is None:
                continue
            self.holdings.begin_job(job.partition)
            try:
                found = await self._fetch.fetch_job(job)
                if isinstance(found, Handover):
                    self.outage.note_answer(self._clock())  # the feed is due again soon, and is followed then
                elif isinstance(found, Outcome) and await self.outage.may_judge(job, found, self._clock()):
                    self.counts["fetched"] += 1
                    await self._send_and_wait(FetchResult(job, found, self.name, epoch))
            except Exception as error:
                log.warning("probe_failed", feed=job.feed_id, error=repr(error))
            finally:
                self.holdings.end_job(job.partition)

    async def _send_and_wait(self, result: FetchResult) -> None:
        """Send a result that no job is left of, and wait until it is safe."""
        safe: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        async def resolve(problem: Exception | None) -> None:
            if not safe.done():
                safe.set_result(problem)

        await self._transport.send_result(result, resolve)
        if (problem := await safe) is not None:
            raise problem


async def _cancel_tasks(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
