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

from headwater.cluster import pushed, sharing
from headwater.cluster.by_nats import Desk, NatsOutgoing, carrier, offer_all
from headwater.cluster.errands import NatsErrands
from headwater.cluster.fetchers import Errands, fetcher
from headwater.cluster.hands_by_nats import NatsJobs, NatsLandlord, NatsResults
from headwater.cluster.identity import Identity
from headwater.cluster.items import RELAY, Followed, Relay
from headwater.cluster.leading import SEAT, Leader
from headwater.cluster.link import connect
from headwater.cluster.membership import Membership
from headwater.cluster.node import PROCESSOR
from headwater.cluster.out import DISPATCHER, Dispatch, Publisher
from headwater.cluster.reading_articles import ARTICLES, fetching
from headwater.cluster.refusals import NoAnswer
from headwater.cluster.seat import Seat
from headwater.cluster.staying import on_the_list
from headwater.cluster.storer import Storer
from headwater.cluster.storing import NatsStoring
from headwater.cluster.streams import BUFFERS, Streams
from headwater.cluster.terminal import Terminal
from headwater.cluster.timing import Timing, awake
from headwater.errors import ClusterError, HeadwaterError, SettingsError, StoreError
from headwater.node import kept_settings
from headwater.node.articles import pages_of_hits
from headwater.node.courtesy import Courtesy
from headwater.node.delivering import delivering
from headwater.node.processor import Processor
from headwater.node.upkeep import every
from headwater.publish.duties import Duties
from headwater.query.tongues import detector
from headwater.settings import Settings
from headwater.store.leases import Lease
from headwater.store.problems import may_come_back
from headwater.store.store import Store
from headwater.when import zone

T = TypeVar("T")
PATIENCE = 60.0  # seconds of the longest pause before a database that is away is given up
STREAMS = 5.0  # seconds between two looks whether the streams are still there

log = structlog.get_logger()


@dataclass(slots=True)
class Joined:
    """A process that has joined, what it works with, and the name of what carries its cluster's jobs."""

    streams: Streams
    timing: Timing
    store: Store
    carrier: str


def by_terminals(streams: Streams) -> Errands:
    """Requests that terminals make."""
    return NatsErrands(streams.link, partial(offer_all, streams)).send


def address(settings: Settings) -> str:
    if settings.nats is None:
        raise SettingsError("This role needs NATS: give its address by --nats nats://HOST:4222 (or HEADWATER_NATS).")
    return settings.nats


async def opened(url: str) -> Store:
    """The database; one that is away is waited for, one that refuses us is not."""
    wait = 0.5
    while True:
        try:
            return await Store.open(url)
        except StoreError as error:
            if not may_come_back(error.__cause__) or wait > PATIENCE:
                raise
            log.warning("database_not_reached", error=str(error), again_in=wait)
            await asyncio.sleep(wait)
            wait *= 2


@asynccontextmanager
async def joined(settings: Settings, identity: Identity) -> AsyncIterator[Joined]:
    """With database and NATS, both checked; leaves the list of members at the end."""
    if not settings.database_url.startswith("postgres"):
        raise SettingsError("A cluster needs PostgreSQL: give its address by --database postgresql://USER@HOST/NAME.")
    link = await connect(address(settings), identity.name)
    timing = Timing(settings.cluster_lease)
    streams = Streams(link, settings.nats_prefix, timing)
    try:
        async with await opened(settings.database_url) as store:
            name = await _there(streams, partial(carrier, streams, store))
            membership = Membership(store, name, timing)
            await membership.join()
            await _there(streams, partial(streams.ensure, name))
            identity.problems = [lambda: streams.patience.problem, lambda: membership.problem]
            async with on_the_list(store, membership, identity, timing):
                log.info("joined", member=identity.name, role=identity.role)
                yield Joined(streams, timing, store, name)
    finally:
        if not link.is_closed:
            await link.close()
    log.info("stopped", member=identity.name)


async def _there(streams: Streams, work: Callable[[], Awaitable[T]]) -> T:
    """What needs the streams when we start; a JetStream that is out of service is waited for, but not for ever."""
    end = awake() + PATIENCE
    return await streams.patience.until_done(
        "streams", "RESULTS", work, until=lambda problem: not isinstance(problem, NoAnswer) or awake() > end
    )


async def controller(settings: Settings, stop: asyncio.Event) -> None:
    """Decides, if it leads; else stands by."""
    identity = Identity(settings, "controller")
    async with joined(settings, identity) as here:
        await here.store.write(sharing.prepare)
        seat = Seat(here.store, SEAT, identity.name, here.timing.lead)
        waiting: dict[str, int] = {}

        async def mend() -> None:
            """A stream that was deleted, or a broker that was wiped, is made anew; what was on its way is due again."""
            made = await here.streams.ensure(here.carrier)
            if made:
                log.warning("streams_made_anew", streams=made)
                if leader.controller is not None:
                    leader.controller.doubt()
            for name in BUFFERS:
                waiting[f"waiting_{name}"] = await here.streams.waiting(name)

        async def look() -> None:
            with suppress(ClusterError):  # which is said, and looked at again soon
                await here.streams.patience.once("streams", "RESULTS", mend)

        def beside(store: Store, held: Lease, over: asyncio.Event) -> list[asyncio.Task[None]]:
            return [
                asyncio.create_task(Desk(here.streams, store).run(over)),
                asyncio.create_task(every(STREAMS, look, over)),
            ]

        leader = Leader(
            here.store,
            settings,
            lambda store, held: NatsOutgoing(here.streams, store, lambda: seat.valid),
            roles=["terminal"],
            beside=beside,
        )

        def counts() -> Mapping[str, int]:
            leads = leader.controller
            return {} if leads is None else {**leads.counts, "in_flight": len(leads.flights), **waiting}

        def problem() -> str | None:
            return None if leader.controller is None else leader.controller.problem

        identity.counts = counts
        identity.problems.append(problem)
        following = asyncio.create_task(every(kept_settings.LOOK, leader.follow, stop))
        await seat.run(leader.lead, stop)
        await following


async def terminal(settings: Settings, stop: asyncio.Event) -> None:
    """Fetches. It needs NATS and nothing else."""
    if settings.database is not None:
        log.warning("database_not_needed", message="A terminal needs no database; better not to give it the address.")
    identity = Identity(settings, "terminal", capacity=settings.concurrency)
    timing = Timing(settings.cluster_lease)
    link = await connect(address(settings), identity.name)
    streams = Streams(link, settings.nats_prefix, timing)
    try:
        async with fetcher(settings, timing, lambda: works.clock()) as client:
            works = Terminal(
                identity.name,
                client,
                NatsLandlord(streams, identity.report),
                NatsJobs(streams),
                NatsResults(streams),
                timing=timing,
                concurrency=settings.concurrency,
            )
            identity.counts = lambda: {**works.counts, "held": len(works.tenancy.held)}
            identity.problems = [lambda: streams.patience.problem, lambda: works.problem]
            identity.outage = works.away
            log.info("joined", member=identity.name, role="terminal")
            await works.run(stop)
    finally:
        if not link.is_closed:
            await link.close()
    log.info("stopped", member=identity.name)


async def storer(settings: Settings, stop: asyncio.Event) -> None:
    """Writes what terminals bring; one storer relays what is new to query processors."""
    identity = Identity(settings, "storer")
    async with joined(settings, identity) as here:
        relay = Relay(here.streams, here.store)
        courtesy = Courtesy(np.random.default_rng(), least=settings.least_interval)
        writes = Storer(here.store, courtesy, rows=False)
        storing = NatsStoring(here.streams, here.store, writes, relay.wake)
        identity.counts = lambda: {**writes.counts, **relay.counts, "put_aside": storing.put_aside}
        identity.problems.append(lambda: storing.problem)
        seat = Seat(here.store, RELAY, identity.name, here.timing.lead)

        with suppress(HeadwaterError):  # the database may be away again already; it is looked again soon
            await writes.follow_hubs()
        hubs = every(pushed.LOOK, writes.follow_hubs, stop)
        await asyncio.gather(storing.run(stop), seat.run(relay.run, stop), hubs)


async def processor(settings: Settings, stop: asyncio.Event) -> None:
    """Matches items with standing queries; one at a time does, others are ready."""
    identity = Identity(settings, "processor")
    async with joined(settings, identity) as here:
        matched = {"matched": 0, "hits": 0}

        async def process(held: Lease, over: asyncio.Event) -> None:
            store = here.store.fenced(held)
            followed = Followed(here.streams, store)
            works = Processor(
                store,
                detect=detector(),
                writers=(Duties(zone(settings.time_zone)), pages_of_hits),
                entries=followed.read,
            )

            async def count() -> None:
                progress = await works.progress()
                matched.update(matched=progress.matched, hits=progress.hits, behind=progress.behind, **followed.counts)

            counting = asyncio.create_task(every(here.timing.beat / 2, count, over))  # told every beat
            try:
                await works.run(over)
            finally:
                counting.cancel()
                await followed.close()

        identity.counts = lambda: matched
        await Seat(here.store, PROCESSOR, identity.name, here.timing.lead).run(process, stop)


async def publisher(settings: Settings, stop: asyncio.Event) -> None:
    """Sends mails, web hooks and notices; one publisher fetches the articles behind items."""
    identity = Identity(settings, "publisher")
    async with (
        joined(settings, identity) as here,
        fetcher(settings, here.timing) as client,
        fetcher(settings, here.timing, errands=by_terminals(here.streams)) as scout,
    ):
        sends = Publisher(here.streams, await delivering(here.store, client, settings))
        dispatch = Dispatch(here.streams, here.store)
        identity.counts = lambda: {**sends.counts, **dispatch.counts}
        seat = Seat(here.store, DISPATCHER, identity.name, here.timing.lead)
        reading = Seat(here.store, ARTICLES, identity.name, here.timing.lead)
        articles = fetching(here.store, scout, settings.article_budget)
        await asyncio.gather(sends.run(stop), seat.run(dispatch.run, stop), reading.run(articles, stop))


ROLES: dict[str, Callable[[Settings, asyncio.Event], Any]] = {
    "controller": controller,
    "terminal": terminal,
    "storer": storer,
    "processor": processor,
    "publisher": publisher,
}
