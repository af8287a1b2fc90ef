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

from headwater.errors import Held, NotFound
from headwater.fetch.client import Fetcher
from headwater.model import Document, Ending, Known, Outcome, Verdict
from headwater.node.courtesy import Courtesy
from headwater.node.deciding import Decider, Status
from headwater.node.learning import lesson
from headwater.node.own_network import OwnNetwork
from headwater.node.refresher import Fetched, Refresher, Settled
from headwater.node.spending import Spending
from headwater.schedule.base import Strategy
from headwater.store.store import Store

TICK = 0.25  # seconds between two choices while nothing else happens
LARGEST_BATCH = 256
LINGER = 0.02  # seconds that a result waits for others under way: answers come in waves, and a transaction has its cost
GRACE = 10.0  # seconds that fetches under way may take when the node stops

log = structlog.get_logger()

__all__ = ["Crawler", "Status"]


class Crawler(Decider):
    """Keeps the feeds of a store refreshed until it is stopped."""

    def __init__(
        self,
        store: Store,
        fetcher: Fetcher,
        strategy: Strategy,
        spending: Spending,
        courtesy: Courtesy,
        *,
        concurrency: int = 64,
        per_host: int = 1,
        on_settled: Callable[[Sequence[Settled]], None] = lambda batch: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(store, strategy, spending, courtesy, per_host=per_host, clock=clock)
        self._refresher = Refresher(store, fetcher)
        self._concurrency = concurrency
        self._on_settled = on_settled
        self._results: list[Fetched] = []  # what is to be written
        self._arrived = asyncio.Event()  # there are results
        self._written = asyncio.Event()  # there are none, nor is a batch being written
        self._written.set()
        self._fetches: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()  # nothing is being fetched
        self._urgent: dict[int, list[asyncio.Future[Settled]]] = {}
        self._pushes: dict[int, asyncio.Future[Settled]] = {}
        self._woken = asyncio.Event()
        self._network: OwnNetwork[Fetched] = OwnNetwork()
        self._put_off: deque[int] = deque()  # feeds that were not asked because nobody could be

    async def run(self, stop: asyncio.Event) -> None:
        """Refresh until `stop` is set; then let what is under way end, write it, and return."""
        writing = asyncio.create_task(self._write())
        stopping = asyncio.create_task(self._wake_at(stop))
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
                _, late = await asyncio.wait(self._fetches, timeout=GRACE)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)
            await self._written.wait()
        finally:
            writing.cancel()
            stopping.cancel()
            await asyncio.gather(writing, stopping, return_exceptions=True)

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._woken.set()

    async def refresh_now(self, feed_id: int) -> Settled:
        """A person's wish: first in the budget, not held back by anything but a server's own word (Retry-After)."""
        known = (await self._store.known([feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        if self.roster.row(feed_id) is None:
            await self.load()  # added a moment ago, and not noticed yet
        until = self.courtesy.must_wait(known, self._clock())
        if until is not None:
            raise Held(f"The server of {known.url} asked to be left alone (Retry-After).", until)
        wish: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._urgent.setdefault(feed_id, []).append(wish)
        self._woken.set()
        return await wish

    async def accept(self, feed_id: int, document: Document, size: int) -> Settled:
        """A hub has pushed items that nobody had to ask for; returns when they are stored."""
        known = (await self._store.known([feed_id])).get(feed_id)
        if known is None:
            raise NotFound(f"There is no feed {feed_id}.")
        outcome = Outcome(
            *(Ending.PARTIAL, known.url, known.url, self._clock(), 0.0), document=document, bytes=size, pushed=True
        )
        fetched = Fetched(known, outcome, "pushed by its hub")
        stored: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._pushes[id(fetched)] = stored
        self._take_in(fetched)
        return await stored

    @property
    def under_way(self) -> int:
        return len(self._fetches)

    def status(self) -> Status:
        return replace(super().status(), network_away_since=self._network.away_since)

    # choosing

    async def _dispatch(self) -> None:
        now = self._clock()
        self.follow(now)
        for one in self._network.overdue(now):
            self._take_in(one)
        if self._urgent:
            self.release(self._network.let_go(self._urgent))
        free = self._concurrency - len(self._fetches)
        tokens = min(free, self.spending.available(now))
        away = self._network.away_since is not None
        if away and self._urgent:  # what a person wants to see is tried all the same, and nothing else with it
            tokens = min(tokens, len(self._urgent))
        else:
            tokens = self._network.may_try(tokens, len(self._fetches), now)
        if tokens <= 0:
            return
        chosen = self._probe(now) if away and not self._urgent else self.choose(tokens, now)
        if chosen:
            await self._begin(chosen, now)

    def _probe(self, now: float) -> list[tuple[int, str]]:
        """One of the feeds that an outage of our own kept from being asked, in turn."""
        while self._put_off:
            row = self.roster.row(self._put_off.popleft())
            if row is not None and not self.roster.busy[row]:
                return [(row, "to see whether anybody answers")]
        return self.choose(1, now)

    def _wanted(self, now: float) -> list[int]:
        rows = (self.roster.row(feed) for feed in self._urgent)
        here = [row for row in rows if row is not None and not self.roster.busy[row]]
        return [row for row in here if self.spending.ready(int(self.roster.host[row]), now)]

    async def _begin(self, chosen: Sequence[tuple[int, str]], now: float) -> None:
        rows = np.array([row for row, _ in chosen], np.intp)
        self.roster.busy[rows] = True
        known = await self._store.known(self.roster.ids[rows].tolist())
        feeds, hosts = self.roster.ids[rows].tolist(), self.roster.host[rows].tolist()
        for feed, host, (_, reason) in zip(feeds, hosts, chosen, strict=True):
            if feed not in known:  # removed since it was chosen
                self.roster.drop([feed])
                continue
            reserved = self.spending.begin(now, host)
            task = asyncio.create_task(self._fetch(known[feed], reason, reserved))
            self._fetches.add(task)
            task.add_done_callback(self._ended)
        if self._fetches:
            self._idle.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._fetches.discard(task)
        if not self._fetches:
            self._idle.set()

    async def _fetch(self, known: Known, reason: str, reserved: float) -> None:
        outcome = None
        try:
            fetched = await self._refresher.fetch(known, reason)
            outcome = fetched.outcome
            self._take_in(fetched)
        finally:
            self.spending.end(self._clock(), reserved, outcome)

    # writing and learning

    def _take_in(self, fetched: Fetched) -> None:
        self._results.append(fetched)
        self._arrived.set()
        self._written.clear()

    async def _write(self) -> None:
        while True:
            await self._arrived.wait()
            if self._fetches:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER):
                        await self._idle.wait()
            batch, self._results = self._results[:LARGEST_BATCH], self._results[LARGEST_BATCH:]
            if not self._results:
                self._arrived.clear()
            try:
                if counted := self._sifted(batch):
                    await self._settle(counted)
            finally:
                if not self._results:
                    self._written.set()
            self._woken.set()

    async def _settle(self, batch: Sequence[Fetched]) -> None:
        try:
            settled = await self._refresher.settle(batch, plan=self._plan, believe=self.believed_rate)
        except Exception as error:
            # The feeds stay due and are fetched again; nothing was acknowledged.
            log.error("batch_not_written", feeds=len(batch), error=str(error))
            self.release([one.known.feed_id for one in batch if not one.outcome.pushed])
            self._refuse(batch, error)
        else:
            self.release([one.fetched.known.feed_id for one in settled if not one.fetched.outcome.pushed])
            self._answer(settled)
            self._on_settled(settled)

    def _sifted(self, batch: Sequence[Fetched]) -> list[Fetched]:
        """What counts of these results. Feeds that an outage of our own kept from being asked stay due."""
        now, was_away = self._clock(), self._network.away_since
        sifted = self._network.sift(batch, self.roster.hosts, self._urgent, now)
        self.release([one.known.feed_id for one in sifted.again])
        self._put_off += [one.known.feed_id for one in sifted.again]
        away = self._network.away_since
        if away is None and was_away is not None:
            log.info("network_back", after=round(now - was_away))
            self._put_off.clear()
        elif away is not None and was_away is None:
            log.warning("network_away", note="no server answers: feeds are not blamed, one at a time is tried")
        return sifted.counted

    def _plan(self, pairs: Sequence[tuple[Fetched, Verdict]]) -> list[float | None]:
        return self.learn([lesson(fetched.known, fetched.outcome, verdict) for fetched, verdict in pairs])

    def _answer(self, settled: Sequence[Settled]) -> None:
        for one in settled:
            for wish in self._waiting(one.fetched):
                if not wish.done():
                    wish.set_result(one)

    def _refuse(self, batch: Sequence[Fetched], error: Exception) -> None:
        for one in batch:
            for wish in self._waiting(one):
                if not wish.done():
                    wish.set_exception(error)

    def _waiting(self, fetched: Fetched) -> list[asyncio.Future[Settled]]:
        """Who waits for this: the hub that pushed it, or people who asked for a refresh."""
        if fetched.outcome.pushed:
            return [self._pushes.pop(id(fetched))]
        return self._urgent.pop(fetched.known.feed_id, [])
