"""The running aggregator of one process: the crawler and everything that goes on beside it.

`Node` owns what it opens. It stops gracefully: no new fetches, what is under way is written, what was learned is saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import structlog

from headwater.fetch.client import Fetcher
from headwater.node.articles import Articles, pages_of_hits
from headwater.node.buying import Sample, sampled
from headwater.node.changing import agreed
from headwater.node.courtesy import Courtesy
from headwater.node.crawler import Crawler, Status
from headwater.node.delivering import delivering
from headwater.node.kept_settings import LOOK, KeptSettings
from headwater.node.processor import Processor, Write
from headwater.node.refresher import Settled
from headwater.node.setting_up import build_strategy, spending
from headwater.node.upkeep import Upkeep, every
from headwater.publish.deliver import Deliverer
from headwater.publish.duties import Duties
from headwater.publish.live import Live
from headwater.query.tongues import detector
from headwater.schedule.base import Strategy
from headwater.settings import Settings
from headwater.store.store import Store
from headwater.store.values import StoredHit
from headwater.when import zone

log = structlog.get_logger()


class Node:
    """One process of Headwater. `async with Node(settings) as node:` runs it until the block ends."""

    def __init__(
        self,
        settings: Settings,
        *,
        on_settled: Callable[[Sequence[Settled]], None] | None = None,
        on_hits: Callable[[Sequence[StoredHit]], None] = lambda hits: None,
        writers: Sequence[Write] = (),
    ) -> None:
        """`on_hits` is told what has come out of query feeds; `writers` write in the transaction of the hits."""
        self.settings = settings
        self.store: Store
        self.crawler: Crawler
        self.processor: Processor
        self.live: Live
        self.deliverer: Deliverer
        self.on_hits = [on_hits]
        self._writers = writers
        self.on_settled = [on_settled] if on_settled else []
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._changing = asyncio.Lock()  # settings
        self.broken = asyncio.Event()  # the crawler has ended without being asked to

    async def __aenter__(self) -> Self:
        given = self.settings
        try:
            self.store = await self._stack.enter_async_context(await Store.open(given.database_url))
            self._kept = KeptSettings(self.store, given)
            self.settings = given = await self._kept.at_start()
            fetcher = await self._stack.enter_async_context(
                Fetcher(
                    allow_private=given.allow_private,
                    contact=given.contact,
                    per_host=given.per_host,
                    pause=given.host_pause,
                    connections=2 * given.concurrency,
                )
            )
            self.fetcher = self.scout = fetcher
            courtesy = Courtesy(np.random.default_rng(), least=given.least_interval)
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
            self.upkeep = Upkeep(self.store, self.crawler, given)
            await self.upkeep.begin()
            self.live = Live(self.store)
            self.deliverer = await delivering(self.store, fetcher, given)
            self.processor = Processor(
                self.store,
                detect=detector(),
                writers=(*self._writers, Duties(zone(given.time_zone)), pages_of_hits),
                on_hits=self._hits,
                on_taken=self._want,
            )
        except BaseException:
            await self._stack.aclose()
            raise
        self._tasks = [
            asyncio.create_task(self.crawler.run(self._stop)),
            asyncio.create_task(self.processor.run(self._stop)),
            asyncio.create_task(self.deliverer.run(self._stop)),
            asyncio.create_task(Articles(self.store, self.fetcher, given.article_budget).run(self._stop)),
            *self.upkeep.tasks(self.processor, self._stop),
            asyncio.create_task(every(LOOK, self._follow, self._stop)),
        ]
        self._tasks[0].add_done_callback(self._ended)
        log.info("started", feeds=len(self.crawler.roster), strategy=self.crawler.strategy.name, budget=given.budget)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.upkeep.save()
        await self.upkeep.report()
        await self._stack.aclose()
        log.info("stopped")

    async def change(self, changes: Mapping[str, Any]) -> Settings:
        """Other settings from now on, here, on every node of this database and after a restart, of those in
        `changing.CHANGEABLE`; SettingsError names what is wrong."""
        async with self._changing:
            old = self.settings
            new, strategy = agreed(old, changes, self._strategy())
            really = {name: getattr(new, name) for name in changes if getattr(new, name) != getattr(old, name)}
            await self._kept.keep(really)
            await self._take(really, new, strategy)
            log.info("settings_changed", **really)
            return new

    @property
    def by_hand(self) -> frozenset[str]:
        """Settings given by an option, the environment or headwater.toml, which win at the next start."""
        return self._kept.by_hand

    async def _follow(self) -> None:
        """What another node of this database has changed."""
        async with self._changing:
            if (news := await self._kept.news(self.settings, self._strategy())) is not None:
                await self._take(*news)

    def _strategy(self) -> Strategy:
        return self.crawler.strategy

    async def _take(self, changes: Mapping[str, Any], new: Settings, strategy: Strategy | None) -> None:
        self.settings = new
        await self.upkeep.take(changes, new, strategy)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._stop.is_set():
            error = task.exception() if not task.cancelled() else None
            log.error("crawler_broke_down", error=repr(error))
            self.broken.set()

    def status(self) -> Status:
        """What goes on right now, for the pages."""
        return replace(self.crawler.status(), queries=len(self.processor.definitions), aims=self.upkeep.aims)

    async def sample(self, now: float) -> Sample | None:
        """What is believed of the feeds, to say what budgets would buy; None while nothing is."""
        return sampled(self.crawler, now)

    def _hits(self, hits: Sequence[StoredHit]) -> None:
        self.live.wake(hits)
        self.deliverer.wake()
        for told in self.on_hits:
            told(hits)

    def _settled(self, batch: Sequence[Settled]) -> None:
        self.upkeep.watch.note((one.verdict.refresh, one.fetched.known.last_success) for one in batch)
        bound = log.bind()  # once: to find out where the log goes costs more than to say nothing there
        for one in batch:
            refresh = one.verdict.refresh
            bound.info(
                "refreshed",
                feed=refresh.feed_id,
                url=one.fetched.known.url,
                ending=refresh.ending.value,
                new=refresh.new,
                lost=round(refresh.lost, 1),
                reason=refresh.reason,
            )
        if any(one.verdict.new or one.verdict.updated for one in batch):
            self.processor.wake()
        for listener in self.on_settled:
            listener(batch)

    async def _want(self) -> None:
        await self.upkeep.want(self.processor)
