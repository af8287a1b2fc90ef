"""Fetches for the hosts of the partitions that this process holds, and decides nothing. Needs no database.

A fetch ends before its lease does, and goes to no host that another process may talk to.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Protocol

from headwater.cluster.leases.holdings import LeasedHoldings
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partition_keeper import PartitionKeeper, PartitionSource
from headwater.fetch.client import Fetcher
from headwater.formats.values.domains import registered_domain_of_url
from headwater.loops import boot_clock
from headwater.node.crawl.fetch_pool import FetchOutcome, FetchPool, fetch_hop
from headwater.node.crawl.network_outage import NetworkOutage
from headwater.node.crawl.transport import Job, JobReceiver, ReceivedJob

LOAD_WEIGHT = 0.1  # of the latest report in the load: partitions do not move for a moment's work
SWEEPS_PER_FETCH = 30  # looks for fetches whose lease is nearly over, within the longest fetch


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
        self._concurrency, self._load = concurrency, 0.0
        self.holdings = LeasedHoldings(timing.fetch_seconds)
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

    def measure_load(self) -> float:
        """Return the jobs in hand relative to what can be fetched at once, smoothed over the last reports."""
        self._load += LOAD_WEIGHT * (self.pool.jobs_in_hand / self._concurrency - self._load)
        return self._load

    def find_outage(self) -> tuple[float, tuple[int, ...]] | None:
        """While no server answers: since when, and the partitions needed to find out when that is over."""
        return self.pool.outage.find_outage(self.holdings.held)

    def database_time(self) -> float:
        """Return the database's time, as of its last answer."""
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


class LeasedFetch:
    """Fetches from the hosts of a terminal's partitions."""

    def __init__(self, fetcher: Fetcher, holdings: LeasedHoldings) -> None:
        self._fetcher = fetcher
        self._holdings = holdings
        self._deadlines: dict[asyncio.Task[Any], float] = {}  # until when each may take
        self._late: set[asyncio.Task[Any]] = set()
        fetcher.confirm_requests(self._confirm_lease)

    def quiet_seconds(self, job: Job) -> float:
        """Return how long the job's host must be left alone: the pause after the last holder's fetch holds for us."""
        return self._find_quiet_seconds(job.partition, job.url if job.way is None else job.way.at)

    async def fetch_job(self, job: Job) -> FetchOutcome | None:
        """Fetch a job; None if waiting for the host's turn took so long that the lease nearly ended."""
        task = asyncio.current_task()
        assert task is not None
        self._deadlines[task] = self._holdings.until
        try:
            return await self._fetch(job)
        except asyncio.CancelledError:
            if task in self._late and not task.uncancel():  # nobody else cancelled the task too
                return None
            raise
        finally:
            del self._deadlines[task]
            self._late.discard(task)

    async def cancel_late_fetches(self, fetch_seconds: float) -> None:
        """Cancel fetches that would outlast their lease, also on a machine that was asleep. Runs until cancelled."""
        while True:
            await asyncio.sleep(fetch_seconds / SWEEPS_PER_FETCH)
            self.cancel_late(2 * fetch_seconds / SWEEPS_PER_FETCH)

    def cancel_late(self, within: float) -> None:
        """Cancel the fetches whose lease ends within so many seconds.

        A look at all of them now and then is cheaper than a timer for each, which costs a twentieth of a fetch.
        """
        soon = boot_clock() + within
        for task, until in self._deadlines.items():
            if until < soon:
                self._cancel_fetch(task)

    def _cancel_fetch(self, task: asyncio.Task[Any]) -> None:
        if task not in self._late:
            self._late.add(task)
            task.cancel()

    async def _confirm_lease(self) -> None:
        """Cancel this task's fetch if its lease is over.

        A machine that slept wakes to many timers at once. The turn of a host, or its connection, may come before the
        look at late fetches, so each request looks at the clock itself.
        """
        task = asyncio.current_task()
        if task is not None and self._deadlines.get(task, math.inf) < boot_clock():
            self._cancel_fetch(task)
            await asyncio.sleep(0)  # here the cancellation takes effect

    async def _fetch(self, job: Job) -> FetchOutcome:
        if job.errand is not None:
            return await self._fetcher.run_request(job.errand.hop)
        return await fetch_hop(self._fetcher, job)

    def _find_quiet_seconds(self, partition: int, url: str) -> float:
        """Return how long a host must be left alone after its partition has become ours."""
        now, gate = boot_clock(), self._fetcher.gate
        if not self._holdings.quiet_seconds(partition, gate.longest_gap, now):  # as nearly always, for any host
            return 0.0
        return self._holdings.quiet_seconds(partition, gate.find_gap(registered_domain_of_url(url)), now)
