"""A command beside a cluster: who asks hosts then is not the command but the terminal that holds them.

Whether a cluster lives on a database is seen by its lease and its members. Where no terminal is heard of, nobody talks
to hosts, and the command may do so itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import Connection

from headwater.cluster.fetcher_setup import RequestProxy
from headwater.cluster.joining import make_request_proxy
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import CLUSTER_LEASE
from headwater.cluster.transport.nats_connection import connect_nats, redact_address
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.proxied_requests import PostgresRequestProxy, make_timeout_reply
from headwater.errors import ClusterError
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.settings import Settings
from headwater.store import cluster_leases
from headwater.store.store import Store

CONNECT_SECONDS = 5.0  # seconds that NATS is waited for


@asynccontextmanager
async def open_cluster_fetch(settings: Settings, store: Store) -> AsyncIterator[RequestProxy | None]:
    """Requests that the terminals of this database's cluster make; None where there is no cluster, or no terminal.

    ClusterError where there is one that cannot be reached from here.
    """
    carrier = await store.read(_find_carrier, settings.cluster_lease)
    if carrier is None:
        yield None
        return
    if carrier == "postgresql":
        yield _require_answer(PostgresRequestProxy(store).proxy_request)
        return
    if settings.nats is None:
        raise ClusterError(
            "A cluster lives on this database, and its terminals ask the hosts. Give the address of its NATS by --nats "
            "nats://HOST:4222 (or HEADWATER_NATS), so that they can be told to."
        )
    link = await connect_nats(settings.nats, "command", patience=CONNECT_SECONDS)
    try:
        streams = NatsStreams(link, settings.nats_prefix, LeaseTiming(settings.cluster_lease))
        if await streams.read_identity() != carrier:
            raise ClusterError(
                f"NATS at {redact_address(settings.nats)} has no streams of the cluster that lives on this database. "
                "Give the "
                "address of its NATS (--nats), and its prefix if it has one (HEADWATER_NATS_PREFIX)."
            )
        yield _require_answer(make_request_proxy(streams))
    finally:
        await link.close()


def _require_answer(send: RequestProxy) -> RequestProxy:
    """That no terminal answers is no answer of the host, and no feed is to be judged by it."""

    async def sent(hop: RemoteRequest) -> RemoteReply:
        hopped = await send(hop)
        if hopped == make_timeout_reply(hop):
            raise ClusterError(hopped.message)
        return hopped

    return sent


def _find_carrier(connection: Connection, lease: float) -> str | None:
    """What carries the jobs of the cluster that lives here and has a terminal."""
    held = cluster_leases.list_leases(connection, CLUSTER_LEASE)
    if not held or held[0].until <= cluster_leases.read_database_time(connection):
        return None
    fetching = [one for one in cluster_leases.list_members(connection, lease) if one.role in ("terminal", "node")]
    return held[0].holder if fetching else None
