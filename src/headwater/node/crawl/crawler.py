"""The crawler: lets the strategy choose within the budget, fetches, writes, learns, and begins again.

    roster ─► strategy.choose ─► fetch (many at once) ─► results ─► settle (one batch, one transaction) ─► learn
                    ▲                                                                                        │
                    └────────────────────────────────────────────────────────────────────────────────────────┘

Only this loop and its siblings in `node` look at the wall clock. What it decides is decided by pure code: `schedule`
chooses, `novelty` judges. Results wait while a batch is being written, and a moment for others under way, so
batches grow with the load.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import structlog

from headwater.errors import NotFound, RefreshHeld
from headwater.fetch.client import Fetcher
from headwater.model import Document, Ending, Known, Markup, Outcome, Verdict
from headwater.node.crawl.lessons import make_lesson
from headwater.node.crawl.network_outage import NetworkOutage
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.refresher import Fetched, Refresher, StoredRefresh
from headwater.node.crawl.scheduler import CrawlStatus, Scheduler
from headwater.node.crawl.spending import BudgetAccount
from headwater.schedule.strategy import Strategy
from headwater.store.content.feed_state import load_feed_states
from headwater.store.store import Store

TICK = 0.25  # seconds between two choices while nothing else happens
MAX_BATCH = 256
LINGER = 0.02  # seconds that a result waits for others under way: answers come in waves, and a transaction has its cost
STOP_SECONDS = 10.0  # seconds that fetches under way may take when the node stops

log = structlog.get_logger()

__all__ = ["CrawlStatus", "Crawler"]


class Crawler(Scheduler):
    """Keeps the feeds of a store refreshed until it is stopped."""

    def __init__(
        self,
        store: Store,
        fetcher: Fetcher,
        strategy: Strategy,
        spending: BudgetAccount,
        courtesy: Politeness,
        *,
        concurrency: int = 64,
        per_host: int = 1,
        on_settled: Callable[[Sequence[StoredRefresh]], None] = lambda batch: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(store, strategy, spending, courtesy, per_host=per_host, clock=clock)
        self._refresher = Refresher(store, fetcher)
        self._concurrency = concurrency
        self._on_stored = on_settled
        self._results: list[Fetched] = []  # what is to be written
        self._results_ready = asyncio.Event()  # there are results
        self._results_written = asyncio.Event()  # there are none, nor is a batch being written
        self._results_written.set()
        self._fetches: set[asyncio.Task[None]] = set()
        self._no_fetches = asyncio.Event()  # nothing is being fetched
        self._requests: dict[int, list[asyncio.Future[StoredRefresh]]] = {}
        self._pushes: dict[int, asyncio.Future[StoredRefresh]] = {}
        self._woken = asyncio.Event()
        self._network: NetworkOutage[Fetched] = NetworkOutage()
        self._postponed: deque[int] = deque()  # feeds that were not asked because nobody could be

    async def run(self, stop: asyncio.Event) -> None:
        """Refresh until `stop` is set; then let what is under way end, write it, and return."""
        writing = asyncio.create_task(self._write_results())
        stopping = asyncio.create_task(self._wake_on_stop(stop))
        try:
            while not stop.is_set():
                started = time.perf_counter()
                self._woken.clear()
                await self._dispatch()
                # With a million feeds a choice takes a while: leave most of the time to the fetches it started.
                pause = max(TICK, 10 * (time.perf_counter() - started))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), pause)
            if self._fetches:
                _, late = await asyncio.wait(self._fetches, timeout=STOP_SECONDS)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)
            await self._results_written.wait()
        finally:
            writing.cancel()
            stopping.cancel()
            await asyncio.gather(writing, stopping, return_exceptions=True)

    async def _wake_on_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._woken.set()

    async def request_refresh(self, feed_id: int) -> StoredRefresh:
        """A person's wish: first in the budget, not held back by anything but a server's own word (Retry-After)."""
        known = (await self._store.read(load_feed_states, [feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        if self.feed_table.find_row(feed_id) is None:
            await self.load_feeds()  # added a moment ago, and not noticed yet
        until = self.politeness.find_hold(known, self._clock())
        if until is not None:
            raise RefreshHeld(f"The server of {known.url} asked to be left alone (Retry-After).", until)
        wish: asyncio.Future[StoredRefresh] = asyncio.get_running_loop().create_future()
        self._requests.setdefault(feed_id, []).append(wish)
        self._woken.set()
        return await wish

    async def accept_push(self, feed_id: int, document: Document[Markup], size: int) -> StoredRefresh:
        """A hub has pushed items that nobody had to ask for; returns when they are stored."""
        known = (await self._store.read(load_feed_states, [feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        outcome = Outcome(
            *(Ending.PARTIAL, known.url, known.url, self._clock(), 0.0), document=document, bytes=size, pushed=True
        )
        fetched = Fetched(known, outcome, "pushed by its hub")
        stored: asyncio.Future[StoredRefresh] = asyncio.get_running_loop().create_future()
        self._pushes[id(fetched)] = stored
        self._queue_result(fetched)
        return await stored

    @property
    def in_flight_count(self) -> int:
        return len(self._fetches)

    def status(self) -> CrawlStatus:
        return replace(super().status(), network_away_since=self._network.away_since)

    # choosing

    async def _dispatch(self) -> None:
        now = self._clock()
        self.follow_clock(now)
        for one in self._network.pop_overdue(now):
            self._queue_result(one)
        if self._requests:
            self.release_feeds(self._network.release_suspects(self._requests))
        free = self._concurrency - len(self._fetches)
        tokens = min(free, self.budget.count_available(now))
        away = self._network.away_since is not None
        if away and self._requests:  # what a person wants to see is tried all the same, and nothing else with it
            tokens = min(tokens, len(self._requests))
        else:
            tokens = self._network.limit_probes(tokens, len(self._fetches), now)
        if tokens <= 0:
            return
        chosen = self._choose_probe(now) if away and not self._requests else self.choose_feeds(tokens, now)
        if chosen:
            await self._start_fetches(chosen, now)

    def _choose_probe(self, now: float) -> list[tuple[int, str]]:
        """One of the feeds that an outage of our own kept from being asked, in turn."""
        while self._postponed:
            row = self.feed_table.find_row(self._postponed.popleft())
            if row is not None and not self.feed_table.in_flight[row]:
                return [(row, "to see whether anybody answers")]
        return self.choose_feeds(1, now)

    def _find_requested_rows(self, now: float) -> list[int]:
        rows = (self.feed_table.find_row(feed) for feed in self._requests)
        here = [row for row in rows if row is not None and not self.feed_table.in_flight[row]]
        return [row for row in here if self.budget.is_host_ready(int(self.feed_table.host[row]), now)]

    async def _start_fetches(self, chosen: Sequence[tuple[int, str]], now: float) -> None:
        rows = np.array([row for row, _ in chosen], np.intp)
        self.feed_table.in_flight[rows] = True
        known = await self._store.read(load_feed_states, self.feed_table.ids[rows].tolist())
        feeds, hosts = self.feed_table.ids[rows].tolist(), self.feed_table.host[rows].tolist()
        for feed, host, (_, reason) in zip(feeds, hosts, chosen, strict=True):
            if feed not in known:  # removed since it was chosen
                self.feed_table.remove_feeds([feed])
                continue
            reserved = self.budget.reserve(now, host)
            task = asyncio.create_task(self._fetch(known[feed], reason, reserved))
            self._fetches.add(task)
            task.add_done_callback(self._end_fetch)
        if self._fetches:
            self._no_fetches.clear()

    def _end_fetch(self, task: asyncio.Task[None]) -> None:
        self._fetches.discard(task)
        if not self._fetches:
            self._no_fetches.set()

    async def _fetch(self, known: Known, reason: str, reserved: float) -> None:
        outcome = None
        try:
            fetched = await self._refresher.fetch_feed(known, reason)
            outcome = fetched.outcome
            self._queue_result(fetched)
        finally:
            self.budget.charge_outcome(self._clock(), reserved, outcome)

    # writing and learning

    def _queue_result(self, fetched: Fetched) -> None:
        self._results.append(fetched)
        self._results_ready.set()
        self._results_written.clear()

    async def _write_results(self) -> None:
        while True:
            await self._results_ready.wait()
            if self._fetches:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER):
                        await self._no_fetches.wait()
            batch, self._results = self._results[:MAX_BATCH], self._results[MAX_BATCH:]
            if not self._results:
                self._results_ready.clear()
            try:
                if counted := self._sort_results(batch):
                    await self._save_results(counted)
            finally:
                if not self._results:
                    self._results_written.set()
            self._woken.set()

    async def _save_results(self, batch: Sequence[Fetched]) -> None:
        try:
            settled = await self._refresher.save_results(
                batch, plan=self._plan_refreshes, believe=self.estimate_feed_rate
            )
        except Exception as error:
            # The feeds stay due and are fetched again; nothing was acknowledged.
            log.error("batch_not_written", feeds=len(batch), error=str(error))
            self.release_feeds([one.known.feed_id for one in batch if not one.outcome.pushed])
            self._reject_waiters(batch, error)
        else:
            self.release_feeds([one.fetched.known.feed_id for one in settled if not one.fetched.outcome.pushed])
            self._resolve_waiters(settled)
            self._on_stored(settled)

    def _sort_results(self, batch: Sequence[Fetched]) -> list[Fetched]:
        """What counts of these results. Feeds that an outage of our own kept from being asked stay due."""
        now, was_away = self._clock(), self._network.away_since
        sifted = self._network.sort_results(batch, self.feed_table.host_count, self._requests, now)
        self.release_feeds([one.known.feed_id for one in sifted.again])
        self._postponed += [one.known.feed_id for one in sifted.again]
        away = self._network.away_since
        if away is None and was_away is not None:
            log.info("network_back", after=round(now - was_away))
            self._postponed.clear()
        elif away is not None and was_away is None:
            log.warning("network_away", note="no server answers: feeds are not blamed, one at a time is tried")
        return sifted.counted

    def _plan_refreshes(self, pairs: Sequence[tuple[Fetched, Verdict]]) -> list[float | None]:
        return self.learn_lessons([make_lesson(fetched.known, fetched.outcome, verdict) for fetched, verdict in pairs])

    def _resolve_waiters(self, settled: Sequence[StoredRefresh]) -> None:
        for one in settled:
            for wish in self._pop_waiters(one.fetched):
                if not wish.done():
                    wish.set_result(one)

    def _reject_waiters(self, batch: Sequence[Fetched], error: Exception) -> None:
        for one in batch:
            for wish in self._pop_waiters(one):
                if not wish.done():
                    wish.set_exception(error)

    def _pop_waiters(self, fetched: Fetched) -> list[asyncio.Future[StoredRefresh]]:
        """Who waits for this: the hub that pushed it, or people who asked for a refresh."""
        if fetched.outcome.pushed:
            return [self._pushes.pop(id(fetched))]
        return self._requests.pop(fetched.known.feed_id, [])
