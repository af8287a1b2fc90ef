"""Keeps the partitions of a fetch pool: renews their leases, applies grants and releases drained ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Protocol

import structlog

from headwater.cluster.leases.holdings import LeasedHoldings
from headwater.cluster.leases.lease_clock import DatabaseClock, LeaseTiming
from headwater.cluster.transport.wire_messages import Grant
from headwater.errors import HeadwaterError
from headwater.loops import boot_clock, pause

LEAVE_SECONDS = 5.0  # that leaving may take

log = structlog.get_logger()


class PartitionSource(Protocol):
    """Grants partitions: the database itself, or the leader by NATS."""

    async def renew_partitions(self, drained: Mapping[int, int]) -> Grant: ...

    async def release_partitions(self, held: Mapping[int, int]) -> None: ...


class PartitionKeeper:
    """Keeps `holdings` up to date until it is stopped. `demand_changed` is set with every grant."""

    def __init__(
        self, source: PartitionSource, holdings: LeasedHoldings, timing: LeaseTiming, demand_changed: asyncio.Event
    ) -> None:
        self._source = source
        self._holdings = holdings
        self._timing = timing
        self._demand_changed = demand_changed
        self._clock = DatabaseClock()
        self.problem: str | None = None

    def database_time(self) -> float:
        """Return the database's time, as of its last answer."""
        return self._clock.now()

    async def run(self, stop: asyncio.Event) -> None:
        """Renew until `stop` is set; `leave` afterwards, when nothing is fetched any more."""
        heartbeat = self._timing.heartbeat_seconds
        while not stop.is_set():
            await self.renew()
            await pause(stop, heartbeat / 4 if self._holdings.is_moving else heartbeat)

    async def renew(self) -> None:
        """Report drained partitions to the source, and apply its grant."""
        asked, at = boot_clock(), time.time()
        try:
            drained = self._holdings.release_drained()
            grant = await asyncio.wait_for(self._source.renew_partitions(drained), self._timing.heartbeat_seconds * 4)
        except (HeadwaterError, TimeoutError) as error:
            self._note_problem("partitions_not_renewed", str(error) or "The source of partitions did not answer.")
            return
        new = self._holdings.apply_grant(grant, asked, boot_clock())
        self._clock.correct(grant.clock, at, time.time())
        self._note_problem("partitions_not_granted", grant.problem)
        if new:
            held, surplus = len(self._holdings.held), len(self._holdings.draining)
            log.info("partitions_changed", held=held, new=len(new), surplus=surplus)
        self._demand_changed.set()

    async def leave(self) -> None:
        """Release all partitions for others."""
        try:
            await asyncio.wait_for(self._source.release_partitions(self._holdings.claimed), LEAVE_SECONDS)
        except (HeadwaterError, TimeoutError) as error:
            log.warning("partitions_not_released", error=str(error))

    def _note_problem(self, event: str, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            log.warning(event, error=problem)
        self.problem = problem
