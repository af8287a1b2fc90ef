"""Joins a cluster: opens the database and NATS, checks that they belong together, and sends heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import NATS_ROLES, LocalMember, Membership, load_cluster_id, send_heartbeats
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_dispatch import publish_jobs
from headwater.cluster.transport.nats_errors import NatsUnavailable
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.proxied_requests import NatsRequestProxy, ProxyRequest
from headwater.errors import ClusterError, SettingsError, StoreError
from headwater.loops import boot_clock
from headwater.settings import Settings
from headwater.store import cluster_leases
from headwater.store.database.driver_errors import may_pass
from headwater.store.opening import open_store
from headwater.store.store import Store

T = TypeVar("T")
MAX_WAIT = 60.0  # seconds of the longest pause before a database that is away is given up
STREAM_POLL_SECONDS = 0.2

log = structlog.get_logger()


@dataclass(slots=True)
class JoinedCluster:
    """A process that has joined, with its streams, its store and the id of its cluster."""

    streams: NatsStreams
    timing: LeaseTiming
    store: Store
    cluster_id: str


def make_request_proxy(streams: NatsStreams) -> ProxyRequest:
    """Return a function that has terminals make requests."""
    return NatsRequestProxy(streams.link, partial(publish_jobs, streams)).proxy_request


def require_nats_address(settings: Settings) -> str:
    if settings.nats is None:
        raise SettingsError("This role needs NATS: give its address by --nats nats://HOST:4222 (or HEADWATER_NATS).")
    return settings.nats


async def open_store_patiently(url: str) -> Store:
    """Open the database; wait for one that is away, but not for one that refuses us."""
    wait = 0.5
    while True:
        try:
            return await open_store(url)
        except StoreError as error:
            if not may_pass(error.__cause__) or wait > MAX_WAIT:
                raise
            log.warning("database_not_reached", error=str(error), again_in=wait)
            await asyncio.sleep(wait)
            wait *= 2


@asynccontextmanager
async def join_cluster(settings: Settings, member: LocalMember) -> AsyncIterator[JoinedCluster]:
    """Join with database and NATS, both checked; leave at the end."""
    if not settings.database_url.startswith("postgres"):
        raise SettingsError("A cluster needs PostgreSQL: give its address by --database postgresql://USER@HOST/NAME.")
    link = await connect_nats(require_nats_address(settings), member.name)
    timing = LeaseTiming(settings.cluster_lease)
    streams = NatsStreams(link, settings.nats_prefix, timing)
    try:
        async with await open_store_patiently(settings.database_url) as store:
            membership = Membership(store, member, timing, uses_nats=True)
            await membership.require_same_kind()  # before streams are made in vain
            cluster_id = await load_cluster_id(store)
            await _wait_for_streams(streams, partial(_ensure_streams, streams, store, cluster_id))
            member.problems = [lambda: streams.retry.problem, lambda: membership.problem]
            async with send_heartbeats(membership, timing):
                log.info("joined", member=member.name, role=member.role)
                yield JoinedCluster(streams, timing, store, cluster_id)
    finally:
        if not link.is_closed:
            await link.close()
    log.info("stopped", member=member.name)


async def _ensure_streams(streams: NatsStreams, store: Store, cluster_id: str) -> None:
    """Make missing streams, unless the cluster lives: then it has some elsewhere, or makes them anew in a moment."""
    end = boot_clock() + streams.timing.lease
    while await streams.read_cluster_id() is None and await _has_nats_members(store, streams.timing):
        if boot_clock() > end:
            raise ClusterError(
                "Another cluster lives on this database, and this NATS has no streams of it. Give the address of its "
                "NATS, or a database of its own."
            )
        await asyncio.sleep(STREAM_POLL_SECONDS)
    await streams.ensure_streams(cluster_id)


async def _has_nats_members(store: Store, timing: LeaseTiming) -> bool:
    members = await store.read(cluster_leases.list_members, timing.lease)
    return any(one.role in NATS_ROLES for one in members)


async def _wait_for_streams(streams: NatsStreams, work: Callable[[], Awaitable[T]]) -> T:
    """Do what needs the streams at the start; wait for a JetStream that is out of service, but not for ever."""
    end = boot_clock() + MAX_WAIT
    return await streams.retry.retry_until_done(
        "streams", "RESULTS", work, until=lambda problem: not isinstance(problem, NatsUnavailable) or boot_clock() > end
    )


@asynccontextmanager
async def join_postgres(settings: Settings, member: LocalMember) -> AsyncIterator[Store]:
    """Join nodes on a shared database as a member that fetches nothing."""
    timing = LeaseTiming(settings.cluster_lease)
    async with (
        await open_store(settings.database_url) as store,
        send_heartbeats(Membership(store, member, timing, uses_nats=False), timing),
    ):
        yield store
