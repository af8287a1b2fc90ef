"""The running aggregator of one process: the crawler and everything that goes on beside it.

`Node` owns what it opens. It stops gracefully: no new fetches, what is under way is written, what was learned is saved.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np
import structlog

from headwater.fetch.client import Fetcher
from headwater.node import memory
from headwater.node.courtesy import Courtesy
from headwater.node.crawler import Crawler, Status
from headwater.node.refresher import Settled
from headwater.node.setting_up import build_strategy, spending
from headwater.settings import Settings
from headwater.store.store import Store
from headwater.store.values import Keep

LOOK = 1.0  # seconds between two looks for feeds that another process has added, changed or removed
SAVE = 300.0
PRUNE = 3600.0
INDEX = 2.0  # a search indexes what is missing itself; this keeps that little

log = structlog.get_logger()


class Node:
    """One process of Headwater. `async with Node(settings) as node:` runs it until the block ends."""

    def __init__(self, settings: Settings, *, on_settled: Callable[[Sequence[Settled]], None] | None = None) -> None:
        self.settings = settings
        self.store: Store
        self.crawler: Crawler
        self._listeners = [on_settled] if on_settled else []
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._revision = 0
        self.broken = asyncio.Event()  # the crawler has ended without being asked to

    async def __aenter__(self) -> Self:
        given = self.settings
        try:
            self.store = await self._stack.enter_async_context(await Store.open(given.database_url))
            fetcher = await self._stack.enter_async_context(
                Fetcher(
                    allow_private=given.allow_private,
                    contact=given.contact,
                    per_host=given.per_host,
                    connections=2 * given.concurrency,
                )
            )
            self.fetcher = fetcher
            courtesy = Courtesy(np.random.default_rng(), least=given.least_interval)
            await memory.load_hosts(self.store, courtesy)
            self.crawler = Crawler(
                self.store,
                fetcher,
                build_strategy(given),
                spending(given),
                courtesy,
                concurrency=given.concurrency,
                per_host=given.per_host,
                on_settled=self._settled,
            )
            await self.crawler.load()
            await memory.load_strategy(self.store, self.crawler.roster, self.crawler.strategy)
            self._revision = await self.store.revision()
        except BaseException:
            await self._stack.aclose()
            raise
        self._tasks = [
            asyncio.create_task(self.crawler.run(self._stop)),
            asyncio.create_task(self._every(LOOK, self._look)),
            asyncio.create_task(self._every(SAVE, self.save)),
            asyncio.create_task(self._every(PRUNE, self._prune)),
            asyncio.create_task(self._every(INDEX, self._index)),
        ]
        self._tasks[0].add_done_callback(self._ended)
        log.info("started", feeds=len(self.crawler.roster), strategy=self.crawler.strategy.name, budget=given.budget)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.save()
        await self._stack.aclose()
        log.info("stopped")

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._stop.is_set():
            error = task.exception() if not task.cancelled() else None
            log.error("crawler_broke_down", error=repr(error))
            self.broken.set()

    def status(self) -> Status:
        """What goes on right now, for the pages."""
        return self.crawler.status()

    async def save(self) -> None:
        """Keep what was learned."""
        crawler = self.crawler
        await memory.save(self.store, crawler.roster, crawler.strategy, crawler.courtesy, time.time())

    def _settled(self, batch: Sequence[Settled]) -> None:
        for one in batch:
            refresh = one.verdict.refresh
            log.info(
                "refreshed",
                feed=refresh.feed_id,
                url=one.fetched.known.url,
                ending=refresh.ending.value,
                new=refresh.new,
                lost=round(refresh.lost, 1),
                reason=refresh.reason,
            )
        for listener in self._listeners:
            listener(batch)

    async def _look(self) -> None:
        """Feeds that a command or another process added, changed or removed."""
        revision = await self.store.revision()
        if revision != self._revision:
            await self.crawler.load()
            self._revision = revision

    async def _prune(self) -> None:
        keep = Keep(days=self.settings.keep_days, per_feed=self.settings.keep_per_feed)
        while True:
            pruned = await self.store.prune(keep, time.time())
            if not (pruned.items or pruned.refreshes or pruned.outbox):
                return

    async def _index(self) -> None:
        while await self.store.index():
            pass

    async def _every(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do some work again and again until the node stops; a failure is logged and tried again next time."""
        while not self._stop.is_set():
            try:
                await asyncio.wait_for(self._stop.wait(), seconds)
            except TimeoutError:
                try:
                    await work()
                except Exception as error:
                    log.error("upkeep_failed", work=work.__name__, error=str(error))
