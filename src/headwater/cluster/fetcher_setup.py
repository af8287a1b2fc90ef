"""Makes the client of a cluster's process: a fetch ends while its partition is leased.

A command beside a cluster fetches through its terminals, which hold the hosts. Members of the database show whether a
cluster lives there. Without a terminal nobody talks to hosts, and the command may do so itself. Each request waits for
a grant of the leader, as those of pages do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import FETCHING_ROLES, NODE_ROLE, find_cluster_id, make_request_proxy
from headwater.cluster.transport.nats_connection import connect_nats, redact_address
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.proxied_requests import (
    GrantedProxy,
    PostgresRequestProxy,
    ProxyRequest,
    make_timeout_reply,
)
from headwater.errors import ClusterError
from headwater.fetch.client import Fetcher
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.node.request_grants import RemoteGrants
from headwater.settings import Settings
from headwater.store import cluster_leases
from headwater.store.store import Store

COURIER_CONNECTIONS = 256  # more than all pools of deliveries and the hub have places

RequestProxy = Callable[[RemoteRequest], Awaitable[RemoteReply]]


def make_fetcher(
    settings: Settings,
    timing: LeaseTiming | None = None,
    clock: Callable[[], float] | None = None,
    proxy: RequestProxy | None = None,
) -> Fetcher:
    """Return the client of a process; in a cluster a fetch ends while its partition is leased.

    With a `proxy`, requests are made by the process that holds the host.
    """
    more: dict[str, Any] = {} if clock is None else {"clock": clock}
    if timing is not None:
        more["deadline"] = timing.fetch_seconds
    return Fetcher(
        allow_private=settings.allow_private,
        contact=settings.contact,
        per_host=settings.per_host,
        pause=settings.host_pause,
        connections=2 * settings.concurrency,
        proxy=proxy,
        **more,
    )


def make_courier(settings: Settings) -> Fetcher:
    """Return the client for web hooks and callbacks of the hub. Their queues limit it, not the pace of fetching."""
    return Fetcher(
        allow_private=settings.allow_private,
        contact=settings.contact,
        per_host=COURIER_CONNECTIONS,
        gap=0.0,
        connections=COURIER_CONNECTIONS,
    )


CONNECT_SECONDS = 5.0  # to wait for NATS


@asynccontextmanager
async def open_cluster_fetch(settings: Settings, store: Store) -> AsyncIterator[RequestProxy | None]:
    """Open a way to have the terminals of this database's cluster make requests; None if no terminal is there.

    Raises ClusterError if the cluster cannot be reached from here.
    """
    fetching, cluster_id = await store.read(_find_cluster, settings.cluster_lease)
    if not fetching:
        yield None
        return
    if NODE_ROLE in fetching:
        yield _grant_requests(store, settings, PostgresRequestProxy(store).proxy_request)
        return
    if settings.nats is None:
        raise ClusterError(
            "A cluster lives on this database, and only its terminals may talk to the hosts. Give the address of its "
            "NATS by --nats nats://HOST:4222 (or HEADWATER_NATS)."
        )
    link = await connect_nats(settings.nats, "command", patience=CONNECT_SECONDS)
    try:
        streams = NatsStreams(link, settings.nats_prefix, LeaseTiming(settings.cluster_lease))
        if cluster_id is None or await streams.read_cluster_id() != cluster_id:
            raise ClusterError(
                f"NATS at {redact_address(settings.nats)} has no streams of the cluster that lives on this database. "
                "Give the address of its NATS (--nats), and its prefix if it has one (HEADWATER_NATS_PREFIX)."
            )
        yield _grant_requests(store, settings, make_request_proxy(streams))
    finally:
        await link.close()


def _grant_requests(store: Store, settings: Settings, send: ProxyRequest) -> RequestProxy:
    grants = RemoteGrants(store, begin_seconds=LeaseTiming(settings.cluster_lease).begin_seconds)
    return _require_answer(GrantedProxy(grants, send).proxy_request)


def _require_answer(send: RequestProxy) -> RequestProxy:
    """Raise ClusterError if no terminal answers: that says nothing about the host."""

    async def sent(hop: RemoteRequest) -> RemoteReply:
        hopped = await send(hop)
        if hopped == make_timeout_reply(hop):
            raise ClusterError(hopped.message)
        return hopped

    return sent


def _find_cluster(connection: Connection, lease: float) -> tuple[frozenset[str], str | None]:
    """Return the roles of living members that fetch, and the id of the cluster."""
    members = cluster_leases.list_members(connection, lease)
    return frozenset(one.role for one in members) & FETCHING_ROLES, find_cluster_id(connection)
