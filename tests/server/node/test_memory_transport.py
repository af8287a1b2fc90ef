"""Results wait for others of their batch, but not those that a person waits for."""

from __future__ import annotations

import asyncio

import pytest

from headwater.model import Ending, Outcome
from headwater.node.crawl import memory_transport
from headwater.node.crawl.memory_transport import MemoryTransport
from headwater.node.crawl.transport import FetchResult, Job


async def fetch_and_store(transport: MemoryTransport, jobs: list[Job], fetched: list[Job]) -> list[int]:
    """Send jobs, hand in the results of some, and return the feeds of the next batch."""

    async def ignore(problem: Exception | None) -> None:
        pass

    await transport.send_jobs(jobs)
    for job in fetched:
        outcome = Outcome(Ending.UNCHANGED, job.url, job.url, 0.0, 0.0)
        await transport.send_result(FetchResult(job, outcome), ignore)
    batches = transport.receive_results(asyncio.Event())
    async with asyncio.timeout(1.0):
        return [one.feed_id for one in (await anext(batches)).results]


def make_job(feed_id: int, *, wished: bool = False) -> Job:
    return Job(feed_id, 0, feed_id, f"https://example.org/{feed_id}", "due", wished=wished)


@pytest.mark.parametrize("linger", [0.05, 60.0])
async def test_results_wait_until_all_are_fetched_or_a_while_has_passed(
    linger: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_transport, "LINGER", linger)
    jobs = [make_job(1), make_job(2), make_job(3)]
    assert await fetch_and_store(MemoryTransport(), jobs, jobs) == [1, 2, 3]
    if linger < 1:
        assert await fetch_and_store(MemoryTransport(), jobs, jobs[:2]) == [1, 2]
    else:
        with pytest.raises(TimeoutError):
            await fetch_and_store(MemoryTransport(), jobs, jobs[:2])


async def test_a_result_that_a_person_waits_for_is_stored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_transport, "LINGER", 60.0)
    jobs = [make_job(1), make_job(2, wished=True), make_job(3)]
    assert await fetch_and_store(MemoryTransport(), jobs, jobs[:2]) == [1, 2]
