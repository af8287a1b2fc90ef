"""That all members of a cluster mean the same cluster, and that their clocks agree with the database's.

Two clusters on one database would fetch everything twice: the first one holds a lease that names what carries its jobs,
every member renews it, and one that means something else is refused while it lasts.
"""

from __future__ import annotations

import time

import structlog
from sqlalchemy import Connection

from headwater.cluster.timing import LeaseTiming
from headwater.errors import ClusterError
from headwater.store import leases
from headwater.store.store import Store

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
        now = await self._store.read(leases.read_database_time)
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
    if leases.acquire_lease(connection, CLUSTER_LEASE, carrier, seconds) is not None:
        return None
    return leases.list_leases(connection, CLUSTER_LEASE)[0].holder


def _describe_carrier(carrier: str) -> str:
    return "PostgreSQL alone" if carrier == "postgresql" else f"NATS ({carrier})"
