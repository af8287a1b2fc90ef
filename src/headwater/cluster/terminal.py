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
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from headwater.cluster import outage
from headwater.cluster.asking import Asking, Found
from headwater.cluster.hands import Jobs, Landlord, Results, Taken
from headwater.cluster.messages import Job, Result
from headwater.cluster.outage import Outage
from headwater.cluster.partition import partition_of
from headwater.cluster.seat import pause
from headwater.cluster.tenancy import Tenancy
from headwater.cluster.timing import DatabaseClock, Timing, awake
from headwater.errors import HeadwaterError
from headwater.fetch.client import Fetcher
from headwater.fetch.errand import Hopped
from headwater.fetch.journey import Way
from headwater.model import Ending, Outcome

LARGEST_QUEUE = 4  # times the concurrency: jobs that wait in here
SWEEPS = 30  # within the longest fetch: looks for fetches whose lease is nearly over

log = structlog.get_logger()


class Terminal:
    """Fetches until it is stopped."""

    def __init__(
        self,
        name: str,
        fetcher: Fetcher,
        landlord: Landlord,
        jobs: Jobs,
        results: Results,
        *,
        timing: Timing,
        concurrency: int = 64,
    ) -> None:
        self.name = name
        self._landlord = landlord
        self._jobs = jobs
        self._results = results
        self.timing = timing
        self.concurrency = concurrency
        self.tenancy = Tenancy(timing.fetch)
        self._hosts = Asking(fetcher, self.tenancy)
        self.changed = asyncio.Event()  # something is held that was not before, or there is room again
        self._leader = 0  # the epoch of the controller that leads, as far as we have heard
        self._clock = DatabaseClock()
        self._hands = 0  # jobs in our hands, until their results are safe
        self._queue: deque[Taken] = deque()  # those of them that are not begun
        self._empty = asyncio.Event()
        self._workers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._outage = Outage(timing)
        self._trying: asyncio.Task[None] | None = None
        names = ("fetched", "refused", "failed", "handed_on", "errands", "unasked", "bytes")
        self.counts = dict.fromkeys(names, 0)
        self._problem: str | None = None

    def clock(self) -> float:
        """The database's time, as far as we know it."""
        return self._clock.now()

    @property
    def problem(self) -> str | None:
        return self._problem if self.away() is None else outage.sentence()

    def away(self) -> tuple[float, tuple[int, ...]] | None:
        """While we reach no server: since when, and the partitions that we need to find out when that is over."""
        return self._outage.told(self.tenancy.held)

    @property
    def room(self) -> int:
        """How many more jobs are welcome."""
        return LARGEST_QUEUE * self.concurrency - self._hands

    @property
    def mine(self) -> list[int]:
        """The partitions whose jobs we want."""
        return self.tenancy.open(awake())

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set: then what is under way ends, and the partitions are free for others."""
        following = asyncio.create_task(self._jobs.follow(self, stop))
        watching = asyncio.create_task(self._watch())
        try:
            while not stop.is_set():
                await self._tend()
                await pause(stop, self.timing.beat / 4 if self.tenancy.moving else self.timing.beat)
            self._outage.end()
            await self._rest()
        finally:
            await _cancelled(following, watching, *filter(None, [self._trying]))
            await _cancelled(*self._tasks)  # no more of them begin
            self._results.abandon()
            await self._leave()

    async def _watch(self) -> None:
        """No fetch lasts longer than the lease it began under, which a machine that was asleep finds over."""
        while True:
            await asyncio.sleep(self.timing.fetch / SWEEPS)
            self._hosts.end_late(2 * self.timing.fetch / SWEEPS)

    async def _rest(self) -> None:
        """Until nothing is in our hands, but not for ever."""
        if self._hands:
            self._empty.clear()
            await pause(self._empty, self.timing.fetch)

    async def _leave(self) -> None:
        try:
            await asyncio.wait_for(self._landlord.leave(self.tenancy.claimed), 5)
        except (HeadwaterError, TimeoutError) as error:
            log.warning("not_taken_leave", error=str(error))

    # partitions

    async def _tend(self) -> None:
        """Tell the landlord what we let go, and hear what is ours."""
        asked, at = awake(), time.time()
        try:
            grant = await asyncio.wait_for(self._landlord.tend(self.tenancy.let_go()), self.timing.beat * 4)
        except (HeadwaterError, TimeoutError) as error:
            self._trouble("partitions_not_tended", str(error) or "Whoever shares out the partitions did not answer.")
            return
        new = self.tenancy.granted(grant, asked, awake())
        self._leader = max(self._leader, grant.controller)
        self._clock.told(grant.clock, at, time.time())
        self._trouble("partitions_not_given", grant.problem)
        if new:
            held, surplus = len(self.tenancy.held), len(self.tenancy.draining)
            log.info("partitions", held=held, new=len(new), surplus=surplus)
        self.changed.set()

    def _trouble(self, event: str, said: str | None) -> None:
        """What is in the way of having partitions; None for nothing. Logged when it is news."""
        if said is not None and said != self._problem:
            log.warning(event, error=said)
        self._problem = said

    # jobs

    def take(self, taken: Taken) -> None:
        """A job has come."""
        job = taken.job
        self._leader = max(self._leader, job.epoch)
        self.tenancy.begin(job.partition)
        self._hands += 1
        self._queue.append(taken)
        if self._workers < self.concurrency:
            self._workers += 1
            self._start(self._serve())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        """One of as many as may fetch at once."""
        try:
            while self._queue:
                await self._work(self._queue.popleft())
        finally:
            self._workers -= 1

    def _over(self, job: Job) -> None:
        """A job is in our hands no more."""
        self.tenancy.end(job.partition)
        self._hands -= 1
        if not self._hands:
            self._empty.set()
        if self.room == self.concurrency:  # there was less: more may come
            self.changed.set()

    def _old(self, job: Job) -> bool:
        """Whether a controller wanted it that leads no more; errands are wanted by somebody else."""
        return job.errand is None and job.epoch < self._leader

    async def _work(self, taken: Taken) -> None:
        """Until the fetch is over. What comes after it may take long, and the next fetch does not wait for that."""
        job = taken.job
        try:
            if (quiet := self._hosts.quiet_after_a_move(job)) > 0:
                await asyncio.sleep(quiet)
            old, epoch = self._old(job), self.tenancy.epoch(job.partition, awake())
            if old or epoch is None:
                self.counts["refused"] += 1
                # Who leads now sees that the old one's job is gone, and chooses for itself.
                await (taken.put_down if old else taken.give_back)()
                self._over(job)
                return
            if self._outage.away_since is not None and not job.wished and job.errand is None:
                self._outage.put_off(job)
                nobody = Outcome(Ending.CONNECTION, job.url, job.url, self.clock(), 0.0)
                self._bring(Result(job, nobody, self.name, epoch, unasked=True), taken)
                return
            found = await self._hosts.in_time(job)
            if isinstance(found, Outcome) and self._outage.untroubled(found):
                self._bring(Result(job, found, self.name, epoch), taken)
            else:
                self._start(self._finish(taken, epoch, found))
        except Exception as error:
            self._failed(job, error)
            self._over(job)

    async def _finish(self, taken: Taken, epoch: int, found: Found | None) -> None:
        """Where there is more to do than to bring the result."""
        job, brought = taken.job, False
        try:
            if found is None:
                self.counts["refused"] += 1
                await taken.give_back()
                return
            if isinstance(found, Way) or (isinstance(found, Hopped) and found.status is not None):
                self._outage.heard(self.clock())
            if isinstance(found, Hopped):
                self.counts["errands"] += 1
                await taken.answer(found)
                return
            if isinstance(found, Way):
                self.counts["handed_on"] += 1
                await taken.hand_on(replace(job, partition=partition_of(found.at), way=found))
                return
            counts = await self._counts(job, found)
            self._bring(Result(job, found, self.name, epoch, unasked=not counts), taken)
            brought = True
        except Exception as error:
            self._failed(job, error)
        finally:
            if not brought:
                self._over(job)

    def _failed(self, job: Job, error: Exception) -> None:
        self.counts["failed"] += 1
        self._problem = f"A job failed: {error}"
        log.error("job_failed", feed=job.feed_id, error=repr(error))

    def _bring(self, result: Result, taken: Taken) -> None:
        self.counts["unasked" if result.unasked else "fetched"] += 1
        self.counts["bytes"] += result.outcome.bytes
        self._results.put(result, partial(self._brought, taken))

    async def _brought(self, taken: Taken, problem: Exception | None) -> None:
        """The result is safe, or cannot be made so."""
        try:
            if problem is not None:
                raise problem
            await taken.done()
        except Exception as error:
            self._failed(taken.job, error)
        finally:
            self._over(taken.job)

    async def _counts(self, job: Job, outcome: Outcome) -> bool:
        """Whether the feed itself is to be judged by this; not if nobody at all answers us."""
        counts = await self._outage.counts(job, outcome, self.clock())
        if self._outage.away_since is not None and (self._trying is None or self._trying.done()):
            self._trying = asyncio.create_task(self._try_again())
        return counts

    async def _try_again(self) -> None:
        """While nobody answers: one of those that were not asked, from time to time, as long as its host is ours."""
        while self._outage.away_since is not None:
            await asyncio.sleep(self._outage.pause)
            job = self._outage.next_try(self.mine)
            epoch = None if job is None else self.tenancy.epoch(job.partition, awake())
            if job is None or epoch is None or self._outage.away_since is None:
                continue
            self.tenancy.begin(job.partition)
            try:
                found = await self._hosts.in_time(job)
                if isinstance(found, Way):
                    self._outage.heard(self.clock())  # the feed is due again soon, and is followed then
                elif isinstance(found, Outcome) and await self._outage.counts(job, found, self.clock()):
                    self.counts["fetched"] += 1
                    await self._kept(Result(job, found, self.name, epoch))
            except Exception as error:
                log.warning("not_tried", feed=job.feed_id, error=repr(error))
            finally:
                self.tenancy.end(job.partition)

    async def _kept(self, result: Result) -> None:
        """A result of which no job is left; until it is safe."""
        over: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        async def then(problem: Exception | None) -> None:
            if not over.done():
                over.set_result(problem)

        self._results.put(result, then)
        if (problem := await over) is not None:
            raise problem


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
