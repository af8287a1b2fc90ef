"""The running aggregator of one process: the crawler and everything that goes on beside it.

`Node` owns what it opens. It stops gracefully: no new fetches, what is under way is written, what was learned is saved.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import structlog

from headwater.fetch.client import Fetcher
from headwater.node import memory
from headwater.node.courtesy import Courtesy
from headwater.node.crawler import Crawler, Status
from headwater.node.delivering import delivering, zone
from headwater.node.processor import Processor, Write
from headwater.node.quality import Quality, Watch
from headwater.node.refresher import Settled
from headwater.node.setting_up import build_strategy, spending
from headwater.node.targeting import EVERY as RETARGET
from headwater.node.targeting import require_beliefs, retarget
from headwater.node.targets import Aim, aims
from headwater.node.wants import Want, Wanting, owned
from headwater.publish.deliver import Deliverer
from headwater.publish.duties import Duties
from headwater.publish.live import Live
from headwater.query.tongues import detector
from headwater.settings import Settings
from headwater.store.store import Store
from headwater.store.values import Keep, StoredHit

LOOK = 1.0  # seconds between two looks for feeds that another process has added, changed or removed
SAVE = 300.0
REPORT = 60.0
PRUNE = 3600.0
WANTS = 60.0
INDEX = 2.0  # a search indexes what is missing itself; this keeps that little

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
        self._aims: tuple[Aim, ...] = ()
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
            if given.target is not None:
                require_beliefs(self.crawler.strategy)
            await self.crawler.load()
            await memory.load_strategy(self.store, self.crawler.roster, self.crawler.strategy)
            self.watch = Watch(self.store, self.crawler, given.least_interval)
            await self.watch.load()
            await self._retarget()
            self._revision = await self.store.revision()
            self.live = Live(self.store)
            self.deliverer = await delivering(self.store, fetcher, given)
            self.processor = Processor(
                self.store,
                detect=detector(),
                writers=(*self._writers, Duties(zone(given.time_zone))),
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
            asyncio.create_task(self._every(LOOK, self._look)),
            asyncio.create_task(self._every(WANTS, self._want)),
            asyncio.create_task(self._every(SAVE, self.save)),
            asyncio.create_task(self._every(REPORT, self.report)),
            asyncio.create_task(self._every(RETARGET, self._retarget)),
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
        await self.report()
        await self._stack.aclose()
        log.info("stopped")

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._stop.is_set():
            error = task.exception() if not task.cancelled() else None
            log.error("crawler_broke_down", error=repr(error))
            self.broken.set()

    def status(self) -> Status:
        """What goes on right now, for the pages."""
        return replace(self.crawler.status(), queries=len(self.processor.definitions), aims=self._aims)

    async def save(self) -> None:
        """Keep what was learned."""
        crawler = self.crawler
        await memory.save(self.store, crawler.roster, crawler.strategy, crawler.courtesy, time.time())

    def _hits(self, hits: Sequence[StoredHit]) -> None:
        self.live.wake(hits)
        self.deliverer.wake()
        for told in self.on_hits:
            told(hits)

    async def quality(self) -> Quality:
        """How good the watching is at this moment."""
        return await self.watch.report(time.time())

    async def report(self) -> None:
        """Say how good the watching is, and keep it for those who ask from another process."""
        report = await self.quality()
        hour = report.hour
        log.info(
            "quality",
            completeness=_rounded(report.completeness),
            expected_completeness=_rounded(report.expected_completeness),
            freshness=_rounded(report.freshness),
            lost_hour=round(hour.lost, 1),
            delay_median=None if hour.delay is None else round(hour.delay.median),
            delay_p95=None if hour.delay is None else round(hour.delay.p95),
            requests=report.used_requests,
            budget=report.budget_requests,
            saturated=report.saturated,
            price=_rounded(report.price),
            target=report.target,
            problem=report.problem,
        )
        await self.watch.save(report.at, report)

    async def _retarget(self) -> None:
        given = self.settings
        if given.target is not None:
            await retarget(self.crawler, given.target, given.most_budget, given.least_interval, time.time())

    def _settled(self, batch: Sequence[Settled]) -> None:
        self.watch.note((one.verdict.refresh, one.fetched.known.last_success) for one in batch)
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
        if any(one.verdict.new or one.verdict.updated for one in batch):
            self.processor.wake()
        for listener in self._listeners:
            listener(batch)

    async def _look(self) -> None:
        """Feeds that a command or another process added, changed or removed."""
        revision = await self.store.revision()
        if revision != self._revision:
            await self.crawler.load()
            self._revision = revision
            await self._want()

    async def _want(self) -> None:
        """What queries want of each feed becomes its weight; what they aim at is compared with the budget."""
        definitions = dict(self.processor.definitions)
        own, queries = await owned(self.store, self.settings.only_wanted_by_queries), self.store.queries
        if not definitions and not self.settings.only_wanted_by_queries:
            self.crawler.roster.want({feed: Want(weight, 1.0) for feed, weight in own.items()})
            self._aims = ()
            return
        wanting = Wanting(definitions, self.processor.scope(), await queries.sources(), await queries.offers())
        self.crawler.roster.want(await asyncio.to_thread(wanting.wants, own))
        named = list(definitions.items())
        given = self.settings
        self._aims = tuple(
            aims(wanting, named, self.crawler.roster, self.crawler.rates(), given.budget, given.least_interval)
        )

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


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 5)
