"""Requests refreshes and stores pushes from a process that schedules nothing: the leader may be on another machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from headwater.cluster.leader import Leader, load_belief_sample, load_leader_status
from headwater.errors import NotFound, RefreshHeld, Unreachable
from headwater.model import Document, Known, Markup, Outcome, Refresh, Verdict
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.crawl.ingest import Ingest
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import UpcomingRefresh, list_upcoming
from headwater.node.crawl.transport import FetchResult, Job, StoredRefresh
from headwater.node.live_settings import LiveSettings
from headwater.node.quality.belief_sample import BeliefSample
from headwater.store import cluster_jobs
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.refreshes import list_refreshes
from headwater.store.content.verdicts import SavedRefresh
from headwater.store.store import Store

WAIT_SECONDS = 60.0  # that a person waits for a refresh
POLL_SECONDS = 0.1  # between two looks whether it is stored


class RemoteCrawl:
    """A request becomes a row for the leader, a push is stored here. `leader` is that of a process that may lead."""

    def __init__(
        self,
        store: Store,
        ingest: Ingest,
        politeness: Politeness,
        live_settings: LiveSettings,
        leader: Leader | None = None,
    ) -> None:
        self._store = store
        self._ingest = ingest
        self.politeness = politeness
        self._live_settings = live_settings
        self.leader = leader
        self._status: CrawlStatus | None = None

    def status(self) -> CrawlStatus:
        """Return the status of the leader, whichever process that is."""
        here = None if self.leader is None else self.leader.status()
        return here or self._status or self._make_empty_status()

    def _make_empty_status(self) -> CrawlStatus:
        settings = self._live_settings.current
        return CrawlStatus(0, 0, settings.strategy, settings.budget, int(settings.budget), None, 0)

    async def follow_status(self) -> None:
        """Load the leader's status, while another process leads."""
        if self.leader is None or self.leader.status() is None:
            self._status = await load_leader_status(self._store)

    async def request_refresh(self, feed_id: int) -> StoredRefresh:
        """Ask the leader for a refresh, first in its budget, and return when it is stored.

        Raises RefreshHeld inside Retry-After, Unreachable if it took too long.
        """
        known = await self._load_feed(feed_id)
        until = self.politeness.find_hold(known, time.time())
        if until is not None:
            raise RefreshHeld(f"The server of {known.url} asked to be left alone (Retry-After).", until)
        await self._store.write(cluster_jobs.add_refresh_request, feed_id, newer_than=known.last_refresh)
        try:
            return await self._wait_for_refresh(known)
        finally:
            await self._store.write(cluster_jobs.remove_refresh_requests, [feed_id])

    async def _wait_for_refresh(self, known: Known) -> StoredRefresh:
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            await asyncio.sleep(POLL_SECONDS)
            last = await self._store.read(list_refreshes, known.feed_id, limit=1)
            if last and last[0].at != known.last_refresh:
                return await self._make_stored_refresh(known, last[0])
        raise Unreachable(f"No machine has refreshed {known.url} within {WAIT_SECONDS:.0f} seconds.", "timeout")

    async def accept_push(self, feed_id: int, document: Document[Markup], size: int) -> StoredRefresh:
        """Store a document that a hub pushed, and return when it is stored."""
        return await self._ingest.accept_push(feed_id, document, size)

    async def note_signal(self, feed_id: int) -> None:
        """Tell the leader that the hub of a feed announced something new."""
        await self._store.write(cluster_jobs.add_refresh_request, feed_id, by_hub=True)

    async def reconsider_feeds(self, feed_ids: Iterable[int]) -> None:
        """The leader sees in the store which feeds are pushed."""

    async def list_upcoming(self, now: float, limit: int) -> list[UpcomingRefresh]:
        """List the next refreshes, if this process leads."""
        dispatcher = None if self.leader is None else self.leader.dispatcher
        return [] if dispatcher is None else list_upcoming(dispatcher.scheduler, now, limit)

    async def sample_beliefs(self, now: float) -> BeliefSample | None:
        """Return the leader's last sample of beliefs, whichever process leads."""
        return await load_belief_sample(self._store)

    async def _load_feed(self, feed_id: int) -> Known:
        known = (await self._store.read(load_feed_states, [feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        return known

    async def _make_stored_refresh(self, before: Known, refresh: Refresh) -> StoredRefresh:
        """Describe a refresh that another machine may have made as if it were ours."""
        after = (await self._store.read(load_feed_states, [before.feed_id])).get(before.feed_id, before)
        outcome = Outcome(refresh.ending, before.url, before.url, refresh.at, refresh.elapsed, refresh.status)
        result = FetchResult(Job(before.feed_id, 0, 0, before.url, refresh.reason), outcome)
        return StoredRefresh(result, before, Verdict(refresh, after), SavedRefresh(before.feed_id))
