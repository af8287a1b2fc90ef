"""Starts, holds and stops the parts of one process, and implements `Aggregator` for its pages.

`assembly.build` makes the parts. A node stops gracefully: nothing new is begun, running work is finished and stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import structlog

from headwater.fetch.client import Fetcher
from headwater.node.aggregator import CrawlControl
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.crawl.transport import StoredRefresh
from headwater.node.live_settings import LiveSettings
from headwater.node.maintenance import Maintenance
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.delivery.deliverer import Deliverer
from headwater.publish.live_events import LiveEvents
from headwater.settings import Settings
from headwater.store.queries.hits import StoredHit
from headwater.store.store import Store

Part = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""Runs until the event is set."""

log = structlog.get_logger()


class Node:
    """One process of Headwater: `async with node:` runs its parts until the block ends.

    The first part must not end by itself. `count_queries` returns how many query feeds run here.
    """

    def __init__(
        self,
        store: Store,
        live_settings: LiveSettings,
        fetcher: Fetcher,
        crawl: CrawlControl,
        deliverer: Deliverer,
        *,
        courier: Fetcher | None = None,
        count_queries: Callable[[], int] = lambda: 0,
    ) -> None:
        self.store = store
        self.live_settings = live_settings
        self.fetcher = fetcher
        self.courier = courier or fetcher
        self.crawl = crawl
        self.live = LiveEvents(store)
        self.deliverer = deliverer
        self._count_queries = count_queries
        self.processor: QueryProcessor | None = None
        self.maintenance: Maintenance | None = None
        self.parts: list[Part] = []
        self.on_hits: list[Callable[[Sequence[StoredHit]], None]] = []
        self.on_stored: list[Callable[[Sequence[StoredRefresh]], None]] = []
        self._broken = asyncio.Event()
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(part(self._stop)) for part in self.parts]
        if self._tasks:
            self._tasks[0].add_done_callback(self._report_breakdown)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self.deliverer.wake()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # the aggregator of pages and APIs

    @property
    def settings(self) -> Settings:
        return self.live_settings.current

    @property
    def pinned_settings(self) -> frozenset[str]:
        """The settings given by an option, the environment or headwater.toml, which win at the next start."""
        return self.live_settings.pinned

    async def change_settings(self, changes: Mapping[str, Any]) -> Settings:
        """Change settings on every node of the database, now and after a restart. Raises SettingsError."""
        return await self.live_settings.change(changes)

    def status(self) -> CrawlStatus:
        """Return the state of the aggregator."""
        status = self.crawl.status()
        return replace(status, queries=self._count_queries() or status.queries)

    def wake_deliveries(self) -> None:
        """Look for due deliveries now."""
        self.deliverer.wake()

    async def send_test_message(self, kind: str, address: str) -> None:
        """Send a test message by mail (email), web hook or notification (notify). Raises InputError with the reason."""
        await self.deliverer.send_test(kind, address)

    async def wait_until_broken(self) -> None:
        """Return when the crawl has ended without being asked to."""
        await self._broken.wait()

    # news from the parts

    def report_hits(self, hits: Sequence[StoredHit]) -> None:
        """Tell everybody that items came out of query feeds."""
        self.live.wake(hits)
        self.deliverer.wake()
        for listener in self.on_hits:
            listener(hits)

    def report_stored(self, batch: Sequence[StoredRefresh]) -> None:
        """Tell everybody that this process has stored refreshes."""
        for listener in self.on_stored:
            listener(batch)

    def _report_breakdown(self, task: asyncio.Task[None]) -> None:
        if not self._stop.is_set():
            error = task.exception() if not task.cancelled() else None
            log.error("crawler_broke_down", error=repr(error))
            self._broken.set()
