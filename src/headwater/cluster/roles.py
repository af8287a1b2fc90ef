"""The roles of a cluster with NATS, each a process of its own: controller, terminal, storer, processor, publisher.

Each connects, checks that it belongs, works until it is stopped, and says how it is doing. Only a terminal works
without a database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import structlog

from headwater.cluster.cluster_ingest import ClusterIngest
from headwater.cluster.elected_articles import ARTICLES, make_article_work
from headwater.cluster.fetch_pool import FetchPool
from headwater.cluster.fetcher_setup import RequestProxy, make_fetcher
from headwater.cluster.items import RELAY, Followed, Relay
from headwater.cluster.leader import CONTROLLER, Leader
from headwater.cluster.leases import partitions
from headwater.cluster.leases.election import Election
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import LocalMember, Membership, send_heartbeats
from headwater.cluster.out import DISPATCHER, Dispatch, Publisher
from headwater.cluster.shared_node import PROCESSOR
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_dispatch import NatsJobSender, PartitionDesk, find_carrier, publish_jobs
from headwater.cluster.transport.nats_errors import NatsUnavailable
from headwater.cluster.transport.nats_ingest import NatsIngest
from headwater.cluster.transport.nats_streams import BUFFERS, NatsStreams
from headwater.cluster.transport.nats_terminal import NatsJobReceiver, NatsPartitionSource, NatsResultSender
from headwater.cluster.transport.proxied_requests import NatsRequestProxy
from headwater.errors import ClusterError, HeadwaterError, SettingsError, StoreError
from headwater.loops import boot_clock, run_every
from headwater.node import live_settings
from headwater.node.article_fetcher import enqueue_articles_of_hits
from headwater.node.crawl.politeness import Politeness
from headwater.node.deliverer_setup import make_deliverer
from headwater.node.queries.processor import QueryProcessor
from headwater.node.websub import hub_watch
from headwater.publish.delivery.delivery_planner import DeliveryPlanner
from headwater.query.items.language_detection import make_language_detector
from headwater.settings import Settings
from headwater.store.cluster_leases import ClusterLease
from headwater.store.database.driver_errors import may_pass
from headwater.store.opening import open_store
from headwater.store.store import Store
from headwater.times import parse_time_zone

T = TypeVar("T")
MAX_WAIT = 60.0  # seconds of the longest pause before a database that is away is given up
STREAM_CHECK_SECONDS = 5.0  # seconds between two looks whether the streams are still there

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


async def run_controller(settings: Settings, stop: asyncio.Event) -> None:
    """Decides, if it leads; else stands by."""
    identity = LocalMember(settings, "controller")
    async with join_cluster(settings, identity) as here:
        await here.store.write(partitions.create_partition_leases)
        seat = Election(here.store, CONTROLLER, identity.name, here.timing.leader_seconds)
        waiting: dict[str, int] = {}

        async def mend() -> None:
            """A stream that was deleted, or a broker that was wiped, is made anew; what was on its way is due again."""
            made = await here.streams.ensure_streams(here.carrier)
            if made:
                log.warning("streams_made_anew", streams=made)
                if leader.dispatcher is not None:
                    leader.dispatcher.recheck_in_flight()
            for name in BUFFERS:
                waiting[f"waiting_{name}"] = await here.streams.count_waiting(name)

        async def look() -> None:
            with suppress(ClusterError):  # which is said, and looked at again soon
                await here.streams.retry.run_once("streams", "RESULTS", mend)

        def beside(store: Store, held: ClusterLease, over: asyncio.Event) -> list[asyncio.Task[None]]:
            return [
                asyncio.create_task(PartitionDesk(here.streams, store).run(over)),
                asyncio.create_task(run_every(STREAM_CHECK_SECONDS, look, over)),
            ]

        leader = Leader(
            here.store,
            settings,
            lambda store, held: NatsJobSender(here.streams, store, lambda: seat.is_valid),
            roles=["terminal"],
            beside=beside,
        )

        def counts() -> Mapping[str, int]:
            leads = leader.dispatcher
            return {} if leads is None else {**leads.counts, "in_flight": len(leads.in_flight), **waiting}

        def problem() -> str | None:
            return None if leader.dispatcher is None else leader.dispatcher.problem

        identity.counts = counts
        identity.problems.append(problem)
        following = asyncio.create_task(run_every(live_settings.POLL_SECONDS, leader.follow_settings, stop))
        await seat.run(leader.run_term, stop)
        await following


async def run_terminal(settings: Settings, stop: asyncio.Event) -> None:
    """Fetches. It needs NATS and nothing else."""
    if settings.database is not None:
        log.warning("database_not_needed", message="A terminal needs no database; better not to give it the address.")
    identity = LocalMember(settings, "terminal", capacity=settings.concurrency)
    timing = LeaseTiming(settings.cluster_lease)
    link = await connect_nats(require_nats_address(settings), identity.name)
    streams = NatsStreams(link, settings.nats_prefix, timing)
    try:
        async with make_fetcher(settings, timing, lambda: works.clock()) as client:
            works = FetchPool(
                identity.name,
                client,
                NatsPartitionSource(streams, identity.make_report),
                NatsJobReceiver(streams),
                NatsResultSender(streams),
                timing=timing,
                concurrency=settings.concurrency,
            )
            identity.counts = lambda: {**works.counts, "held": len(works.holdings.held)}
            identity.problems = [lambda: streams.retry.problem, lambda: works.problem]
            identity.outage = works.find_outage
            log.info("joined", member=identity.name, role="terminal")
            await works.run(stop)
    finally:
        if not link.is_closed:
            await link.close()
    log.info("stopped", member=identity.name)


async def run_storer(settings: Settings, stop: asyncio.Event) -> None:
    """Writes what terminals bring; one storer relays what is new to query processors."""
    identity = LocalMember(settings, "storer")
    async with join_cluster(settings, identity) as here:
        relay = Relay(here.streams, here.store)
        courtesy = Politeness(np.random.default_rng(), least=settings.least_interval)
        writes = ClusterIngest(here.store, courtesy, rows=False)
        storing = NatsIngest(here.streams, here.store, writes, relay.wake)
        identity.counts = lambda: {**writes.counts, **relay.counts, "put_aside": storing.quarantined}
        identity.problems.append(lambda: storing.problem)
        seat = Election(here.store, RELAY, identity.name, here.timing.leader_seconds)

        with suppress(HeadwaterError):  # the database may be away again already; it is looked again soon
            await writes.follow_hubs()
        hubs = run_every(hub_watch.POLL_SECONDS, writes.follow_hubs, stop)
        await asyncio.gather(storing.run(stop), seat.run(relay.run, stop), hubs)


async def run_processor(settings: Settings, stop: asyncio.Event) -> None:
    """Matches items with standing queries; one at a time does, others are ready."""
    identity = LocalMember(settings, "processor")
    async with join_cluster(settings, identity) as here:
        matched = {"matched": 0, "hits": 0}

        async def process(held: ClusterLease, over: asyncio.Event) -> None:
            store = here.store.fenced(held)
            followed = Followed(here.streams, store)
            works = QueryProcessor(
                store,
                detect=make_language_detector(),
                writers=(DeliveryPlanner(parse_time_zone(settings.time_zone)), enqueue_articles_of_hits),
                entries=followed.read,
            )

            async def count() -> None:
                progress = await works.measure_progress()
                matched.update(matched=progress.matched, hits=progress.hits, behind=progress.behind, **followed.counts)

            counting = asyncio.create_task(run_every(here.timing.heartbeat_seconds / 2, count, over))  # told every beat
            try:
                await works.run(over)
            finally:
                counting.cancel()
                await followed.close()

        identity.counts = lambda: matched
        await Election(here.store, PROCESSOR, identity.name, here.timing.leader_seconds).run(process, stop)


async def run_publisher(settings: Settings, stop: asyncio.Event) -> None:
    """Sends mails, web hooks and notices; one publisher fetches the articles behind items."""
    identity = LocalMember(settings, "publisher")
    async with (
        join_cluster(settings, identity) as here,
        make_fetcher(settings, here.timing) as client,
        make_fetcher(settings, here.timing, errands=make_request_proxy(here.streams)) as scout,
    ):
        sends = Publisher(here.streams, await make_deliverer(here.store, client, settings))
        dispatch = Dispatch(here.streams, here.store)
        identity.counts = lambda: {**sends.counts, **dispatch.counts}
        seat = Election(here.store, DISPATCHER, identity.name, here.timing.leader_seconds)
        reading = Election(here.store, ARTICLES, identity.name, here.timing.leader_seconds)
        articles = make_article_work(here.store, scout, settings.article_budget)
        await asyncio.gather(sends.run(stop), seat.run(dispatch.run, stop), reading.run(articles, stop))


ROLES: dict[str, Callable[[Settings, asyncio.Event], Any]] = {
    "controller": run_controller,
    "terminal": run_terminal,
    "storer": run_storer,
    "processor": run_processor,
    "publisher": run_publisher,
}
