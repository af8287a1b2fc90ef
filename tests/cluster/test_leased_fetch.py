"""A fetch ends before its lease does, and can still be cancelled for other reasons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headwater.cluster.leases.holdings import LeasedHoldings
from headwater.cluster.leases.partitions import partition_of
from headwater.cluster.terminal import LeasedFetch
from headwater.cluster.transport.wire_messages import Grant
from headwater.fetch.client import Fetcher
from headwater.loops import boot_clock
from headwater.node.crawl.transport import Job

URL = "http://127.0.0.1:9/feed"
JOB = Job(1, partition_of(URL), 1, URL, "a test")


@pytest.fixture
async def busy() -> AsyncIterator[Fetcher]:
    """Somebody else talks to the host, and does not stop."""
    async with Fetcher(allow_private=True, ports=(9,)) as fetcher:
        assert fetcher.gate.try_enter("127.0.0.1")
        yield fetcher


def asking(fetcher: Fetcher, seconds: float) -> LeasedFetch:
    tenancy = LeasedHoldings(seconds / 2)
    tenancy.apply_grant(Grant({JOB.partition: 1}, (), seconds, 1, 0.0), boot_clock(), boot_clock())
    return LeasedFetch(fetcher, tenancy)


async def test_a_fetch_whose_turn_does_not_come_ends_before_its_lease_and_nothing_else_does(busy: Fetcher) -> None:
    hosts = asking(busy, 60.0)
    after: list[str] = []

    async def work() -> None:
        after.append(str(await hosts.fetch_job(JOB)))
        await asyncio.sleep(0)
        after.append("the next one")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    hosts.cancel_late(1.0)
    await asyncio.sleep(0.01)
    assert not task.done()  # most of the lease is left
    hosts.cancel_late(61.0)
    hosts.cancel_late(61.0)  # it is looked again before the first has come to its end
    await task
    assert after == ["None", "the next one"]


async def test_who_is_ended_by_another_too_ends(busy: Fetcher) -> None:
    hosts = asking(busy, 60.0)
    task = asyncio.create_task(hosts.fetch_job(JOB))
    await asyncio.sleep(0)
    hosts.cancel_late(61.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
