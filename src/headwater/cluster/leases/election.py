"""Runs a part in one process at a time: waits for its lease, works while it holds it, and releases it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable

import structlog

from headwater.errors import HeadwaterError
from headwater.loops import RepeatFilter, boot_clock, pause
from headwater.store import cluster_leases
from headwater.store.cluster_leases import ClusterLease
from headwater.store.store import Store

ASK_DELAY = 0.02  # seconds after its end at which a lease is tried
GRACE_LEASES = 2  # leases beyond its own after which a holder that could not renew gives up

log = structlog.get_logger()

ElectedWork = Callable[[ClusterLease, asyncio.Event], Awaitable[None]]


class LeaseTerm:
    """A lease as its holder sees it, by its own clock, from the moment when it asked for the lease."""

    def __init__(self, seconds: float, asked: float) -> None:
        self._seconds = seconds
        self._valid_until = asked + seconds

    def renew(self, asked: float) -> None:
        self._valid_until = asked + self._seconds

    def is_valid(self, now: float) -> bool:
        """Whether the lease is ours for sure: our clock began before the database's."""
        return now < self._valid_until

    def is_hopeless(self, now: float) -> bool:
        """Whether a holder that cannot renew gives up.

        When the lease has ended, perhaps nobody else took it: a process that was starved, or whose database is slow,
        goes on with it for a while. The epoch protects every write meanwhile.
        """
        return now > self._valid_until + GRACE_LEASES * self._seconds


class Election:
    """A lease that several processes want. `run` calls the work with the lease and an event that ends it."""

    def __init__(self, store: Store, name: str, holder: str, seconds: float) -> None:
        self._store = store
        self.name = name
        self._holder = holder
        self._seconds = seconds
        self.lease: ClusterLease | None = None
        self._term = LeaseTerm(seconds, -math.inf)
        self._repeat_filter = RepeatFilter()

    @property
    def is_valid(self) -> bool:
        """Whether the lease is ours by our own clock, which began before the database's."""
        return self.lease is not None and self._term.is_valid(boot_clock())

    async def run(self, work: ElectedWork, stop: asyncio.Event) -> None:
        """Take the lease and work, again and again, until `stop` is set.

        Failed work is logged; the lease is released and may be taken again later.
        """
        while not stop.is_set():
            held = await self._take_lease()
            if held is None:
                await pause(stop, await self._seconds_until_free())
                continue
            log.info("elected", lease=self.name, epoch=held.epoch)
            await self._run_term(held, work, stop)
            log.info("resigned", lease=self.name, epoch=held.epoch)

    async def _take_lease(self) -> ClusterLease | None:
        asked = boot_clock()
        try:
            self.lease = await self._store.write(cluster_leases.acquire_lease, self.name, self._holder, self._seconds)
        except HeadwaterError as error:
            if self._repeat_filter.is_news(str(error)):
                log.warning("election_failed", lease=self.name, error=str(error))
            return None
        self._repeat_filter.reset()
        self._term = LeaseTerm(self._seconds, asked)
        return self.lease

    async def _seconds_until_free(self) -> float:
        """Return the seconds until the next try: at the moment when the lease ends, unless it is renewed."""
        most = self._seconds / 5
        try:
            return min(most, await self._store.read(cluster_leases.count_seconds_left, self.name) + ASK_DELAY)
        except HeadwaterError:
            return most

    async def _run_term(self, held: ClusterLease, work: ElectedWork, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        keeping = asyncio.create_task(self._renew_lease(held, stop, over))
        try:
            await work(held, over)
        except Exception as error:
            log.error("elected_work_failed", lease=self.name, error=repr(error))
            await pause(stop, self._seconds / 5)
        finally:
            over.set()
            await asyncio.gather(keeping, return_exceptions=True)
            self.lease = None
            with contextlib.suppress(HeadwaterError):
                await self._store.write(cluster_leases.release_lease, held)

    async def _renew_lease(self, held: ClusterLease, stop: asyncio.Event, over: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: over.set())
        try:
            while not over.is_set():
                await pause(over, self._seconds / 4)
                asked = boot_clock()
                try:
                    kept = await asyncio.wait_for(
                        self._store.write_one(cluster_leases.renew_lease, held, self._seconds), self._seconds
                    )
                except (HeadwaterError, TimeoutError) as error:
                    log.warning("lease_not_renewed", lease=self.name, error=str(error))
                    if self._term.is_hopeless(boot_clock()):
                        over.set()
                    continue
                if kept is None:
                    log.warning("lease_lost", lease=self.name, epoch=held.epoch)
                    over.set()
                else:
                    self._term.renew(asked)
        finally:
            stopping.cancel()
