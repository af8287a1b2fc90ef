"""Joins a cluster: opens database and NATS, records this process among the members, and sends heartbeats.

Nodes on a shared database carry jobs as rows, the roles of a cluster by NATS. Both kinds on one database would fetch
everything twice, so a process is refused while members of the other kind live there. The streams in NATS carry the id
of their cluster, which the database stores once: streams of another database are refused too.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from headwater import __version__
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_dispatch import publish_jobs
from headwater.cluster.transport.nats_errors import NatsUnavailable
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.cluster.transport.proxied_requests import NatsRequestProxy, ProxyRequest
from headwater.cluster.transport.wire_messages import MemberReport, encode_report
from headwater.errors import ClusterError, HeadwaterError, SettingsError, StoreError
from headwater.loops import boot_clock, run_every
from headwater.settings import Settings
from headwater.store import cluster_leases, saved_state
from headwater.store.cluster_leases import ClusterMember
from headwater.store.database.driver_errors import may_pass
from headwater.store.opening import open_store
from headwater.store.store import Store

T = TypeVar("T")
MAX_WAIT = 60.0  # seconds of the longest pause before a database that is away is given up
STREAM_POLL_SECONDS = 0.2


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
    """Run work that needs the streams; wait while JetStream is out of service, but not for ever."""
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


NODE_ROLE = "node"  # carries jobs as rows
NATS_ROLES = frozenset({"controller", "terminal", "storer", "processor", "publisher"})  # pages belong to either kind
FETCHING_ROLES = frozenset({NODE_ROLE, "terminal"})
CLUSTER_ID, VERSION = "cluster id", 1  # its name among the saved states
MAX_CLOCK_SKEW = 2.0  # seconds of difference between clocks that are worth a sentence

log = structlog.get_logger()


class LocalMember:
    """This process as a member. Each report calls `counts` and `problems`, and carries the first problem."""

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
        """`outage` returns since when no server answers, and the partitions needed to find out when that is over."""
        self.name = settings.member or f"{role}-{socket.gethostname()}-{os.getpid()}"
        self.role = role
        self._capacity = capacity
        self.counts = counts
        self.problems = list(problems)
        self.outage = outage
        self.load: Callable[[], float] = lambda: 0.0
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
            round(self.load(), 3),
        )


class Membership:
    """A member's place in its cluster; `uses_nats` says how the cluster carries jobs."""

    def __init__(self, store: Store, member: LocalMember, timing: LeaseTiming, *, uses_nats: bool) -> None:
        self._store = store
        self._member = member
        self._timing = timing
        self._uses_nats = uses_nats
        self.clock_offset = 0.0  # seconds to add to our clock for the database's
        self.problem: str | None = None

    async def require_same_kind(self) -> None:
        """Raise ClusterError while members of the other kind live on this database."""
        await self._store.read(_require_same_kind, self._uses_nats, self._timing.lease)

    async def join(self) -> None:
        """Record this process as a member. Raises ClusterError like `require_same_kind`."""
        await self._store.write(_join_cluster, self._member, self._uses_nats, self._timing.lease)

    async def check(self) -> None:
        """Look for members of the other kind and compare clocks; the result is in `problem`."""
        began = time.time()
        members, now = await self._store.read(_read_members, self._timing.lease)
        ended = time.time()
        self.clock_offset = now - (began + ended) / 2
        self.problem = _find_clash(members, self._uses_nats, self._timing.lease)
        if self.problem:
            log.error("another_cluster", message=self.problem)
        elif abs(self.clock_offset) > MAX_CLOCK_SKEW + (ended - began) / 2:
            self.problem = describe_clock_skew(self.clock_offset)
            log.warning("clock_is_wrong", message=self.problem)

    async def heartbeat(self) -> None:
        """Check, and record that this process lives."""
        await self.check()
        report = self._member.make_report()
        await self._store.write_one(cluster_leases.record_heartbeat, report.name, report.role, encode_report(report))

    async def leave(self) -> None:
        try:
            await self._store.write(cluster_leases.remove_member, self._member.name)
        except HeadwaterError as error:
            log.warning("member_not_removed", error=str(error))


@asynccontextmanager
async def send_heartbeats(membership: Membership, timing: LeaseTiming) -> AsyncIterator[None]:
    """Join, send heartbeats while the block runs, and leave."""
    await membership.join()
    stop = asyncio.Event()
    beating = asyncio.create_task(run_every(timing.heartbeat_seconds, membership.heartbeat, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(beating, return_exceptions=True)
        await membership.leave()


async def load_cluster_id(store: Store) -> str:
    """Return the id of the database's cluster; the first process that asks makes it."""
    return await store.write(_obtain_cluster_id)


def find_cluster_id(connection: Connection) -> str | None:
    """Return the id of the database's cluster, or None if it never had one."""
    found = saved_state.load_state(connection, CLUSTER_ID)
    return None if found is None else found[1].decode()


def describe_clock_skew(offset: float) -> str:
    way = "behind" if offset > 0 else "ahead of"
    return (
        f"The clock of this machine is {abs(offset):.0f} seconds {way} the database's. Leases go by the database's "
        "clock and stay right; set this clock (NTP) so that the times of refreshes are right too."
    )


def _obtain_cluster_id(connection: Connection) -> str:
    saved_state.save_state_once(connection, CLUSTER_ID, VERSION, secrets.token_hex(8).encode(), time.time())
    return find_cluster_id(connection) or ""


def _join_cluster(connection: Connection, member: LocalMember, uses_nats: bool, lease: float) -> None:
    _obtain_cluster_id(connection)
    saved_state.lock_state(connection, CLUSTER_ID)  # of two kinds that start at once, the second sees the first
    _require_same_kind(connection, uses_nats, lease)
    report = member.make_report()
    cluster_leases.record_heartbeat(connection, report.name, report.role, encode_report(report))


def _read_members(connection: Connection, lease: float) -> tuple[list[ClusterMember], float]:
    return cluster_leases.list_members(connection, lease), cluster_leases.read_database_time(connection)


def _require_same_kind(connection: Connection, uses_nats: bool, lease: float) -> None:
    clash = _find_clash(cluster_leases.list_members(connection, lease), uses_nats, lease)
    if clash is not None:
        raise ClusterError(clash)


def _find_clash(members: Sequence[ClusterMember], uses_nats: bool, lease: float) -> str | None:
    """Describe the members of the other kind, if there are any."""
    others = frozenset({NODE_ROLE}) if uses_nats else NATS_ROLES
    if not any(one.role in others for one in members):
        return None
    theirs, ours = ("PostgreSQL alone", "NATS") if uses_nats else ("NATS", "PostgreSQL alone")
    return (
        f"Another cluster lives on this database: its jobs go by {theirs}, ours would go by {ours}. Give this one a "
        f"database of its own, or stop the other and wait {lease:.0f} seconds."
    )
