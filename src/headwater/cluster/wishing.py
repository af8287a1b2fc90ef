"""What the pages of a cluster talk to instead of a crawler: wishes and pushes go to whoever deals with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace

from headwater.cluster.controller import Outgoing
from headwater.cluster.leading import SEAT
from headwater.cluster.messages import EPOCH_SHIFT, Job, Result, job_for
from headwater.cluster.storer import Storer
from headwater.errors import Held, NotFound, Unreachable
from headwater.fetch.client import Fetcher
from headwater.model import Document, Ending, Known, Outcome, Refresh, Verdict
from headwater.node.courtesy import Courtesy
from headwater.node.crawler import Crawler
from headwater.node.refresher import Fetched, Settled
from headwater.node.setting_up import build_strategy, spending
from headwater.settings import Settings
from headwater.store import leases
from headwater.store.store import Store
from headwater.store.values import Saved

WISH = 60.0  # seconds that a person waits for a refresh
NEVER_LATE = 1 << 62  # an epoch that no partition reaches: what is pushed to us belongs to nobody's lease


class Wishing(Crawler):
    """It decides nothing and fetches nothing: a wish becomes a job, a push is stored as it is."""

    def __init__(
        self, store: Store, fetcher: Fetcher, settings: Settings, courtesy: Courtesy, outgoing: Outgoing
    ) -> None:
        super().__init__(store, fetcher, build_strategy(settings), spending(settings), courtesy)
        self._outgoing = outgoing
        self._storer = Storer(store, courtesy)

    async def refresh_now(self, feed_id: int) -> Settled:
        known = await self._found(feed_id)
        until = self.courtesy.must_wait(known, self._clock())
        if until is not None:
            raise Held(f"The server of {known.url} asked to be left alone (Retry-After).", until)
        await self._outgoing.offer([replace(await self._job(known, "asked for by a person"), wished=True)])
        end = time.monotonic() + WISH
        while time.monotonic() < end:
            await asyncio.sleep(0.1)
            last = await self._store.refreshes(feed_id, limit=1)
            if last and last[0].at != known.last_refresh:
                return await self._settled(known, last[0])
        raise Unreachable(f"No machine has refreshed {known.url} within {WISH:.0f} seconds.", "timeout")

    async def accept(self, feed_id: int, document: Document, size: int) -> Settled:
        known = await self._found(feed_id)
        outcome = Outcome(
            *(Ending.PARTIAL, known.url, known.url, self._clock(), 0.0), document=document, bytes=size, pushed=True
        )
        job = await self._job(known, "pushed by its hub")
        await self._storer.settle([Result(job, outcome, "", NEVER_LATE)])
        [last] = await self._store.refreshes(feed_id, limit=1)
        return await self._settled(known, last)

    async def tell(self, feed_id: int) -> None:
        known = await self._found(feed_id)
        if self.courtesy.must_wait(known, self._clock()) is None:
            await self._outgoing.offer([await self._job(known, "its hub says that something is new")])

    async def reconsider(self, feed_ids: Iterable[int]) -> None:
        """When feeds are polled is the controller's affair."""

    async def _found(self, feed_id: int) -> Known:
        known = (await self._store.known([feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        return known

    async def _job(self, known: Known, reason: str) -> Job:
        leading = await self._store.read(leases.read, SEAT)
        generation = (leading[0].epoch if leading else 0) << EPOCH_SHIFT
        return job_for((await self._store.asking([known.feed_id]))[known.feed_id], generation, reason, None)

    async def _settled(self, before: Known, refresh: Refresh) -> Settled:
        """A refresh that another machine may have made, in the form of one of ours."""
        after = (await self._store.known([before.feed_id])).get(before.feed_id, before)
        outcome = Outcome(refresh.ending, before.url, before.url, refresh.at, refresh.elapsed, refresh.status)
        return Settled(Fetched(before, outcome, refresh.reason), Verdict(refresh, after), Saved(before.feed_id))
