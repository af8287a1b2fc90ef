"""Fetches for the hosts of the partitions that this process holds, and decides nothing. Needs no database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from headwater.cluster.leased_fetch import LeasedFetch
from headwater.cluster.leases.holdings import Holdings
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partition_keeper import PartitionKeeper, PartitionSource
from headwater.fetch.client import Fetcher
from headwater.node.crawl.fetch_pool import FetchPool
from headwater.node.crawl.network_outage import NetworkOutage
from headwater.node.crawl.transport import JobReceiver, ReceivedJob


class TerminalTransport(JobReceiver, PartitionSource, Protocol):
    """Brings jobs, takes results, and grants partitions."""


class Terminal:
    """A fetch pool with the leases under which it fetches."""

    def __init__(
        self,
        name: str,
        fetcher: Fetcher,
        transport: TerminalTransport,
        *,
        timing: LeaseTiming,
        concurrency: int = 64,
    ) -> None:
        self._timing = timing
        self.holdings = Holdings(timing.fetch_seconds)
        self._leased_fetch = LeasedFetch(fetcher, self.holdings)
        # A result is not missed before three quarters of a lease; a failed feed would have to wait longer.
        outage = NetworkOutage(hold=timing.lease * 0.75, probe=timing.lease / 4, patience=timing.leader_seconds)
        self.pool = FetchPool(
            name,
            transport,
            self._leased_fetch,
            holdings=self.holdings,
            outage=outage,
            concurrency=concurrency,
            stop_seconds=timing.fetch_seconds,
            clock=self.database_time,
        )
        self._keeper = PartitionKeeper(transport, self.holdings, timing, self.pool.demand_changed)

    @property
    def counts(self) -> dict[str, int]:
        return {**self.pool.counts, "held": len(self.holdings.held)}

    @property
    def problem(self) -> str | None:
        return self.pool.problem or self._keeper.problem

    def find_outage(self) -> tuple[float, tuple[int, ...]] | None:
        """While no server answers: since when, and the partitions needed to find out when that is over."""
        return self.pool.outage.find_outage(self.holdings.held)

    def database_time(self) -> float:
        """Return the database's time, as far as we know it."""
        return self._keeper.database_time()

    async def run(self, stop: asyncio.Event) -> None:
        """Fetch until `stop` is set; then let running fetches end, and release the partitions for others."""
        beside: Sequence[asyncio.Task[None]] = (
            asyncio.create_task(self._keeper.run(stop)),
            asyncio.create_task(self._leased_fetch.cancel_late_fetches(self._timing.fetch_seconds)),
        )
        try:
            await self.pool.run(stop)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._keeper.leave()

    def accept_job(self, received: ReceivedJob) -> None:
        self.pool.accept_job(received)
