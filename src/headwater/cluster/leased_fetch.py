"""Fetches under a lease: a fetch ends before its lease does, and goes to no host that another process may talk to."""

from __future__ import annotations

import asyncio
from typing import Any

from headwater.cluster.leases.holdings import Holdings
from headwater.cluster.leases.partitions import partition_of
from headwater.fetch.client import Fetcher
from headwater.fetch.http.domains import registered_domain_of_url
from headwater.loops import boot_clock
from headwater.node.crawl.fetch_pool import FetchOutcome
from headwater.node.crawl.transport import Job

SWEEPS_PER_FETCH = 30  # looks for fetches whose lease is nearly over, within the longest fetch


class LeasedFetch:
    """A terminal's way to the hosts of its partitions."""

    def __init__(self, fetcher: Fetcher, holdings: Holdings) -> None:
        self._fetcher = fetcher
        self._holdings = holdings
        self._deadlines: dict[asyncio.Task[Any], float] = {}  # until when each may take
        self._late: set[asyncio.Task[Any]] = set()

    def quiet_seconds(self, job: Job) -> float:
        """Seconds: the last holder's pause between two fetches of a host holds for us too."""
        return self._find_quiet_seconds(job.partition, job.url if job.way is None else job.way.at)

    async def fetch_job(self, job: Job) -> FetchOutcome | None:
        """A fetch has its own limit, but not the wait for the host's turn before it; None where that took too long."""
        task = asyncio.current_task()
        assert task is not None
        self._deadlines[task] = self._holdings.until
        try:
            return await self._fetch(job)
        except asyncio.CancelledError:
            if task in self._late and not task.uncancel():  # nobody else has ended us too
                return None
            raise
        finally:
            del self._deadlines[task]
            self._late.discard(task)

    async def cancel_late_fetches(self, fetch_seconds: float) -> None:
        """Cancel fetches that would outlast their lease, which a machine that was asleep finds over; until
        cancelled."""
        while True:
            await asyncio.sleep(fetch_seconds / SWEEPS_PER_FETCH)
            self.cancel_late(2 * fetch_seconds / SWEEPS_PER_FETCH)

    def cancel_late(self, within: float) -> None:
        """End what has not ended so many seconds before its lease does. Called as often as that: a timer for each fetch
        would cost a twentieth of the fetch."""
        soon = boot_clock() + within
        for task, until in self._deadlines.items():
            if until < soon and task not in self._late:
                self._late.add(task)
                task.cancel()

    async def _fetch(self, job: Job) -> FetchOutcome:
        """A redirect to a host of another partition is followed by who holds that: one at a time talks to a host. So is
        one to a partition that has just become ours, which comes back to us as a job and waits its turn.
        """
        if job.errand is not None:
            return await self._fetcher.run_request(job.errand.hop)
        given: dict[str, Any] = {"body_hash": job.body_hash, "delta": job.delta, "way": job.way}
        led_to: list[int] = []

        def mine(url: str) -> bool:
            p = partition_of(url)
            if (
                p != job.partition
                and self._holdings.find_epoch(p, boot_clock()) is not None
                and not self._find_quiet_seconds(p, url)
            ):
                led_to.append(p)  # worked on from here on, so that it is not let go meanwhile
                self._holdings.begin_job(p)
            return p == job.partition or p in led_to

        try:
            return await self._fetcher.fetch_until_handover(job.url, job.validators, mine=mine, **given)
        finally:
            for p in led_to:
                self._holdings.end_job(p)

    def _find_quiet_seconds(self, partition: int, url: str) -> float:
        """Seconds for which a host is left alone after its partition has become ours."""
        now, gate = boot_clock(), self._fetcher.gate
        if not self._holdings.quiet_seconds(partition, gate.longest_gap, now):  # as nearly always: whichever host it is
            return 0.0
        return self._holdings.quiet_seconds(partition, gate.find_gap(registered_domain_of_url(url)), now)
