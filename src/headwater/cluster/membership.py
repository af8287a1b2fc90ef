"""That all members of a cluster mean the same cluster, and that their clocks agree with the database's.

Two clusters on one database would fetch everything twice: the first one holds a lease that names what carries its jobs,
every member renews it, and one that means something else is refused while it lasts.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import structlog
from sqlalchemy import Connection

from headwater import __version__
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partition_grants import encode_report
from headwater.cluster.transport.wire_messages import MemberReport
from headwater.errors import ClusterError, HeadwaterError
from headwater.loops import run_every
from headwater.settings import Settings
from headwater.store import cluster_leases
from headwater.store.store import Store


class LocalMember:
    """`counts` and `problems` are asked whenever somebody wants to know; of problems the first is told."""

    def __init__(
        self,
        settings: Settings,
        role: str,
        *,
        capacity: int = 0,
        counts: Callable[[], Mapping[str, int]] = dict,
        problems: Sequence[Callable[[], str | None]] = (),
        outage: Callable[[], tuple[float, tuple[int, ...]] | None] = lambda: None,
    ) -> None:
        """`outage` is since when no server answers, and which partitions are needed to find out when that is over."""
        self.name = settings.member or f"{role}-{socket.gethostname()}-{os.getpid()}"
        self.role = role
        self._capacity = capacity
        self.counts = counts
        self.problems = list(problems)
        self.outage = outage
        self._started = time.time()

    def make_report(self) -> MemberReport:
        used = resource.getrusage(resource.RUSAGE_SELF)
        since, keep = self.outage() or (None, ())
        return MemberReport(
            self.name,
            self.role,
            __version__,
            self._started,
            time.time(),
            self._capacity if since is None else 0,
            dict(self.counts()),
            used.ru_utime + used.ru_stime,
            next(filter(None, (problem() for problem in self.problems)), None),
            socket.gethostname(),
            since,
            keep,
        )


CLUSTER_LEASE = "cluster"
MAX_CLOCK_SKEW = 2.0  # seconds of difference between clocks that are worth a sentence

log = structlog.get_logger()


class Membership:
    """`carrier` says what carries jobs: "postgresql", or the identity of the NATS streams."""

    def __init__(self, store: Store, carrier: str, timing: LeaseTiming) -> None:
        self._store = store
        self._carrier = carrier
        self._timing = timing
        self.clock_offset = 0.0  # what our clock lacks to the database's
        self.problem: str | None = None

    async def join_cluster(self) -> None:
        """ClusterError while another cluster lives on this database."""
        holder = await self._store.write(_claim_cluster, self._carrier, self._timing.lease)
        if holder is not None:
            raise ClusterError(
                f"Another cluster lives on this database: its jobs go by {_describe_carrier(holder)}, ours would go by "
                f"{_describe_carrier(self._carrier)}. Give this one a database of its own, or stop the other and wait "
                f"{self._timing.lease:.0f} seconds."
            )

    async def heartbeat(self) -> None:
        """Renew the common lease and compare clocks."""
        began = time.time()
        await self.join_cluster()
        now = await self._store.read(cluster_leases.read_database_time)
        ended = time.time()
        self.clock_offset = now - (began + ended) / 2
        wrong = abs(self.clock_offset) > MAX_CLOCK_SKEW + (ended - began) / 2
        self.problem = describe_clock_skew(self.clock_offset) if wrong else None
        if self.problem:
            log.warning("clock_is_wrong", message=self.problem)


def describe_clock_skew(offset: float) -> str:
    """The sentence about a clock."""
    way = "behind" if offset > 0 else "ahead of"
    return (
        f"The clock of this machine is {abs(offset):.0f} seconds {way} the database's. Leases go by the database's "
        "clock and stay right; set this clock (NTP) so that the times of refreshes are right too."
    )


def _claim_cluster(connection: Connection, carrier: str, seconds: float) -> str | None:
    """None when we belong, else who has the database."""
    if cluster_leases.acquire_lease(connection, CLUSTER_LEASE, carrier, seconds) is not None:
        return None
    return cluster_leases.list_leases(connection, CLUSTER_LEASE)[0].holder


def _describe_carrier(carrier: str) -> str:
    return "PostgreSQL alone" if carrier == "postgresql" else f"NATS ({carrier})"


@asynccontextmanager
async def send_heartbeats(
    store: Store, membership: Membership, identity: LocalMember, timing: LeaseTiming
) -> AsyncIterator[None]:
    """For as long as the block runs, for who has joined."""

    async def stay() -> None:
        await membership.heartbeat()
        await store.write_one(
            cluster_leases.record_heartbeat, identity.name, identity.role, encode_report(identity.make_report())
        )

    await stay()
    stop = asyncio.Event()
    staying = asyncio.create_task(run_every(timing.heartbeat_seconds, stay, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(staying, return_exceptions=True)
        try:
            await store.write(cluster_leases.remove_member, identity.name)
        except HeadwaterError as error:
            log.warning("not_taken_leave", error=str(error))
