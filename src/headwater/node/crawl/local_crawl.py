"""Runs the crawl loop of a single server: scheduler, dispatcher, fetch pool and ingest over memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from headwater.fetch.client import Fetcher
from headwater.model import Document, Markup
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.crawl.dispatcher import Dispatcher, LocalJobs
from headwater.node.crawl.fetch_pool import DirectFetch, FetchPool
from headwater.node.crawl.ingest import Ingest, LearningPlanner
from headwater.node.crawl.memory_transport import MemoryTransport
from headwater.node.crawl.network_outage import PROBE_SECONDS, NetworkOutage
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler, UpcomingRefresh, list_upcoming
from headwater.node.crawl.spending import SpendingLog
from headwater.node.crawl.transport import StoredRefresh
from headwater.node.quality.belief_sample import BeliefSample, sample_beliefs
from headwater.node.request_grants import LocalGrants
from headwater.store.store import Store


class LocalCrawl:
    """Keeps the feeds of a store refreshed until it is stopped."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        fetcher: Fetcher,
        *,
        concurrency: int = 64,
        probe_seconds: float = PROBE_SECONDS,
        on_stored: Callable[[Sequence[StoredRefresh]], None] = lambda batch: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.scheduler = scheduler
        self._on_stored = on_stored
        self._transport = MemoryTransport()
        outage = NetworkOutage(probe=probe_seconds, host_count=lambda: scheduler.feed_table.host_count)
        self._pool = FetchPool(
            "local", self._transport, DirectFetch(fetcher), outage=outage, concurrency=concurrency, clock=clock
        )
        spending_log = SpendingLog(store, lambda connection: clock())
        self.grants = LocalGrants(scheduler.budget, spending_log, clock=clock)
        self.dispatcher = Dispatcher(
            scheduler,
            self._transport,
            LocalJobs(store),
            spending_log,
            room=lambda in_flight: concurrency - self._transport.open_count,
            is_paused=lambda: outage.away_since is not None,
            on_request=outage.release_suspect,
            clock=clock,
        )
        self._ingest = Ingest(
            store,
            planner=LearningPlanner(scheduler),
            on_stored=self._land_stored,
            on_unasked=self.dispatcher.land_unasked,
            on_failed=self.dispatcher.land_failed,
            clock=clock,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Refresh until `stop` is set; then let running fetches end, store their results, and return."""
        fetched, stored = asyncio.Event(), asyncio.Event()
        await self.dispatcher.adopt_in_flight()
        self.grants.is_ready.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(_signal_after(self.dispatcher.run(stop), fetched))
            group.create_task(_signal_after(self._pool.run(fetched), stored))
            group.create_task(self._ingest.run(self._transport, stored))

    @property
    def politeness(self) -> Politeness:
        return self.scheduler.politeness

    def status(self) -> CrawlStatus:
        return replace(
            self.scheduler.status(),
            network_away_since=self._pool.outage.away_since,
            moved_at=self.dispatcher.moved_at,
        )

    async def request_refresh(self, feed_id: int) -> StoredRefresh:
        """Refresh a feed for a person and return when it is stored. Raises RefreshHeld inside Retry-After."""
        return await self.dispatcher.request_refresh(feed_id)

    async def accept_push(self, feed_id: int, document: Document[Markup], size: int) -> StoredRefresh:
        """Store a document that a hub pushed, and return when it is stored."""
        return await self._ingest.accept_push(feed_id, document, size)

    async def note_signal(self, feed_id: int) -> None:
        """Note that a hub announced something new at a feed, without the items."""
        await self.scheduler.note_signal(feed_id)

    async def reconsider_feeds(self, feed_ids: Iterable[int]) -> None:
        """Compute anew when feeds may be polled, after a hub has begun or ceased to push them."""
        await self.scheduler.reconsider_feeds(feed_ids)

    async def list_upcoming(self, now: float, limit: int) -> list[UpcomingRefresh]:
        """List the next refreshes, soonest first."""
        return list_upcoming(self.scheduler, now, limit)

    async def sample_beliefs(self, now: float) -> BeliefSample | None:
        """Return beliefs about some feeds that stand for all, or None while there are none."""
        return sample_beliefs(self.scheduler, now)

    def _land_stored(self, batch: Sequence[StoredRefresh]) -> None:
        self.dispatcher.land_stored(batch)
        self._on_stored(batch)


async def _signal_after(work: Coroutine[Any, Any, None], done: asyncio.Event) -> None:
    try:
        await work
    finally:
        done.set()
