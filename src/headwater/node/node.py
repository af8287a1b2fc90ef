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
from headwater.loops import run_every
from headwater.node.article_fetcher import ArticleFetcher, enqueue_articles_of_hits
from headwater.node.crawl.crawler import Crawler, CrawlStatus
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.refresher import StoredRefresh
from headwater.node.crawl.strategy_setup import build_configured_strategy, make_budget_account
from headwater.node.deliverer_setup import make_deliverer
from headwater.node.live_settings import POLL_SECONDS, LiveSettings, check_changes
from headwater.node.maintenance import Maintenance
from headwater.node.quality.belief_sample import BeliefSample, sample_beliefs
from headwater.node.queries.processor import HitWriter, QueryProcessor
from headwater.publish.delivery.deliverer import Deliverer
from headwater.publish.delivery.delivery_planner import DeliveryPlanner
from headwater.publish.live_events import LiveEvents
from headwater.query.items.language_detection import make_language_detector
from headwater.schedule.strategy import Strategy
from headwater.settings import Settings
from headwater.store.opening import open_store
from headwater.store.queries.hits import StoredHit
from headwater.store.store import Store
from headwater.times import parse_time_zone

log = structlog.get_logger()


class Node:
    """One process of Headwater. `async with Node(settings) as node:` runs it until the block ends."""

    def __init__(
        self,
        settings: Settings,
        *,
        on_settled: Callable[[Sequence[StoredRefresh]], None] | None = None,
        on_hits: Callable[[Sequence[StoredHit]], None] = lambda hits: None,
        writers: Sequence[HitWriter] = (),
    ) -> None:
        """`on_hits` is told what has come out of query feeds; `writers` write in the transaction of the hits."""
        self.settings = settings
        self.store: Store
        self.crawler: Crawler
        self.processor: QueryProcessor
        self.live: LiveEvents
        self.deliverer: Deliverer
        self.on_hits = [on_hits]
        self._writers = writers
        self.on_stored = [on_settled] if on_settled else []
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._settings_lock = asyncio.Lock()  # settings
        self.broken = asyncio.Event()  # the crawler has ended without being asked to

    async def __aenter__(self) -> Self:
        given = self.settings
        try:
            self.store = await self._stack.enter_async_context(await open_store(given.database_url))
            self._live_settings = LiveSettings(self.store, given)
            self.settings = given = await self._live_settings.load()
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
            courtesy = Politeness(np.random.default_rng(), least=given.least_interval)
            self.crawler = Crawler(
                self.store,
                fetcher,
                build_configured_strategy(given),
                make_budget_account(given),
                courtesy,
                concurrency=given.concurrency,
                per_host=given.per_host,
                on_settled=self._report_stored,
            )
            self.maintenance = Maintenance(self.store, self.crawler, given)
            await self.maintenance.load_state()
            self.live = LiveEvents(self.store)
            self.deliverer = await make_deliverer(self.store, fetcher, given)
            self.processor = QueryProcessor(
                self.store,
                detect=make_language_detector(),
                writers=(*self._writers, DeliveryPlanner(parse_time_zone(given.time_zone)), enqueue_articles_of_hits),
                on_hits=self._report_hits,
                on_taken=self._update_demand,
            )
        except BaseException:
            await self._stack.aclose()
            raise
        self._tasks = [
            asyncio.create_task(self.crawler.run(self._stop)),
            asyncio.create_task(self.processor.run(self._stop)),
            asyncio.create_task(self.deliverer.run(self._stop)),
            asyncio.create_task(ArticleFetcher(self.store, self.fetcher, given.article_budget).run(self._stop)),
            *self.maintenance.start_tasks(self.processor, self._stop),
            asyncio.create_task(run_every(POLL_SECONDS, self._follow_settings, self._stop)),
        ]
        self._tasks[0].add_done_callback(self._report_breakdown)
        log.info(
            "started", feeds=len(self.crawler.feed_table), strategy=self.crawler.strategy.name, budget=given.budget
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.maintenance.save_state()
        await self.maintenance.publish_report()
        await self._stack.aclose()
        log.info("stopped")

    async def change_settings(self, changes: Mapping[str, Any]) -> Settings:
        """Other settings from now on, here, on every node of this database and after a restart, of those in
        `changing.CHANGEABLE`; SettingsError names what is wrong."""
        async with self._settings_lock:
            old = self.settings
            new, strategy = check_changes(old, changes, self._find_strategy())
            really = {name: getattr(new, name) for name in changes if getattr(new, name) != getattr(old, name)}
            await self._live_settings.save(really)
            await self._apply_settings(really, new, strategy)
            log.info("settings_changed", **really)
            return new

    @property
    def pinned_settings(self) -> frozenset[str]:
        """Settings given by an option, the environment or headwater.toml, which win at the next start."""
        return self._live_settings.pinned

    async def _follow_settings(self) -> None:
        """What another node of this database has changed."""
        async with self._settings_lock:
            if (news := await self._live_settings.poll_changes(self.settings, self._find_strategy())) is not None:
                await self._apply_settings(*news)

    def _find_strategy(self) -> Strategy:
        return self.crawler.strategy

    async def _apply_settings(self, changes: Mapping[str, Any], new: Settings, strategy: Strategy | None) -> None:
        self.settings = new
        await self.maintenance.apply_settings(changes, new, strategy)

    def _report_breakdown(self, task: asyncio.Task[None]) -> None:
        if not self._stop.is_set():
            error = task.exception() if not task.cancelled() else None
            log.error("crawler_broke_down", error=repr(error))
            self.broken.set()

    def status(self) -> CrawlStatus:
        """What goes on right now, for the pages."""
        return replace(
            self.crawler.status(), queries=len(self.processor.definitions), aims=self.maintenance.target_outcomes
        )

    async def sample_beliefs(self, now: float) -> BeliefSample | None:
        """What is believed of the feeds, to say what budgets would buy; None while nothing is."""
        return sample_beliefs(self.crawler, now)

    def _report_hits(self, hits: Sequence[StoredHit]) -> None:
        self.live.wake(hits)
        self.deliverer.wake()
        for told in self.on_hits:
            told(hits)

    def _report_stored(self, batch: Sequence[StoredRefresh]) -> None:
        self.maintenance.monitor.count_refreshes((one.verdict.refresh, one.fetched.known.last_success) for one in batch)
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
        for listener in self.on_stored:
            listener(batch)

    async def _update_demand(self) -> None:
        await self.maintenance.update_demand(self.processor)
