"""What goes on beside the deciding, again and again: following changes, weights, reports, saving, pruning, indexing.

It works on a decider: the crawler of a node, or the controller of a cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Protocol

import numpy as np
import structlog

from headwater.language.ast import Create
from headwater.node import kept_settings, memory, targets
from headwater.node.aim import Aim
from headwater.node.deciding import Decider
from headwater.node.quality import Quality, Watch
from headwater.node.saying import Saying
from headwater.node.targets import EVERY as RETARGET
from headwater.node.targets import Aimed, aimed, require_beliefs, retarget
from headwater.node.wants import Want, Wanting, owned
from headwater.query.scope import Scope
from headwater.schedule.base import Strategy
from headwater.settings import Settings
from headwater.store.store import Store
from headwater.store.values import Keep

LOOK = 1.0  # seconds between two looks for feeds that another process has added, changed or removed
SAVE = 300.0
REPORT = 60.0
PRUNE = 3600.0
WANTS = 60.0
INDEX = 2.0  # a search indexes what is missing itself; this keeps that little

LOGGED = 5  # losing feeds in a line of the log
log = structlog.get_logger()


class Standing(Protocol):
    """Who knows the definitions in force: the query processor of this process, or a reader of the store."""

    @property
    def definitions(self) -> Mapping[int, Create]: ...

    def scope(self) -> Scope: ...


class Upkeep:
    """Keeps a decider and its store in good order. `begin` before it decides anything, `every` while it runs."""

    def __init__(self, store: Store, decider: Decider, settings: Settings) -> None:
        self._store = store
        self._decider = decider
        self.settings = settings
        self._revision = 0
        self._saved = False
        self.watch = Watch(store, decider, settings.least_interval)
        self.aims: tuple[Aim, ...] = ()
        self._floor = 0.0  # requests per minute that TARGETs of queries need, in target mode

    async def begin(self) -> None:
        """Take over the feeds and everything that was learned about them."""
        if self.settings.target is not None:
            require_beliefs(self._decider.strategy)
        await memory.load_hosts(self._store, self._decider.courtesy)
        self._revision = await self._store.revision()
        await self._decider.load()
        await memory.load_strategy(self._store, self._decider.roster, self._decider.strategy)
        await self._catch_up()
        self._decider.remember_pace()
        await self.watch.load()
        await self.retarget()

    def tasks(self, standing: Standing, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        """Everything that is done from time to time, until `stop` is set."""

        async def look() -> None:
            await self.look(standing)

        async def want() -> None:
            await self.want(standing)

        works: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (LOOK, look),
            (WANTS, want),
            (SAVE, self.save),
            (REPORT, self.report),
            (RETARGET, self.retarget),
            (PRUNE, self.prune),
            (INDEX, self.index),
        ]
        return [asyncio.create_task(every(seconds, work, stop)) for seconds, work in works]

    async def save(self) -> None:
        """Keep what was learned."""
        one = self._decider
        self._saved = True
        await memory.save(self._store, one.roster, one.strategy, one.courtesy, time.time())

    async def quality(self) -> Quality:
        """How good the watching is at this moment."""
        if self.settings.target is not None and self._decider.aim is None:
            await self.retarget()  # at the start nothing was believed yet; who gave a target should not wait for long
        return await self.watch.report(time.time())

    async def report(self) -> None:
        """Say how good the watching is, and keep it for those who ask from another process.

        The first time with what was learned: a command explains by that, and should know the price and the plan of a
        server that has just started.
        """
        if not self._saved:
            await self.save()
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
            losing={one.feed_id: round(one.lost + one.lost_now, 1) for one in report.losing[:LOGGED]},
            price=_rounded(report.price),
            target=report.target,
            problem=report.problem,
        )
        await self.watch.save(report.at, report)
        await kept_settings.tell(self._store, self.settings, report.at)

    async def decide_by(self, strategy: Strategy) -> None:
        """Another strategy from now on; what there is to learn it learns from the log."""
        one, roster = self._decider, self._decider.roster
        strategy.resize(len(roster))
        roster.learned[:] = -np.inf
        one.strategy = strategy
        await memory.catch_up(self._store, roster, strategy)

    async def take(self, changes: Collection[str], new: Settings, strategy: Strategy | None) -> None:
        """Other settings from now on, of which these are changed; another strategy where there is one."""
        had_target = self.settings.target is not None
        self.settings = new
        if strategy is not None:
            await self.decide_by(strategy)
        await self.retarget()
        if new.target is None and ("budget" in changes or had_target):
            self._decider.spending.limit(new.budget)

    async def retarget(self) -> None:
        given = self.settings
        if given.target is None:
            self._decider.aim, self._floor = None, 0.0
        else:
            one, least = self._decider, given.least_interval
            await retarget(one, given.target, given.most_budget, least, time.time(), self._floor)

    async def look(self, standing: Standing) -> None:
        """Feeds that a command or another process added, changed or removed."""
        revision = await self._store.revision()
        if revision != self._revision:
            await self._decider.load()
            await self._catch_up()
            self._revision = revision
            await self.want(standing)

    async def _catch_up(self) -> None:
        """Refreshes that others made are learned from, and their servers' words hold for us too."""
        one, roster = self._decider, self._decider.roster
        await memory.catch_up(self._store, roster, one.strategy)
        await one.reconsider(roster.ids[roster.unjudged].tolist())

    async def want(self, standing: Standing) -> None:
        """What queries want of each feed becomes its weight; what they aim at is compared with the budget."""
        definitions = standing.definitions
        given, queries = self.settings, self._store.queries
        own = await owned(self._store, given.only_wanted_by_queries)
        roster = self._decider.roster
        if not definitions and not given.only_wanted_by_queries:
            roster.want({feed: Want(weight, 1.0) for feed, weight in own.items()})
            await self._aim((), 0.0)
            return
        wanting = Wanting(definitions, standing.scope(), await queries.sources(), await queries.offers())
        wants = await asyncio.to_thread(wanting.wants, own)
        found = await asyncio.to_thread(self._aimed, wanting, definitions, wants)
        if any(times > 1 for times in found.times.values()):
            wants = await asyncio.to_thread(wanting.wants, own, found.times)
        roster.want(wants)
        await self._aim(found.aims, found.budget)

    def _aimed(self, wanting: Wanting, definitions: Mapping[int, Create], wants: Mapping[int, Want]) -> Aimed:
        given, aim = self.settings, self._decider.aim
        worth = {feed: want.weight * want.selectivity for feed, want in wants.items()}
        if given.target is None or aim is None:
            return aimed(wanting, definitions, self._decider, worth, given.budget, given.least_interval)
        most = given.budget if given.most_budget is None else given.most_budget
        least = given.least_interval
        return aimed(wanting, definitions, self._decider, worth, aim.requests_per_minute, least, most)

    async def _aim(self, found: tuple[Aim, ...], budget: float) -> None:
        """Spend what the targets of queries need, and say where they cannot be met."""
        given, aim = self.settings, self._decider.aim
        if given.target is not None and aim is not None:
            self._floor = budget
            self._decider.spending.limit(max(aim.requests_per_minute, budget))
        before = {one.query: one.reached for one in self.aims}
        for one in found:
            if not one.reached and before.get(one.query) is not False:
                log.warning("query_target", query=one.query, reached=False, message=one.message)
        if found or self.aims:
            await targets.save(self._store, found, time.time())
        self.aims = found

    async def prune(self) -> None:
        keep = Keep(days=self.settings.keep_days, per_feed=self.settings.keep_per_feed)
        while True:
            pruned = await self._store.prune(keep, time.time())
            if not (pruned.items or pruned.refreshes or pruned.outbox):
                break
        await self._store.reading.compact(time.time())
        await self._store.removals.expire(time.time())

    async def index(self) -> None:
        while await self._store.anything_to_index() and await self._store.index():
            pass


async def every(seconds: float, work: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    """Do some work again and again until `stop` is set; a failure is logged and tried again next time."""
    saying = Saying()
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            try:
                await work()
                saying.over()
            except Exception as error:
                if saying.worth(str(error)):
                    log.error("upkeep_failed", work=work.__name__, error=str(error))


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 5)
