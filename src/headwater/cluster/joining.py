"""Joins a cluster: opens the database and NATS, checks that they belong together, and sends heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from headwater.cluster.fetcher_setup import RequestProxy
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import LocalMember, Membership, send_heartbeats
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_dispatch import find_carrier, publish_jobs
from headwater.cluster.transport.nats_errors import NatsUnavailable
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.proxied_requests import NatsRequestProxy
from headwater.errors import SettingsError, StoreError
from headwater.loops import boot_clock
from headwater.settings import Settings
from headwater.store.database.driver_errors import may_pass
from headwater.store.opening import open_store
from headwater.store.store import Store

T = TypeVar("T")
MAX_WAIT = 60.0  # seconds of the longest pause before a database that is away is given up

log = structlog.get_logger()


@dataclass(slots=True)
class JoinedCluster:
    """A process that has joined, what it works with, and the name of what carries its cluster's jobs."""

    streams: NatsStreams
    timing: LeaseTiming
    store: Store
    carrier: str


def make_request_proxy(streams: NatsStreams) -> RequestProxy:
    """Requests that terminals make."""
    return NatsRequestProxy(streams.link, partial(publish_jobs, streams)).proxy_request


def require_nats_address(settings: Settings) -> str:
    if settings.nats is None:
        raise SettingsError("This role needs NATS: give its address by --nats nats://HOST:4222 (or HEADWATER_NATS).")
    return settings.nats


async def open_store_patiently(url: str) -> Store:
    """The database; one that is away is waited for, one that refuses us is not."""
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
async def join_cluster(settings: Settings, identity: LocalMember) -> AsyncIterator[JoinedCluster]:
    """With database and NATS, both checked; leaves the list of members at the end."""
    if not settings.database_url.startswith("postgres"):
        raise SettingsError("A cluster needs PostgreSQL: give its address by --database postgresql://USER@HOST/NAME.")
    link = await connect_nats(require_nats_address(settings), identity.name)
    timing = LeaseTiming(settings.cluster_lease)
    streams = NatsStreams(link, settings.nats_prefix, timing)
    try:
        async with await open_store_patiently(settings.database_url) as store:
            name = await _wait_for_streams(streams, partial(find_carrier, streams, store))
            membership = Membership(store, name, timing)
            await membership.join_cluster()
            await _wait_for_streams(streams, partial(streams.ensure_streams, name))
            identity.problems = [lambda: streams.retry.problem, lambda: membership.problem]
            async with send_heartbeats(store, membership, identity, timing):
                log.info("joined", member=identity.name, role=identity.role)
                yield JoinedCluster(streams, timing, store, name)
    finally:
        if not link.is_closed:
            await link.close()
    log.info("stopped", member=identity.name)


async def _wait_for_streams(streams: NatsStreams, work: Callable[[], Awaitable[T]]) -> T:
    """What needs the streams when we start; a JetStream that is out of service is waited for, but not for ever."""
    end = boot_clock() + MAX_WAIT
    return await streams.retry.retry_until_done(
        "streams", "RESULTS", work, until=lambda problem: not isinstance(problem, NatsUnavailable) or boot_clock() > end
    )


@asynccontextmanager
async def join_postgres(settings: Settings, identity: LocalMember) -> AsyncIterator[Store]:
    """A store for a member that only looks: on the list of members while the block runs."""
    timing = LeaseTiming(settings.cluster_lease)
    async with await open_store(settings.database_url) as store:
        membership = Membership(store, "postgresql", timing)
        await membership.join_cluster()
        async with send_heartbeats(store, membership, identity, timing):
            yield store
