"""Replays the past of a farm through the real server code under a virtual clock.

    farm at time t ─► scheduler chooses ─► fetcher (in process) ─► judge ─► store ─► queries ─► deliveries ─► reports

Nothing is invented: every item, loss, delay and verdict is what this server would have seen. Only the network is left
out, and time passes as quickly as the code runs.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

import numpy as np

from headwater.farm.farm import Farm
from headwater.farm.faults import Fault
from headwater.farm.http_protocol import FarmRequest
from headwater.fetch.client import Fetcher
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.node.crawl.dispatcher import JobOrder, make_local_job
from headwater.node.crawl.ingest import Ingest, LearningPlanner
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler, build_configured_strategy, make_budget_account
from headwater.node.crawl.transport import FetchResult
from headwater.node.maintenance import Maintenance
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.delivery.deliverer import Deliverer
from headwater.publish.delivery.delivery_planner import DeliveryPlanner
from headwater.publish.delivery.sinks import DeliveryMessage, Sink
from headwater.settings import Settings
from headwater.store.content.feed_state import load_feed_states
from headwater.store.store import Store
from headwater.times import DAY, HOUR, MINUTE, parse_time_zone

# Feeds that fall due in a step are stored together; each is fetched at its own moment, and at most once. The last days
# have finer steps: all of them unless `LIMIT` has passed, the last one always, since pages show its figures.
STEP, LATE_STEP = HOUR, 10 * MINUTE
LATE, LAST = 2 * DAY, DAY
PIECES = 5  # of a fine step; feeds are chosen in each
LIMIT = 16.0  # real seconds
REPORT_STEP, LATE_REPORT_STEP = 2 * HOUR, 5 * MINUTE  # between two reports: before, and in the last three hours
QUERY_STEP, LAST_DAY_QUERY_STEP = 2 * HOUR, 30 * MINUTE
MESSAGE_ITEMS = 100
DEMAND_STEP = 6 * HOUR

OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class VirtualClock:
    """Returns the virtual time while there is one, then the real time."""

    now: float | None = None

    def __call__(self) -> float:
        return time.time() if self.now is None else self.now


class ReplaySink(Sink):
    """Accepts every message of the past, with many items in one: its receiver was not there yet."""

    async def send(self, message: DeliveryMessage) -> int:
        return MESSAGE_ITEMS


async def answer_in_process(farm: Farm, request: RemoteRequest) -> RemoteReply:
    """Answer a request as the farm's server would, without a connection."""
    target = urlsplit(request.url)
    headers = {name.lower().encode(): value.encode() for name, value in request.headers.items()}
    asked = FarmRequest(b"GET", target.path, headers, "127.0.0.1", target.netloc)
    answer = farm.answer_request(asked)
    farm.finish_request(asked, answer)
    head, _, body = answer.data.partition(b"\r\n\r\n")
    lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
    found = tuple((name, value) for name, _, value in lines)
    return RemoteReply(answer.status, found, body, len(answer.data))


@dataclass(slots=True)
class FarmHistory:
    """The past of a farm whose feeds are in the store, until the time of `present`.

    `faults` begin at a time, by feed of the farm. After `limit` real seconds steps are coarse until the last day.
    """

    farm: Farm
    store: Store
    settings: Settings
    clock: VirtualClock
    faults: Mapping[int, tuple[float, Fault]] = field(default_factory=dict)
    present: Callable[[], float] = time.time
    limit: float = LIMIT
    hurried: bool = False  # whether only the last day had fine steps, because `limit` had passed
    _free_at: float = field(default=0.0, init=False)  # when the budget allows the next request

    async def replay(self, start: float, on_progress: OnProgress = lambda done, total: None) -> None:
        """Live from `start` until the present is reached, and leave the store as a server that stops then."""
        self.clock.now = start
        scheduler = Scheduler(
            self.store,
            build_configured_strategy(self.settings),
            make_budget_account(self.settings),
            Politeness(random.Random(self.farm.seed), least=max(self.settings.least_interval, STEP)),
            per_host=self.settings.per_host,
            clock=self.clock,
        )
        maintenance = Maintenance(self.store, scheduler, self.settings, clock=self.clock)
        await maintenance.load_state()
        planner = DeliveryPlanner(parse_time_zone(self.settings.time_zone), self.clock)
        processor = QueryProcessor(self.store, writers=[planner], clock=self.clock)
        await processor.load()
        deliverer = Deliverer(self.store, dict.fromkeys(("email", "webhook", "notify"), ReplaySink()), clock=self.clock)
        proxy = partial(answer_in_process, self.farm)
        fetcher = Fetcher(allow_private=True, ports=(self.farm.port,), pause=0.0, clock=self.clock, proxy=proxy)
        try:
            async with fetcher:
                await self._run(start, fetcher, scheduler, maintenance, processor, deliverer, on_progress)
        finally:
            await deliverer.close()
        scheduler.politeness.least_interval = self.settings.least_interval  # the report is read in the present
        await scheduler.load_feeds()
        scheduler.choose_feeds(0, self.clock())  # plans with that interval; nothing is chosen
        await maintenance.publish_report()
        await maintenance.save_state()
        await processor.save()
        await maintenance.index_items()
        self.clock.now = None

    async def _run(
        self,
        start: float,
        fetcher: Fetcher,
        scheduler: Scheduler,
        maintenance: Maintenance,
        processor: QueryProcessor,
        deliverer: Deliverer,
        on_progress: OnProgress,
    ) -> None:
        ingest = Ingest(self.store, planner=LearningPlanner(scheduler), clock=self.clock)
        due = dict.fromkeys(("report", "queries", "demand"), start)
        began, before = time.monotonic(), start
        while self.clock() < self.present():
            now = self.clock()
            for feed, (since, fault) in self.faults.items():
                if since <= now:
                    self.farm.faults.setdefault(feed, fault)
            await self._refresh(before, now, fetcher, scheduler, ingest, maintenance)
            if now >= due["queries"]:
                due["queries"] = now + (LAST_DAY_QUERY_STEP if now > self.present() - DAY else QUERY_STEP)
                while await processor.step():
                    pass
                while await deliverer.step():
                    pass
            if now >= due["demand"]:
                due["demand"] = now + DEMAND_STEP
                await maintenance.update_demand(processor)
            if now >= due["report"]:
                due["report"] = now + (LATE_REPORT_STEP if now > self.present() - 3 * HOUR else REPORT_STEP)
                await maintenance.publish_report()
                on_progress(round((now - start) / HOUR), round((self.present() - start) / HOUR))
            spent = time.monotonic() - began
            step = choose_step(now - start, self.present() - start, spent, self.limit)
            self.hurried |= step == STEP and now > self.present() - LATE
            # The plan must know how often a feed can be polled here, else it learns gaps that a server never has.
            scheduler.politeness.least_interval = max(self.settings.least_interval, step)
            before, self.clock.now = now, min(now + step, max(self.present(), now + 1.0))
            await asyncio.sleep(0)

    async def _refresh(
        self,
        before: float,
        now: float,
        fetcher: Fetcher,
        scheduler: Scheduler,
        ingest: Ingest,
        maintenance: Maintenance,
    ) -> None:
        """Refresh the feeds that fell due since the last step, each at the moment when it did, within the budget."""
        table = scheduler.feed_table
        orders: list[tuple[int, str, float]] = []
        pieces = PIECES if now - before <= LATE_STEP else 1
        for begin, end in itertools.pairwise(np.linspace(before, now, pieces + 1).tolist()):
            orders += self._choose(begin, end, scheduler)
            table.in_flight[[row for row, _, _ in orders]] = True
        rows = [row for row, _, _ in orders]
        known = await self.store.read(load_feed_states, table.ids[rows].tolist()) if orders else {}
        rates = scheduler.estimate_past_rates(np.array(rows, np.intp)).tolist()
        batch = []
        for (row, reason, at), rate in zip(orders, rates, strict=True):
            state = known[int(table.ids[row])]
            self.clock.now = at
            reserved = scheduler.budget.reserve(at, int(table.host[row]))
            outcome = await fetcher.fetch(state.url, state.validators, body_hash=state.body_hash)
            scheduler.budget.charge(at, reserved, outcome.bytes)
            believed = None if np.isnan(rate) else rate
            job = make_local_job(state, JobOrder(state.feed_id, 0, reason, believed, False))
            batch.append(FetchResult(job, outcome))
        self.clock.now = now
        scheduler.release_feeds(table.ids[rows].tolist())
        if batch:
            stored = await ingest.save_results(batch)
            maintenance.monitor.count_refreshes((one.verdict.refresh, one.known.last_success) for one in stored)

    def _choose(self, begin: float, end: float, scheduler: Scheduler) -> Iterator[tuple[int, str, float]]:
        """Choose feeds at the end of a part of a step; yield their rows, with reasons and the moments of refresh."""
        spacing = 1 / scheduler.budget.rate
        slots = math.floor((end - max(self._free_at, begin)) / spacing) + 1
        if slots <= 0:
            return
        self.clock.now = end
        chosen, due = scheduler.choose_feeds(slots, end), scheduler.strategy.due
        moments = {}
        for row, _ in chosen:
            fell_due = max(float(scheduler.feed_table.earliest[row]), -np.inf if due is None else float(due[row]))
            moments[row] = min(max(fell_due, begin), end)
        for row, reason in sorted(chosen, key=lambda one: moments[one[0]]):
            at = max(moments[row], self._free_at)
            if at > end:  # the last feeds came late, and earlier requests cannot be made any more
                return
            self._free_at = at + spacing
            yield row, reason, at


def choose_step(done: float, total: float, spent: float, limit: float = LIMIT) -> float:
    """Return the next step in virtual seconds, after `done` of `total` and `spent` real seconds.

    >>> choose_step(0.0, 14 * DAY, 0.0), choose_step(12.5 * DAY, 14 * DAY, 9.0)
    (3600.0, 600.0)
    >>> choose_step(12.5 * DAY, 14 * DAY, 30.0), choose_step(13.5 * DAY, 14 * DAY, 30.0)
    (3600.0, 600.0)
    """
    left = total - done
    return LATE_STEP if left < LAST or (left < LATE and spent < limit) else STEP
