"""Builds processes: `build` makes the node of a server, `run_role` runs one role of a cluster.

    build("node")  a single server: LocalCrawl over memory; on a shared database: Terminal, Leader and Ingest
    build("web")   the pages of a cluster: nothing is scheduled or fetched here
    run_role       controller, terminal, storer, processor or publisher, over NATS

A part that one process at a time runs is made anew at each term of its election, with a store fenced by the lease.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection

from headwater.cluster.fetcher_setup import RequestProxy, make_courier, make_fetcher
from headwater.cluster.leader import CONTROLLER, Leader
from headwater.cluster.leases import partitions
from headwater.cluster.leases.election import ElectedWork, Election
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partitions import LEASE_OF_PARTITION
from headwater.cluster.membership import (
    JoinedCluster,
    LocalMember,
    Membership,
    join_cluster,
    join_postgres,
    make_request_proxy,
    require_nats_address,
)
from headwater.cluster.remote_crawl import RemoteCrawl
from headwater.cluster.terminal import Terminal
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_dispatch import NatsJobSender, PartitionDesk, quarantine_stray_jobs
from headwater.cluster.transport.nats_streams import BUFFERS, NatsStreams
from headwater.cluster.transport.nats_transport import NatsJobReceiver, NatsResultReceiver
from headwater.cluster.transport.postgres_transport import PostgresJobSender, PostgresTransport
from headwater.cluster.transport.proxied_requests import GrantedProxy, PostgresRequestProxy, ProxyRequest
from headwater.errors import ClusterError, HeadwaterError
from headwater.fetch.client import Fetcher
from headwater.loops import run_every
from headwater.node import websub
from headwater.node.article_fetcher import ArticleFetcher, enqueue_articles_of_hits
from headwater.node.crawl.ingest import Ingest, ProvisionalPlanner
from headwater.node.crawl.local_crawl import LocalCrawl
from headwater.node.crawl.scheduler import make_politeness, make_scheduler
from headwater.node.crawl.transport import JobSender, StoredRefresh
from headwater.node.live_settings import LiveSettings
from headwater.node.maintenance import Maintenance, log_refreshes
from headwater.node.node import Node
from headwater.node.queries.processor import HitWriter, QueryProcessor
from headwater.node.request_grants import RemoteGrants
from headwater.node.websub import HubWatch
from headwater.publish.delivery.deliverer import make_deliverer
from headwater.publish.delivery.delivery_planner import DeliveryPlanner
from headwater.query.items.language_detection import make_language_detector
from headwater.settings import Settings, is_shared_database
from headwater.store import cluster_leases
from headwater.store.cluster_leases import ClusterLease
from headwater.store.opening import open_store
from headwater.store.queries.hits import StoredHit
from headwater.store.store import Store
from headwater.times import parse_time_zone

PROCESSOR, ARTICLES = "processor", "articles"  # leases of parts that one process at a time runs
ARTICLE_STOP_SECONDS = 2.0  # that running article fetches may take to end
STREAM_CHECK_SECONDS = 5.0  # between two looks whether the streams are still there
STATUS_SECONDS = 1.0
GC_THRESHOLD = (
    20_000  # new objects between two collections: a window has hundreds of items, which are freed without one
)

OnStored = Callable[[Sequence[StoredRefresh]], None]
OnHits = Callable[[Sequence[StoredHit]], None]

log = structlog.get_logger()


@asynccontextmanager
async def build(
    role: str,
    settings: Settings,
    *,
    on_stored: OnStored | None = None,
    on_hits: OnHits | None = None,
    writers: Sequence[HitWriter] = (),
) -> AsyncIterator[Node]:
    """Run the node of a server until the block ends. `role` is "node" or "web".

    `writers` write in the transaction of the hits, `on_stored` and `on_hits` listen afterwards.
    """
    async with AsyncExitStack() as stack:
        if role == "web":
            node = await _build_web(stack, settings)
        elif is_shared_database(settings):
            node = await _build_shared(stack, settings, writers)
        else:
            node = await _build_local(stack, settings, writers)
        node.on_stored += [on_stored] if on_stored else []
        node.on_hits += [on_hits] if on_hits else []
        async with node:
            yield node
    log.info("stopped")


async def run_role(role: str, settings: Settings, stop: asyncio.Event) -> None:
    """Run one role of a cluster with NATS until `stop` is set."""
    await ROLES[role](settings, stop)


def freeze_startup_objects() -> None:
    """Exempt everything loaded so far from garbage collection; call it once, when a server has started.

    Code, settings and standing queries stay for months. Refreshes free their objects as they go, with few cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)


# a single server


async def _build_local(stack: AsyncExitStack, settings: Settings, writers: Sequence[HitWriter]) -> Node:
    store = await stack.enter_async_context(await open_store(settings.database_url))
    live_settings = LiveSettings(store, settings)
    given = await live_settings.load()
    fetcher = await stack.enter_async_context(make_fetcher(given))
    scheduler = make_scheduler(store, given)
    crawl = LocalCrawl(
        store, scheduler, fetcher, concurrency=given.concurrency, on_stored=lambda batch: node.report_stored(batch)
    )
    fetcher.use_grants(crawl.grants.hold)
    maintenance = Maintenance(store, scheduler, given)
    await maintenance.load_state()
    live_settings.listeners.append(maintenance.apply_settings)

    async def update_demand() -> None:
        await maintenance.update_demand(processor)

    processor = _make_processor(store, given, writers, lambda hits: node.report_hits(hits), update_demand)
    courier = await stack.enter_async_context(make_courier(given))
    deliverer = await make_deliverer(store, courier, lambda: live_settings.current)
    node = Node(
        *(store, live_settings, fetcher, crawl, deliverer),
        courier=courier,
        count_queries=lambda: len(processor.definitions),
    )
    node.processor, node.maintenance = processor, maintenance

    def report(batch: Sequence[StoredRefresh]) -> None:
        maintenance.monitor.count_refreshes((one.verdict.refresh, one.known.last_success) for one in batch)
        log_refreshes((one.verdict.refresh, one.known.url) for one in batch)
        if any(one.verdict.new or one.verdict.updated for one in batch):
            processor.wake()

    node.on_stored.append(report)
    node.parts = [
        crawl.run,
        processor.run,
        deliverer.run,
        ArticleFetcher(store, fetcher, given.article_budget, kept_pages=given.article_pages).run,
        partial(maintenance.run, processor),
        live_settings.run,
    ]
    stack.push_async_callback(maintenance.publish_report)
    stack.push_async_callback(maintenance.save_state)
    log.info("started", feeds=len(scheduler.feed_table), strategy=scheduler.strategy.name, budget=given.budget)
    return node


# a node of a shared database


async def _build_shared(stack: AsyncExitStack, settings: Settings, writers: Sequence[HitWriter]) -> Node:
    timing = LeaseTiming(settings.cluster_lease)
    member = LocalMember(settings, "node", capacity=settings.concurrency)
    store = await stack.enter_async_context(await open_store(settings.database_url))
    membership = Membership(store, member, timing, uses_nats=False)
    await membership.join()
    await store.write(partitions.create_partition_leases)
    live_settings = LiveSettings(store, settings)
    given = await live_settings.load()

    transport = PostgresTransport(store, member.make_report, timing)
    own = await stack.enter_async_context(make_fetcher(given, timing, lambda: terminal.database_time()))
    terminal = Terminal(member.name, own, transport, timing=timing, concurrency=given.concurrency)
    proxy = _grant_requests(store, timing, PostgresRequestProxy(store).proxy_request)  # another node may hold the host
    fetcher = await stack.enter_async_context(make_fetcher(given, timing, terminal.database_time, proxy))
    politeness = make_politeness(given)
    watch = HubWatch(store, politeness)

    def report(batch: Sequence[StoredRefresh]) -> None:
        watch.watch_refreshes(batch)
        node.report_stored(batch)
        if any(one.saved.new_ids or one.saved.updated_ids for one in batch):
            term.wake()

    ingest = Ingest(
        store,
        planner=ProvisionalPlanner(politeness),
        find_epochs=find_partition_epochs,
        jobs_are_rows=True,
        on_stored=report,
    )
    member.counts = lambda: {**terminal.counts, **ingest.counts}
    member.problems = [lambda: terminal.problem, lambda: membership.problem]
    member.outage, member.load = terminal.find_outage, terminal.measure_load

    def make_sender(fenced: Store, held: ClusterLease) -> JobSender:
        return PostgresJobSender(fenced, on_sent=transport.wake)

    leader = Leader(store, live_settings, make_sender, roles=["node"])
    crawl = RemoteCrawl(store, ingest, politeness, live_settings, leader)
    courier = await stack.enter_async_context(make_courier(given))
    deliverer = await make_deliverer(store, courier, lambda: live_settings.current)
    term = ProcessorTerm(store, given, writers, lambda hits: node.report_hits(hits))
    node = Node(store, live_settings, fetcher, crawl, deliverer, courier=courier, count_queries=term.count_queries)

    def elect(name: str, work: ElectedWork) -> Callable[[asyncio.Event], Coroutine[Any, Any, None]]:
        return partial(Election(store, name, member.name, timing.leader_seconds).run, work)

    node.parts = [
        partial(_run_terminal_and_ingest, terminal, ingest, transport),
        elect(CONTROLLER, leader.run_term),
        elect(PROCESSOR, term.run),
        elect(ARTICLES, make_article_work(store, fetcher, given)),
        deliverer.run,
        live_settings.run,
        partial(run_every, STATUS_SECONDS, crawl.follow_status),
        partial(run_every, websub.HUB_POLL_SECONDS, watch.follow),
        partial(run_every, timing.heartbeat_seconds, membership.check),  # the terminal's renewals are its heartbeats
    ]
    await crawl.follow_status()
    log.info("started", member=member.name, database="shared")
    return node


async def _run_terminal_and_ingest(
    terminal: Terminal, ingest: Ingest, transport: PostgresTransport, stop: asyncio.Event
) -> None:
    """Fetch until `stop` is set, and store until everything fetched is stored."""
    fetched = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(ingest.run(transport, fetched))
        try:
            await terminal.run(stop)
        finally:
            fetched.set()


class ProcessorTerm:
    """Makes a query processor anew at each term: the last one may remember less than another has written since."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        writers: Sequence[HitWriter] = (),
        on_hits: OnHits = lambda hits: None,
    ) -> None:
        self._store = store
        self._make = partial(_make_processor, settings=settings, writers=writers, on_hits=on_hits)
        self.processor: QueryProcessor | None = None

    def wake(self) -> None:
        if self.processor is not None:
            self.processor.wake()

    def count_queries(self) -> int:
        return 0 if self.processor is None else len(self.processor.definitions)

    async def run(self, held: ClusterLease, over: asyncio.Event) -> None:
        self.processor = self._make(self._store.fenced(held))
        try:
            await self.processor.run(over)
        finally:
            self.processor = None


# the pages of a cluster


async def _build_web(stack: AsyncExitStack, settings: Settings) -> Node:
    timing = LeaseTiming(settings.cluster_lease)
    store, proxy_request = await _join_for_pages(stack, settings)
    live_settings = LiveSettings(store, settings)
    given = await live_settings.load()
    proxy = _grant_requests(store, timing, proxy_request)
    fetcher = await stack.enter_async_context(make_fetcher(given, timing, proxy=proxy))
    politeness = make_politeness(given)
    ingest = Ingest(store, planner=ProvisionalPlanner(politeness), find_epochs=find_partition_epochs)
    crawl = RemoteCrawl(store, ingest, politeness, live_settings)
    courier = await stack.enter_async_context(make_courier(given))
    deliverer = await make_deliverer(store, courier, lambda: live_settings.current)
    node = Node(store, live_settings, fetcher, crawl, deliverer, courier=courier)
    node.parts = [partial(run_every, STATUS_SECONDS, crawl.follow_status), live_settings.run]
    await crawl.follow_status()
    return node


async def _join_for_pages(stack: AsyncExitStack, settings: Settings) -> tuple[Store, ProxyRequest]:
    member = LocalMember(settings, "web")
    if settings.nats is None:
        store = await stack.enter_async_context(join_postgres(settings, member))
        return store, PostgresRequestProxy(store).proxy_request
    joined = await stack.enter_async_context(join_cluster(settings, member))
    return joined.store, make_request_proxy(joined.streams)


# the roles of a cluster with NATS


async def run_controller(settings: Settings, stop: asyncio.Event) -> None:
    """Lead, or stand by while another controller leads."""
    member = LocalMember(settings, "controller")
    async with join_cluster(settings, member) as joined:
        await joined.store.write(partitions.create_partition_leases)
        live_settings = LiveSettings(joined.store, settings)
        await live_settings.load()
        election = Election(joined.store, CONTROLLER, member.name, joined.timing.leader_seconds)
        backlog: dict[str, int] = {}

        def start_tasks(store: Store, held: ClusterLease, over: asyncio.Event) -> list[asyncio.Task[None]]:
            async def check_streams() -> None:
                await _check_streams(joined, leader, backlog)

            return [
                asyncio.create_task(PartitionDesk(joined.streams, store).run(over)),
                asyncio.create_task(run_every(STREAM_CHECK_SECONDS, check_streams, over)),
            ]

        def make_sender(store: Store, held: ClusterLease) -> JobSender:
            return NatsJobSender(joined.streams, store, lambda: election.is_valid)

        leader = Leader(joined.store, live_settings, make_sender, roles=["terminal"], start_tasks=start_tasks)

        def count() -> Mapping[str, int]:
            leads = leader.dispatcher
            return {} if leads is None else {**leads.counts, "in_flight": len(leads.in_flight), **backlog}

        member.counts = count
        member.problems.append(lambda: None if leader.dispatcher is None else leader.dispatcher.problem)
        following = asyncio.create_task(live_settings.run(stop))
        await election.run(leader.run_term, stop)
        await following


async def _check_streams(joined: JoinedCluster, leader: Leader, backlog: dict[str, int]) -> None:
    """Make streams anew that were deleted or lost with their broker; the jobs in them are due again."""

    async def check() -> None:
        made = await joined.streams.ensure_streams(joined.cluster_id)
        if made:
            log.warning("streams_recreated", streams=made)
            if leader.dispatcher is not None:
                leader.dispatcher.recheck_in_flight()
        await quarantine_stray_jobs(joined.streams, joined.store)
        for name in BUFFERS:
            backlog[f"waiting_{name}"] = await joined.streams.count_waiting(name)

    with suppress(ClusterError):  # logged, and looked at again soon
        await joined.streams.retry.run_once("streams", "RESULTS", check)


async def run_terminal(settings: Settings, stop: asyncio.Event) -> None:
    """Fetch. A terminal needs NATS and nothing else."""
    if settings.database is not None:
        log.warning("database_not_needed", message="A terminal needs no database; better not to give it the address.")
    member = LocalMember(settings, "terminal", capacity=settings.concurrency)
    timing = LeaseTiming(settings.cluster_lease)
    link = await connect_nats(require_nats_address(settings), member.name)
    streams = NatsStreams(link, settings.nats_prefix, timing)
    try:
        async with make_fetcher(settings, timing, lambda: terminal.database_time()) as fetcher:
            transport = NatsJobReceiver(streams, member.make_report)
            terminal = Terminal(member.name, fetcher, transport, timing=timing, concurrency=settings.concurrency)
            member.counts = lambda: terminal.counts
            member.problems = [lambda: streams.retry.problem, lambda: terminal.problem]
            member.outage, member.load = terminal.find_outage, terminal.measure_load
            log.info("joined", member=member.name, role="terminal")
            await terminal.run(stop)
    finally:
        if not link.is_closed:
            await link.close()
    log.info("stopped", member=member.name)


async def run_storer(settings: Settings, stop: asyncio.Event, on_step: Callable[[str], None] | None = None) -> None:
    """Store the results of terminals."""
    member = LocalMember(settings, "storer")
    async with join_cluster(settings, member) as joined:
        politeness = make_politeness(settings)
        watch = HubWatch(joined.store, politeness)
        ingest = Ingest(
            joined.store,
            planner=ProvisionalPlanner(politeness),
            find_epochs=find_partition_epochs,
            on_stored=watch.watch_refreshes,
            on_step=on_step or (lambda name: None),
        )
        receiver = NatsResultReceiver(joined.streams, joined.store)
        member.counts = lambda: {**ingest.counts, "put_aside": receiver.quarantined}
        member.problems.append(lambda: ingest.problem)
        with suppress(HeadwaterError):  # the database may be away again already; it is looked at again soon
            await watch.follow()
        await asyncio.gather(ingest.run(receiver, stop), run_every(websub.HUB_POLL_SECONDS, watch.follow, stop))


async def run_processor(settings: Settings, stop: asyncio.Event) -> None:
    """Match items with standing queries; one process at a time does, others are ready."""
    member = LocalMember(settings, "processor")
    async with join_cluster(settings, member) as joined:
        counts = {"matched": 0, "hits": 0}
        term = ProcessorTerm(joined.store, settings)

        async def count() -> None:
            if term.processor is not None:
                progress = await term.processor.measure_progress()
                counts.update(matched=progress.matched, hits=progress.hits, behind=progress.behind)

        member.counts = lambda: counts
        await asyncio.gather(
            Election(joined.store, PROCESSOR, member.name, joined.timing.leader_seconds).run(term.run, stop),
            run_every(joined.timing.heartbeat_seconds / 2, count, stop),
        )


async def run_publisher(settings: Settings, stop: asyncio.Event) -> None:
    """Send mails, web hooks and notices; one publisher at a time fetches the articles behind items."""
    member = LocalMember(settings, "publisher")
    async with (
        join_cluster(settings, member) as joined,
        make_fetcher(
            *(settings, joined.timing),
            proxy=_grant_requests(joined.store, joined.timing, make_request_proxy(joined.streams)),
        ) as fetcher,
        make_courier(settings) as courier,
    ):
        live_settings = LiveSettings(joined.store, settings)
        await live_settings.load()
        deliverer = await make_deliverer(joined.store, courier, lambda: live_settings.current)
        election = Election(joined.store, ARTICLES, member.name, joined.timing.leader_seconds)
        articles = make_article_work(joined.store, fetcher, settings)
        await asyncio.gather(deliverer.run(stop), election.run(articles, stop), live_settings.run(stop))


ROLES: dict[str, Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]]] = {
    "controller": run_controller,
    "terminal": run_terminal,
    "storer": run_storer,
    "processor": run_processor,
    "publisher": run_publisher,
}


# parts


def _grant_requests(store: Store, timing: LeaseTiming, proxy_request: ProxyRequest) -> RequestProxy:
    """Have each request wait for a grant of the leader."""
    return GrantedProxy(RemoteGrants(store, begin_seconds=timing.begin_seconds), proxy_request).proxy_request


def find_partition_epochs(connection: Connection, numbers: Collection[int]) -> Mapping[int, int]:
    """Lock the leases of these partitions against a change of holders, and return their epochs."""
    names = {LEASE_OF_PARTITION[number]: number for number in numbers}
    epochs = cluster_leases.lock_epochs(connection, set(names))
    return {names[name]: epoch for name, epoch in epochs.items()}


def _make_processor(
    store: Store,
    settings: Settings,
    writers: Sequence[HitWriter],
    on_hits: OnHits,
    on_taken: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> QueryProcessor:
    return QueryProcessor(
        store,
        detect=make_language_detector(),
        writers=(*writers, DeliveryPlanner(parse_time_zone(settings.time_zone)), enqueue_articles_of_hits),
        on_hits=on_hits,
        on_taken=on_taken,
    )


def make_article_work(store: Store, fetcher: Fetcher, settings: Settings) -> ElectedWork:
    """Return work for an election: fetch articles through the terminals, as long as the lease is held."""

    async def work(held: ClusterLease, over: asyncio.Event) -> None:
        fetcher_of_term = ArticleFetcher(
            store.fenced(held), fetcher, settings.article_budget, kept_pages=settings.article_pages
        )
        fetching = asyncio.create_task(fetcher_of_term.run(over))
        try:
            await over.wait()
            await asyncio.wait({fetching}, timeout=ARTICLE_STOP_SECONDS)
        finally:  # the terminals may be gone, and unfetched articles are due again soon
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)

    return work
