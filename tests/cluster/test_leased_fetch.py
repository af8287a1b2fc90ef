"""A fetch ends before its lease does, and can still be cancelled for other reasons."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
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
    """Keep the host busy with another request that does not end."""
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
    assert not task.done()  # most of the lease remains
    hosts.cancel_late(61.0)
    hosts.cancel_late(61.0)  # a second check before the first cancellation has finished
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


class CountingServer:
    """Counts requests and answers them."""

    def __init__(self) -> None:
        self.requests = 0

    async def __aenter__(self) -> CountingServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/feed"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def stop_loop() -> None:
    time.sleep(0.5)


async def fetch_and_sleep(server: CountingServer, *, opens_connection: bool, patch: pytest.MonkeyPatch) -> None:
    """Stop the event loop for longer than a lease, as a stopped process is, just before a request is sent."""
    connect = aiohttp.TCPConnector.connect

    async def sleep_when_connected(self: aiohttp.TCPConnector, *given: Any, **named: Any) -> object:
        connection = await connect(self, *given, **named)
        stop_loop()
        return connection

    async with Fetcher(allow_private=True, ports=(server.port,), pause=0.1) as fetcher:
        job = Job(1, partition_of(server.url), 1, server.url, "a test")
        hosts = asking(fetcher, 0.4)
        sweeps = asyncio.create_task(hosts.cancel_late_fetches(9.0))  # the next one is due after the sleep
        if opens_connection:
            patch.setattr(aiohttp.TCPConnector, "connect", sleep_when_connected)
            assert await hosts.fetch_job(job) is None
        else:
            assert await hosts.fetch_job(job) is not None
            waiting = asyncio.create_task(hosts.fetch_job(job))
            await asyncio.sleep(0.01)
            stop_loop()
            assert await waiting is None
        sweeps.cancel()
        await asyncio.sleep(0.05)


async def test_a_fetch_that_waited_for_its_turn_while_its_lease_ended_sends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with CountingServer() as server:
        await fetch_and_sleep(server, opens_connection=False, patch=monkeypatch)
        assert server.requests == 1  # the one before


async def test_a_fetch_that_waited_for_a_connection_while_its_lease_ended_sends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with CountingServer() as server:
        await fetch_and_sleep(server, opens_connection=True, patch=monkeypatch)
        assert server.requests == 0
