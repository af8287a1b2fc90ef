"""What the pages of a cluster talk to instead of a crawler: wishes and pushes go to whoever deals with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from msgspec.structs import replace

from headwater.cluster.cluster_dispatcher import JobSender
from headwater.cluster.cluster_ingest import ClusterIngest
from headwater.cluster.leader import CONTROLLER
from headwater.cluster.transport.wire_messages import EPOCH_SHIFT, FetchResult, Job, make_job
from headwater.errors import NotFound, RefreshHeld, Unreachable
from headwater.fetch.client import Fetcher
from headwater.model import Document, Ending, Known, Markup, Outcome, Refresh, Verdict
from headwater.node.crawl.crawler import Crawler
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.refresher import Fetched, StoredRefresh
from headwater.node.crawl.strategy_setup import build_configured_strategy, make_budget_account
from headwater.settings import Settings
from headwater.store import cluster_leases
from headwater.store.content.feed_state import load_feed_states, load_fetch_plans
from headwater.store.content.refreshes import list_refreshes
from headwater.store.content.verdicts import SavedRefresh
from headwater.store.store import Store

WAIT_SECONDS = 60.0  # seconds that a person waits for a refresh
NEVER_LATE = 1 << 62  # an epoch that no partition reaches: what is pushed to us belongs to nobody's lease


class RemoteCrawl(Crawler):
    """It decides nothing and fetches nothing: a wish becomes a job, a push is stored as it is."""

    def __init__(
        self, store: Store, fetcher: Fetcher, settings: Settings, courtesy: Politeness, outgoing: JobSender
    ) -> None:
        super().__init__(store, fetcher, build_configured_strategy(settings), make_budget_account(settings), courtesy)
        self._sender = outgoing
        self._ingest = ClusterIngest(store, courtesy)

    async def request_refresh(self, feed_id: int) -> StoredRefresh:
        known = await self._load_feed(feed_id)
        until = self.politeness.find_hold(known, self._clock())
        if until is not None:
            raise RefreshHeld(f"The server of {known.url} asked to be left alone (Retry-After).", until)
        await self._sender.send_jobs([replace(await self._make_job(known, "asked for by a person"), wished=True)])
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            await asyncio.sleep(0.1)
            last = await self._store.read(list_refreshes, feed_id, limit=1)
            if last and last[0].at != known.last_refresh:
                return await self._make_stored_refresh(known, last[0])
        raise Unreachable(f"No machine has refreshed {known.url} within {WAIT_SECONDS:.0f} seconds.", "timeout")

    async def accept_push(self, feed_id: int, document: Document[Markup], size: int) -> StoredRefresh:
        known = await self._load_feed(feed_id)
        outcome = Outcome(
            *(Ending.PARTIAL, known.url, known.url, self._clock(), 0.0), document=document, bytes=size, pushed=True
        )
        job = await self._make_job(known, "pushed by its hub")
        await self._ingest.save_results([FetchResult(job, outcome, "", NEVER_LATE)])
        [last] = await self._store.read(list_refreshes, feed_id, limit=1)
        return await self._make_stored_refresh(known, last)

    async def note_signal(self, feed_id: int) -> None:
        known = await self._load_feed(feed_id)
        if self.politeness.find_hold(known, self._clock()) is None:
            await self._sender.send_jobs([await self._make_job(known, "its hub says that something is new")])

    async def reconsider_feeds(self, feed_ids: Iterable[int]) -> None:
        """When feeds are polled is the controller's affair."""

    async def _load_feed(self, feed_id: int) -> Known:
        known = (await self._store.read(load_feed_states, [feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        return known

    async def _make_job(self, known: Known, reason: str) -> Job:
        leading = await self._store.read(cluster_leases.list_leases, CONTROLLER)
        generation = (leading[0].epoch if leading else 0) << EPOCH_SHIFT
        return make_job(
            (await self._store.read(load_fetch_plans, [known.feed_id]))[known.feed_id], generation, reason, None
        )

    async def _make_stored_refresh(self, before: Known, refresh: Refresh) -> StoredRefresh:
        """A refresh that another machine may have made, in the form of one of ours."""
        after = (await self._store.read(load_feed_states, [before.feed_id])).get(before.feed_id, before)
        outcome = Outcome(refresh.ending, before.url, before.url, refresh.at, refresh.elapsed, refresh.status)
        return StoredRefresh(
            Fetched(before, outcome, refresh.reason), Verdict(refresh, after), SavedRefresh(before.feed_id)
        )
