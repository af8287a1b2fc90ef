"""Carries jobs and results inside one process: a single server with SQLite.

A process that dies takes its jobs with it, so a dispatcher never finds jobs in flight when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from headwater.fetch.http.remote_session import RemoteReply
from headwater.loops import pause, set_with
from headwater.node.crawl.transport import FetchResult, Intake, Job, OnSafe, ReceivedJob, ResultBatch

MAX_BATCH = 256
LINGER = 0.1  # seconds that a result waits for others: storing and learning one costs as much as ten together


class MemoryTransport:
    """Hands jobs and results over as lists."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._jobs_ready = asyncio.Event()
        self._open: set[int] = set()  # feeds whose jobs are not fetched yet
        self._batch_ready = asyncio.Event()
        self._results: list[FetchResult] = []
        self._results_ready = asyncio.Event()

    # dispatcher

    async def send_jobs(self, jobs: Sequence[Job]) -> set[int]:
        feeds = {job.feed_id for job in jobs}
        self._open |= feeds
        self._jobs += jobs
        self._jobs_ready.set()
        return feeds

    @property
    def open_count(self) -> int:
        """The number of jobs that wait or are being fetched."""
        return len(self._open)

    async def list_in_flight(self) -> set[int]:
        return set()

    async def find_newest_result(self) -> int:
        return 0

    async def is_stored_up_to(self, number: int) -> bool:
        return True

    async def count_backlog(self) -> int:
        return len(self._results)

    # fetch pool

    async def receive_jobs(self, intake: Intake) -> AsyncIterator[Sequence[ReceivedJob]]:
        while True:
            await self._jobs_ready.wait()
            self._jobs_ready.clear()
            jobs, self._jobs = self._jobs, []
            yield [ReceivedJob(job) for job in jobs]

    async def ack_job(self, received: ReceivedJob) -> None:
        """The result has been handed over already."""

    async def give_back(self, received: ReceivedJob) -> None:
        await self.send_jobs([received.job])

    async def drop_job(self, received: ReceivedJob) -> None:
        self._close_job(received.job)

    async def reply(self, received: ReceivedJob, reply: RemoteReply) -> None:
        raise NotImplementedError("a single process makes its requests itself")

    async def send_result(self, result: FetchResult, on_safe: OnSafe) -> None:
        self._results.append(result)
        self._results_ready.set()
        self._close_job(result.job)
        await on_safe(None)

    def abandon_results(self) -> None:
        """Results are handed over at once."""

    def _close_job(self, job: Job) -> None:
        self._open.discard(job.feed_id)
        if job.wished or not self._open:
            self._batch_ready.set()

    # ingest

    async def receive_results(self, stop: asyncio.Event) -> AsyncIterator[ResultBatch]:
        async with set_with(stop, self._results_ready):
            while True:
                await self._results_ready.wait()
                if not self._results:
                    return
                if not stop.is_set():
                    await pause(self._batch_ready, LINGER)
                batch, self._results = self._results[:MAX_BATCH], self._results[MAX_BATCH:]
                if not self._results and not stop.is_set():
                    self._results_ready.clear()
                    self._batch_ready.clear()
                yield ResultBatch(batch)

    async def ack_results(self, batch: ResultBatch) -> None:
        """Nothing was kept."""

    async def keep_results(self, batch: ResultBatch) -> None:
        """Nobody else waits for them."""

    async def reject_results(self, batch: ResultBatch, failed: Sequence[tuple[FetchResult, Exception]]) -> None:
        """The dispatcher hears of them from ingest."""
