"""A terminal: fetches and reads what it is told to, for the hosts of the partitions it holds, and decides nothing.

It holds no key to the database. What it may begin, and in which partitions, its tenancy knows: whoever hung and comes
back begins nothing.

    take ─► queue ─► as many workers as may fetch at once ─► results, several together ─► safe: the job is done
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any

import structlog
from msgspec.structs import replace

from headwater.cluster import terminal_outage
from headwater.cluster.leased_fetch import FetchOutcome, LeasedFetch
from headwater.cluster.leases.holdings import Holdings
from headwater.cluster.leases.lease_clock import DatabaseClock, LeaseTiming
from headwater.cluster.leases.partitions import partition_of
from headwater.cluster.terminal_outage import TerminalOutage
from headwater.cluster.transport.terminal_ports import JobReceiver, PartitionSource, ReceivedJob, ResultSender
from headwater.cluster.transport.wire_messages import FetchResult, Job
from headwater.errors import HeadwaterError
from headwater.fetch.client import Fetcher
from headwater.fetch.http.redirects import Handover
from headwater.fetch.http.remote_session import RemoteReply
from headwater.loops import boot_clock, pause
from headwater.model import Ending, Outcome

QUEUE_FACTOR = 4  # times the concurrency: jobs that wait in here
SWEEPS_PER_FETCH = 30  # within the longest fetch: looks for fetches whose lease is nearly over

log = structlog.get_logger()


class FetchPool:
    """Fetches until it is stopped."""

    def __init__(
        self,
        name: str,
        fetcher: Fetcher,
        landlord: PartitionSource,
        jobs: JobReceiver,
        results: ResultSender,
        *,
        timing: LeaseTiming,
        concurrency: int = 64,
    ) -> None:
        self.name = name
        self._partition_source = landlord
        self._jobs = jobs
        self._results = results
        self.timing = timing
        self.concurrency = concurrency
        self.holdings = Holdings(timing.fetch_seconds)
        self._leased_fetch = LeasedFetch(fetcher, self.holdings)
        self.demand_changed = asyncio.Event()  # something is held that was not before, or there is room again
        self._leader = 0  # the epoch of the controller that leads, as far as we have heard
        self._clock = DatabaseClock()
        self._jobs_in_hand = 0  # jobs in our hands, until their results are safe
        self._queue: deque[ReceivedJob] = deque()  # those of them that are not begun
        self._hands_empty = asyncio.Event()
        self._workers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._outage = TerminalOutage(timing)
        self._probing: asyncio.Task[None] | None = None
        names = ("fetched", "refused", "failed", "handed_on", "errands", "unasked", "bytes")
        self.counts = dict.fromkeys(names, 0)
        self._problem: str | None = None

    def clock(self) -> float:
        """The database's time, as far as we know it."""
        return self._clock.now()

    @property
    def problem(self) -> str | None:
        return self._problem if self.find_outage() is None else terminal_outage.describe_outage()

    def find_outage(self) -> tuple[float, tuple[int, ...]] | None:
        """While we reach no server: since when, and the partitions that we need to find out when that is over."""
        return self._outage.find_outage(self.holdings.held)

    @property
    def room(self) -> int:
        """How many more jobs are welcome."""
        return QUEUE_FACTOR * self.concurrency - self._jobs_in_hand

    @property
    def open_partitions(self) -> list[int]:
        """The partitions whose jobs we want."""
        return self.holdings.list_open(boot_clock())

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set: then what is under way ends, and the partitions are free for others."""
        following = asyncio.create_task(self._jobs.receive_jobs(self, stop))
        watching = asyncio.create_task(self._cancel_late_fetches())
        try:
            while not stop.is_set():
                await self._renew_partitions()
                await pause(
                    stop,
                    self.timing.heartbeat_seconds / 4 if self.holdings.is_moving else self.timing.heartbeat_seconds,
                )
            self._outage.release_all()
            await self._wait_until_empty()
        finally:
            await _cancel_tasks(following, watching, *filter(None, [self._probing]))
            await _cancel_tasks(*self._tasks)  # no more of them begin
            self._results.abandon()
            await self._release_partitions()

    async def _cancel_late_fetches(self) -> None:
        """No fetch lasts longer than the lease it began under, which a machine that was asleep finds over."""
        while True:
            await asyncio.sleep(self.timing.fetch_seconds / SWEEPS_PER_FETCH)
            self._leased_fetch.cancel_late(2 * self.timing.fetch_seconds / SWEEPS_PER_FETCH)

    async def _wait_until_empty(self) -> None:
        """Until nothing is in our hands, but not for ever."""
        if self._jobs_in_hand:
            self._hands_empty.clear()
            await pause(self._hands_empty, self.timing.fetch_seconds)

    async def _release_partitions(self) -> None:
        try:
            await asyncio.wait_for(self._partition_source.release_partitions(self.holdings.claimed), 5)
        except (HeadwaterError, TimeoutError) as error:
            log.warning("not_taken_leave", error=str(error))

    # partitions

    async def _renew_partitions(self) -> None:
        """Tell the landlord what we let go, and hear what is ours."""
        asked, at = boot_clock(), time.time()
        try:
            grant = await asyncio.wait_for(
                self._partition_source.renew_partitions(self.holdings.release_drained()),
                self.timing.heartbeat_seconds * 4,
            )
        except (HeadwaterError, TimeoutError) as error:
            self._note_problem(
                "partitions_not_tended", str(error) or "Whoever shares out the partitions did not answer."
            )
            return
        new = self.holdings.apply_grant(grant, asked, boot_clock())
        self._leader = max(self._leader, grant.controller)
        self._clock.correct(grant.clock, at, time.time())
        self._note_problem("partitions_not_given", grant.problem)
        if new:
            held, surplus = len(self.holdings.held), len(self.holdings.draining)
            log.info("partitions", held=held, new=len(new), surplus=surplus)
        self.demand_changed.set()

    def _note_problem(self, event: str, said: str | None) -> None:
        """What is in the way of having partitions; None for nothing. Logged when it is news."""
        if said is not None and said != self._problem:
            log.warning(event, error=said)
        self._problem = said

    # jobs

    def accept_job(self, taken: ReceivedJob) -> None:
        """A job has come."""
        job = taken.job
        self._leader = max(self._leader, job.epoch)
        self.holdings.begin_job(job.partition)
        self._jobs_in_hand += 1
        self._queue.append(taken)
        if self._workers < self.concurrency:
            self._workers += 1
            self._start_task(self._run_worker())

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_worker(self) -> None:
        """One of as many as may fetch at once."""
        try:
            while self._queue:
                await self._run_job(self._queue.popleft())
        finally:
            self._workers -= 1

    def _end_job(self, job: Job) -> None:
        """A job is in our hands no more."""
        self.holdings.end_job(job.partition)
        self._jobs_in_hand -= 1
        if not self._jobs_in_hand:
            self._hands_empty.set()
        if self.room == self.concurrency:  # there was less: more may come
            self.demand_changed.set()

    def _is_outdated(self, job: Job) -> bool:
        """Whether a controller wanted it that leads no more; errands are wanted by somebody else."""
        return job.errand is None and job.epoch < self._leader

    async def _run_job(self, taken: ReceivedJob) -> None:
        """Until the fetch is over. What comes after it may take long, and the next fetch does not wait for that."""
        job = taken.job
        try:
            if (quiet := self._leased_fetch.find_quiet_seconds(job)) > 0:
                await asyncio.sleep(quiet)
            old, epoch = self._is_outdated(job), self.holdings.find_epoch(job.partition, boot_clock())
            if old or epoch is None:
                self.counts["refused"] += 1
                # Who leads now sees that the old one's job is gone, and chooses for itself.
                await (taken.put_down if old else taken.give_back)()
                self._end_job(job)
                return
            if self._outage.away_since is not None and not job.wished and job.errand is None:
                self._outage.remember_unasked(job)
                nobody = Outcome(Ending.CONNECTION, job.url, job.url, self.clock(), 0.0)
                self._send_result(FetchResult(job, nobody, self.name, epoch, unasked=True), taken)
                return
            found = await self._leased_fetch.fetch_within_lease(job)
            if isinstance(found, Outcome) and self._outage.is_clear(found):
                self._send_result(FetchResult(job, found, self.name, epoch), taken)
            else:
                self._start_task(self._finish_job(taken, epoch, found))
        except Exception as error:
            self._record_failure(job, error)
            self._end_job(job)

    async def _finish_job(self, taken: ReceivedJob, epoch: int, found: FetchOutcome | None) -> None:
        """Where there is more to do than to bring the result."""
        job, brought = taken.job, False
        try:
            if found is None:
                self.counts["refused"] += 1
                await taken.give_back()
                return
            if isinstance(found, Handover) or (isinstance(found, RemoteReply) and found.status is not None):
                self._outage.note_answer(self.clock())
            if isinstance(found, RemoteReply):
                self.counts["errands"] += 1
                await taken.answer(found)
                return
            if isinstance(found, Handover):
                self.counts["handed_on"] += 1
                await taken.hand_on(replace(job, partition=partition_of(found.at), way=found))
                return
            counts = await self._may_judge_feed(job, found)
            self._send_result(FetchResult(job, found, self.name, epoch, unasked=not counts), taken)
            brought = True
        except Exception as error:
            self._record_failure(job, error)
        finally:
            if not brought:
                self._end_job(job)

    def _record_failure(self, job: Job, error: Exception) -> None:
        self.counts["failed"] += 1
        self._problem = f"A job failed: {error}"
        log.error("job_failed", feed=job.feed_id, error=repr(error))

    def _send_result(self, result: FetchResult, taken: ReceivedJob) -> None:
        self.counts["unasked" if result.unasked else "fetched"] += 1
        self.counts["bytes"] += result.outcome.bytes
        self._results.send_result(result, partial(self._confirm_result, taken))

    async def _confirm_result(self, taken: ReceivedJob, problem: Exception | None) -> None:
        """The result is safe, or cannot be made so."""
        try:
            if problem is not None:
                raise problem
            await taken.done()
        except Exception as error:
            self._record_failure(taken.job, error)
        finally:
            self._end_job(taken.job)

    async def _may_judge_feed(self, job: Job, outcome: Outcome) -> bool:
        """Whether the feed itself is to be judged by this; not if nobody at all answers us."""
        counts = await self._outage.decide(job, outcome, self.clock())
        if self._outage.away_since is not None and (self._probing is None or self._probing.done()):
            self._probing = asyncio.create_task(self._probe_network())
        return counts

    async def _probe_network(self) -> None:
        """While nobody answers: one of those that were not asked, from time to time, as long as its host is ours."""
        while self._outage.away_since is not None:
            await asyncio.sleep(self._outage.pause)
            job = self._outage.next_probe(self.open_partitions)
            epoch = None if job is None else self.holdings.find_epoch(job.partition, boot_clock())
            if job is None or epoch is None or self._outage.away_since is None:
                continue
            self.holdings.begin_job(job.partition)
            try:
                found = await self._leased_fetch.fetch_within_lease(job)
                if isinstance(found, Handover):
                    self._outage.note_answer(self.clock())  # the feed is due again soon, and is followed then
                elif isinstance(found, Outcome) and await self._outage.decide(job, found, self.clock()):
                    self.counts["fetched"] += 1
                    await self._send_and_wait(FetchResult(job, found, self.name, epoch))
            except Exception as error:
                log.warning("not_tried", feed=job.feed_id, error=repr(error))
            finally:
                self.holdings.end_job(job.partition)

    async def _send_and_wait(self, result: FetchResult) -> None:
        """A result of which no job is left; until it is safe."""
        over: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        async def then(problem: Exception | None) -> None:
            if not over.done():
                over.set_result(problem)

        self._results.send_result(result, then)
        if (problem := await over) is not None:
            raise problem


async def _cancel_tasks(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
