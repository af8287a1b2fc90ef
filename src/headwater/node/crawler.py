"""The crawler: lets the strategy choose within the budget, fetches, writes, learns, and begins again.

    roster ─► strategy.choose ─► fetch (many at once) ─► results ─► settle (one batch, one transaction) ─► learn
                    ▲                                                                                        │
                    └────────────────────────────────────────────────────────────────────────────────────────┘

Only this loop and its siblings in `node` look at the wall clock. What it decides is decided by pure code: `schedule`
chooses, `novelty` judges. Results wait in a queue while a batch is being written, so batches grow with the load.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from headwater.errors import Held, NotFound
from headwater.estimate.base import Floats, Rows
from headwater.fetch.client import Fetcher
from headwater.model import Known, Verdict
from headwater.node.courtesy import Courtesy
from headwater.node.learning import observed
from headwater.node.refresher import Fetched, Refresher, Settled
from headwater.node.roster import Roster
from headwater.node.spending import Spending
from headwater.node.targets import Aim
from headwater.schedule.base import Budget, Strategy, best
from headwater.schedule.budget import shares
from headwater.schedule.target import Reach
from headwater.store.store import Store

TICK = 0.25  # seconds between two choices while nothing else happens
LARGEST_BATCH = 256
CLOCK_STEP = 30.0  # a correction of the clock that is worth following; smaller ones are no matter
GRACE = 10.0  # seconds that fetches under way may take when the node stops

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Status:
    """What the crawler is doing at this moment."""

    feeds: int
    under_way: int
    strategy: str
    budget_per_minute: float
    budget_left: int
    next_due: float | None
    held_hosts: int
    spent: int = 0  # requests of the last minute
    spent_bytes: float = 0.0
    budget_bytes: float | None = None  # per minute
    problem: str | None = None  # what went wrong with a person's own strategy
    target: str | None = None  # in target mode: what is reached, or that it cannot be
    target_reached: bool | None = None
    queries: int = 0
    aims: tuple[Aim, ...] = ()  # TARGETs of queries, and whether the budget suffices


class Crawler:
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
        self._store = store
        self._refresher = Refresher(store, fetcher)
        self.strategy = strategy
        self.roster = Roster()
        self.spending = spending
        self._problem: str | None = None
        self.aim: Reach | None = None  # in target mode: what the budget was set to and why
        self.courtesy = courtesy
        self._concurrency = concurrency
        self._per_host = per_host
        self._on_settled = on_settled
        self._clock = clock
        self._results: asyncio.Queue[Fetched] = asyncio.Queue()
        self._fetches: set[asyncio.Task[None]] = set()
        self._urgent: dict[int, list[asyncio.Future[Settled]]] = {}
        self._woken = asyncio.Event()
        self._offset = clock() - time.monotonic()

    async def load(self) -> None:
        """Take all feeds over from the store, at the start and whenever somebody has changed them.

        What was not due before a restart is not due after it.
        """
        gone = self.roster.feeds()
        async for chunk in self._store.all_known_schedule():
            gone.difference_update(row.feed_id for row in chunk)
            self.roster.take(chunk, {row.feed_id: row.next_refresh for row in chunk if row.next_refresh is not None})
        self.roster.drop(gone)
        for domain, until in self.courtesy.held.items():
            self.roster.hold_host(domain, until)
        self.strategy.resize(len(self.roster))

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
            await self._results.join()
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
        if known is None or self.roster.row(feed_id) is None:
            raise NotFound(f"There is no feed {feed_id}.")
        until = self.courtesy.must_wait(known, self._clock())
        if until is not None:
            raise Held(f"The server of {known.url} asked to be left alone (Retry-After).", until)
        wish: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._urgent.setdefault(feed_id, []).append(wish)
        self._woken.set()
        return await wish

    def status(self) -> Status:
        now = self._clock()
        waiting = self.roster.allowed[self.roster.active]
        due = self.strategy.due
        if due is not None:
            waiting = np.maximum(waiting, due[self.roster.active])
        spent = self.spending.spent(now)
        return Status(
            feeds=int(self.roster.active.sum()),
            under_way=len(self._fetches),
            strategy=self.strategy.name,
            budget_per_minute=spent.requests_allowed,
            budget_left=self.spending.available(now),
            next_due=float(np.maximum(waiting, now).min()) if len(waiting) else None,
            held_hosts=sum(until > now for until in self.courtesy.held.values()),
            spent=spent.requests,
            spent_bytes=spent.bytes,
            budget_bytes=spent.bytes_allowed,
            problem=self.strategy.problem,
            target=self.aim.message if self.aim else None,
            target_reached=self.aim.reached if self.aim else None,
        )

    # choosing

    async def _dispatch(self) -> None:
        now = self._clock()
        self._follow(now)
        free = self._concurrency - len(self._fetches)
        tokens = min(free, self.spending.available(now))
        if tokens <= 0:
            return
        chosen = self._choose(tokens, now)
        if chosen:
            await self._begin(chosen, now)

    def _choose(self, tokens: int, now: float) -> list[tuple[int, str]]:
        """People's wishes first, then first refreshes, then what the strategy chooses; all out of the same budget."""
        wanted = self._wanted(now)
        candidates = self.roster.candidates(now)
        candidates[wanted] = False
        new = np.flatnonzero(candidates & self.roster.untried)
        people, firsts, _ = shares(tokens, len(wanted), len(new))
        room = self.spending.room(self.roster.room(self._per_host), now)
        first = best(new, np.zeros(len(new)), Budget(firsts, host=self.roster.host, room=room)).rows
        candidates[new] = False
        np.subtract.at(room, self.roster.host[first], 1)
        budget = Budget(tokens - people - len(first), self.spending.rate, self.roster.host, np.maximum(room, 0))
        table = self.roster.table
        # Some rules of the papers may choose beyond the budget; here nobody spends more than there is.
        rows = self.strategy.choose(table, now, budget, candidates).rows[: budget.now]
        self._notice()
        return [
            *((row, "asked for by a person") for row in wanted[:people]),
            *((int(row), "its first refresh") for row in first),
            *((int(row), self.strategy.why(table, int(row), now)) for row in rows),
        ]

    def _notice(self) -> None:
        """Say once that a person's own strategy has broken down."""
        if self.strategy.problem != self._problem:
            self._problem = self.strategy.problem
            log.error("strategy_failed", strategy=self.strategy.name, problem=self._problem)

    def _follow(self, now: float) -> None:
        """A clock that was set back must not freeze the feeds until it has caught up: their moments go back with it.

        Forward jumps, a suspended machine among them, need nothing: what became due is fetched within the budget.
        """
        offset = now - time.monotonic()
        back, self._offset = self._offset - offset, offset
        if back > CLOCK_STEP:
            log.warning("clock_set_back", seconds=round(back))
            for moments in (self.roster.allowed, self.roster.host_until, self.roster.table.last):
                moments -= back
            self.spending.shift(back)
            due = self.strategy.due
            if due is not None:
                due -= back

    def _wanted(self, now: float) -> list[int]:
        rows = (self.roster.row(feed) for feed in self._urgent)
        here = [row for row in rows if row is not None and not self.roster.busy[row]]
        return [row for row in here if self.spending.ready(int(self.roster.host[row]), now)]

    async def _begin(self, chosen: Sequence[tuple[int, str]], now: float) -> None:
        rows = np.array([row for row, _ in chosen], np.intp)
        self.roster.busy[rows] = True
        known = await self._store.known(self.roster.ids[rows].tolist())
        for row, reason in chosen:
            feed = int(self.roster.ids[row])
            if feed not in known:  # removed since it was chosen
                self.roster.drop([feed])
                continue
            reserved = self.spending.begin(now, int(self.roster.host[row]))
            task = asyncio.create_task(self._fetch(known[feed], reason, reserved))
            self._fetches.add(task)
            task.add_done_callback(self._fetches.discard)

    async def _fetch(self, known: Known, reason: str, reserved: float) -> None:
        outcome = None
        try:
            fetched = await self._refresher.fetch(known, reason)
            outcome = fetched.outcome
            self._results.put_nowait(fetched)
        finally:
            self.spending.end(self._clock(), reserved, outcome)

    # writing and learning

    async def _write(self) -> None:
        while True:
            batch = [await self._results.get()]
            while len(batch) < LARGEST_BATCH and not self._results.empty():
                batch.append(self._results.get_nowait())
            try:
                settled = await self._refresher.settle(batch, plan=self._plan, believe=self._believe)
            except Exception as error:
                # The feeds stay due and are fetched again; nothing was acknowledged.
                log.error("batch_not_written", feeds=len(batch), error=str(error))
                self._release([one.known.feed_id for one in batch])
                self._refuse(batch, error)
            else:
                self._release([one.fetched.known.feed_id for one in settled])
                self._answer(settled)
                self._on_settled(settled)
            finally:
                for _ in batch:
                    self._results.task_done()
            self._woken.set()

    def _believe(self, feed_id: int) -> float | None:
        row = self.roster.row(feed_id)
        if row is None:
            return None
        rate = float(self._rates(np.array([row], np.intp))[0])
        return None if np.isnan(rate) else rate

    def rates(self) -> Floats:
        """Items per second of every row, as believed now; NaN where the strategy believes nothing."""
        return self._rates(np.arange(len(self.roster), dtype=np.intp))

    def _rates(self, rows: Rows) -> Floats:
        """Items per second as believed now; NaN where the strategy believes nothing."""
        at = np.full(len(rows), self._clock())
        believed = self.strategy.believe(lambda estimator: estimator.rate(rows, at))
        return np.full(len(rows), np.nan) if believed is None else believed

    def _plan(self, pairs: Sequence[tuple[Fetched, Verdict]]) -> list[float | None]:
        """Learn from a batch; answers when each feed may and probably will be refreshed next."""
        found = [(self.roster.row(fetched.known.feed_id), fetched, verdict) for fetched, verdict in pairs]
        here = [(row, fetched, verdict) for row, fetched, verdict in found if row is not None]
        if not here:  # all removed while they were fetched
            return [None] * len(pairs)
        self._learn([one for one in here if one[2].refresh.ending.ok])
        self._fail([one for one in here if not one[2].refresh.ending.ok])
        rows = np.array([row for row, _, _ in here], np.intp)
        allowed, _ = self.courtesy.allowed([verdict.known for _, _, verdict in here], self._rates(rows), self._clock())
        self.roster.allowed[rows] = allowed
        due = self.strategy.due
        next_at = allowed if due is None else np.maximum(allowed, due[rows])
        at = dict(zip(rows.tolist(), next_at.tolist(), strict=True))
        return [None if row is None else at[row] for row, _, _ in found]

    def _learn(self, well: Sequence[tuple[int, Fetched, Verdict]]) -> None:
        if not well:
            return
        rows = np.array([row for row, _, _ in well], np.intp)
        table = self.roster.table
        seen = observed(table, rows, [verdict for _, _, verdict in well], [one.outcome for _, one, _ in well])
        self.strategy.observe(table, seen)
        table.last[rows] = seen.end
        shown = seen.window > 0
        table.window[rows[shown]] = seen.window[shown]
        if self.courtesy.held:
            self._hear(well)

    def _fail(self, ill: Sequence[tuple[int, Fetched, Verdict]]) -> None:
        if not ill:
            return
        rows = np.array([row for row, _, _ in ill], np.intp)
        at = np.array([verdict.refresh.at for _, _, verdict in ill])
        failures = np.array([verdict.known.failures for _, _, verdict in ill], np.intp)
        self.strategy.failed(self.roster.table, rows, at, failures)
        self.roster.active[rows[[verdict.gone for _, _, verdict in ill]]] = False
        self._hear(ill)

    def _hear(self, refreshed: Sequence[tuple[int, Fetched, Verdict]]) -> None:
        for _, fetched, verdict in refreshed:
            said = self.courtesy.heard(verdict, fetched.known.url, fetched.outcome.retry_after)
            if said is not None:
                self.roster.hold_host(*said)

    def _release(self, feed_ids: Iterable[int]) -> None:
        self.roster.busy[self.roster.rows(feed_ids)] = False

    def _answer(self, settled: Sequence[Settled]) -> None:
        for one in settled:
            for wish in self._urgent.pop(one.fetched.known.feed_id, ()):
                if not wish.done():
                    wish.set_result(one)

    def _refuse(self, batch: Sequence[Fetched], error: Exception) -> None:
        for one in batch:
            for wish in self._urgent.pop(one.known.feed_id, ()):
                if not wish.done():
                    wish.set_exception(error)
