"""A command beside a cluster: who asks hosts then is not the command but the terminal that holds them.

Whether a cluster lives on a database is seen by its lease and its members. Where no terminal is heard of, nobody talks
to hosts, and the command may do so itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import Connection

from headwater.cluster.errands import PostgresErrands, unanswered
from headwater.cluster.fetchers import Errands
from headwater.cluster.link import connect, shown
from headwater.cluster.membership import CLUSTER
from headwater.cluster.roles import by_terminals
from headwater.cluster.streams import Streams
from headwater.cluster.timing import Timing
from headwater.errors import ClusterError
from headwater.fetch.errand import Hop, Hopped
from headwater.settings import Settings
from headwater.store import leases
from headwater.store.store import Store

PATIENCE = 5.0  # seconds that NATS is waited for


@asynccontextmanager
async def terminals(settings: Settings, store: Store) -> AsyncIterator[Errands | None]:
    """Requests that the terminals of this database's cluster make; None where there is no cluster, or no terminal.

    ClusterError where there is one that cannot be reached from here.
    """
    carrier = await store.read(_carrier, settings.cluster_lease)
    if carrier is None:
        yield None
        return
    if carrier == "postgresql":
        yield _answered(PostgresErrands(store).send)
        return
    if settings.nats is None:
        raise ClusterError(
            "A cluster lives on this database, and its terminals ask the hosts. Give the address of its NATS by --nats "
            "nats://HOST:4222 (or HEADWATER_NATS), so that they can be told to."
        )
    link = await connect(settings.nats, "command", patience=PATIENCE)
    try:
        streams = Streams(link, settings.nats_prefix, Timing(settings.cluster_lease))
        if await streams.identity() != carrier:
            raise ClusterError(
                f"NATS at {shown(settings.nats)} has no streams of the cluster that lives on this database. Give the "
                "address of its NATS (--nats), and its prefix if it has one (HEADWATER_NATS_PREFIX)."
            )
        yield _answered(by_terminals(streams))
    finally:
        await link.close()


def _answered(send: Errands) -> Errands:
    """That no terminal answers is no answer of the host, and no feed is to be judged by it."""

    async def sent(hop: Hop) -> Hopped:
        hopped = await send(hop)
        if hopped == unanswered(hop):
            raise ClusterError(hopped.message)
        return hopped

    return sent


def _carrier(connection: Connection, lease: float) -> str | None:
    """What carries the jobs of the cluster that lives here and has a terminal."""
    held = leases.read(connection, CLUSTER)
    if not held or held[0].until <= leases.clock(connection):
        return None
    fetching = [one for one in leases.members(connection, lease) if one.role in ("terminal", "node")]
    return held[0].holder if fetching else None
