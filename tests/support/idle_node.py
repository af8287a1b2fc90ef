"""A node whose parts do not run, for tests and benchmarks of pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headwater.fetch.client import Fetcher
from headwater.model import Document, Ending, Outcome
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.crawl.local_crawl import LocalCrawl
from headwater.node.crawl.scheduler import make_scheduler
from headwater.node.live_settings import LiveSettings
from headwater.node.node import Node
from headwater.publish.delivery.deliverer import Deliverer
from headwater.settings import Settings, load_settings
from headwater.store.store import Store


class IdleCrawl(LocalCrawl):
    """A crawl that is never run, and reports a given status."""

    def __init__(self, store: Store, settings: Settings, fetcher: Fetcher, status: CrawlStatus | None) -> None:
        super().__init__(store, make_scheduler(store, settings), fetcher)
        self._status = status

    def status(self) -> CrawlStatus:
        return self._status or super().status()


class EmptyFeeds(Fetcher):
    """Finds a feed without items at every web address, without a network."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(lookup=lambda host, port: [])
        self._now = clock

    async def fetch(self, url: str, *arguments: Any, **options: Any) -> Outcome:
        return Outcome(Ending.CHANGED, url, url, self._now(), 0.0, 200, Document("rss 2.0"))


def make_idle_node(
    store: Store,
    status: CrawlStatus | None = None,
    *,
    fetcher: Fetcher | None = None,
    clock: Callable[[], float] = time.time,
    settings: Settings | None = None,
    **options: Any,
) -> Node:
    """Make a node on an open store that schedules, fetches, matches and delivers nothing; `options` are settings."""
    given = settings or load_settings(**options)
    fetcher = fetcher or EmptyFeeds(clock)
    crawl = IdleCrawl(store, given, fetcher, status)
    return Node(store, LiveSettings(store, given), fetcher, crawl, Deliverer(store, {}))
