"""Keeps a scheduler and its store in order: follows changes, sets weights, reports, saves, prunes and indexes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import structlog

from headwater.language.ast import CreateFeed
from headwater.loops import run_after_changes, run_every
from headwater.model import Refresh
from headwater.node import live_settings
from headwater.node.crawl import snapshot
from headwater.node.crawl.crawl_status import TargetOutcome
from headwater.node.crawl.scheduler import Scheduler, apply_thrift
from headwater.node.quality import targets
from headwater.node.quality.promises import PromiseKeeper
from headwater.node.quality.quality_monitor import QualityMonitor
from headwater.node.quality.quality_report import QualityReport
from headwater.node.quality.targets import RETARGET_SECONDS as RETARGET
from headwater.node.quality.targets import (
    Deadline,
    TargetPlan,
    find_target_budget,
    note_broken_target,
    plan_query_targets,
    require_beliefs,
)
from headwater.node.queries.demand import Demand, DemandModel, load_demand_model, load_own_weights
from headwater.query.source_scope import SourceScope
from headwater.schedule.quality.tally import HOURS_KEPT
from headwater.schedule.strategy import Strategy
from headwater.schedule.value.value import Value
from headwater.settings import Settings
from headwater.store.content.articles import delete_orphaned_articles
from headwater.store.content.feed_state import save_moved_times
from headwater.store.content.refreshes import load_mean_costs
from headwater.store.content.search import has_queued_items, index_queued
from headwater.store.content.websub_leases import list_pushed_feeds
from headwater.store.maintenance.retention import RetentionPolicy, delete_expired
from headwater.store.maintenance.trash import delete_expired_trash
from headwater.store.queries.promise_hours import SERVER, find_latest_hours
from headwater.store.readers.marks import compact_all_marks
from headwater.store.readers.subscriptions import list_reader_feeds
from headwater.store.saved_state import read_revision
from headwater.store.store import Store
from headwater.times import HOUR, WEEK

SAVE_SECONDS = 300.0
REPORT_SECONDS = 60.0
PRUNE_SECONDS = 3600.0
DEMAND_SECONDS = 60.0
PROMISE_SECONDS = 300.0
INDEX_SECONDS = 2.0  # between two batches of the search index; a search adds missing items itself

MAX_LOGGED = 5  # losing feeds in a line of the log
log = structlog.get_logger()


class DefinitionSource(Protocol):
    """Has the definitions in force: the query processor of this process, or a reader of the store."""

    @property
    def definitions(self) -> Mapping[int, CreateFeed]: ...

    def build_scope(self) -> SourceScope: ...


class Maintenance:
    """Maintains a scheduler and its store: `load_state` before it chooses anything, `run` while it runs."""

    def __init__(
        self, store: Store, scheduler: Scheduler, settings: Settings, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self.settings = settings
        self._clock = clock
        self._revision = 0
        self._has_saved = self._has_saved_plan = False
        self.monitor = QualityMonitor(store, scheduler, settings.least_interval)
        self._promises = PromiseKeeper(store)
        self._promises_measured = 0.0  # when
        self._budget_floor = 0.0  # requests per minute that TARGETs of queries need, in target mode

    async def load_state(self) -> None:
        """Load the feeds and the learned state."""
        if self.settings.target is not None:
            require_beliefs(self._scheduler.strategy)
        await snapshot.load_host_state(self._store, self._scheduler.politeness)
        self._revision = await self._store.read(read_revision)
        self._scheduler.politeness.pushed_feeds = set(await self._store.read(list_pushed_feeds, self._clock()))
        await self._scheduler.load_feeds()
        await snapshot.load_snapshot(self._store, self._scheduler.feed_table, self._scheduler.strategy)
        await self._learn_foreign_refreshes()
        self._scheduler.restore_host_pace()
        if self.settings.budget_bytes is not None:
            means = await self._store.read(load_mean_costs, self._clock() - WEEK)
            self._scheduler.feed_table.restore_costs(means)
        await self.monitor.load()
        await self.update_target_budget()
        # Commands explain the first minute by the strategy that runs, too.
        await live_settings.save_options(self._store, self.settings, self._clock())

    async def run(self, definitions: DefinitionSource, stop: asyncio.Event) -> None:
        """Do all periodic work until `stop` is set."""
        await asyncio.gather(*self.start_tasks(definitions, stop))

    def start_tasks(self, definitions: DefinitionSource, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        """Start a task for each kind of periodic work, until `stop` is set."""

        async def follow_changes() -> None:
            await self.follow_feed_changes(definitions)

        async def weigh_feeds() -> None:
            await self.update_demand(definitions)

        works: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (DEMAND_SECONDS, weigh_feeds),
            (SAVE_SECONDS, self.save_state),
            (REPORT_SECONDS, self.publish_report),
            (RETARGET, self.update_target_budget),
            (PRUNE_SECONDS, self.prune_store),
        ]
        changes = self._store.changes
        return [
            asyncio.create_task(run_after_changes(changes, follow_changes, stop)),
            asyncio.create_task(run_after_changes(changes, self.index_items, stop, INDEX_SECONDS)),
            *(asyncio.create_task(run_every(seconds, work, stop)) for seconds, work in works),
        ]

    async def save_state(self) -> None:
        """Save the learned state."""
        learned = self._scheduler
        self._has_saved, self._has_saved_plan = True, self._has_plan()
        await snapshot.save_snapshot(
            self._store, learned.feed_table, learned.strategy, learned.politeness, self._clock()
        )

    def _has_plan(self) -> bool:
        strategy = self._scheduler.strategy
        return not isinstance(strategy, Value) or strategy.has_price

    async def measure_quality(self) -> QualityReport:
        """Measure the quality now."""
        if self.settings.target is not None and self._scheduler.target_result is None:
            await self.update_target_budget()  # at the start there were no estimates yet
        return await self.monitor.make_report(self._clock())

    async def publish_report(self) -> None:
        """Log the quality and save it for other processes.

        The first report also saves the learned state, so that a command can explain a server that has just started, and
        so does the first one after a plan was made.
        """
        if not self._has_saved or (self._has_plan() and not self._has_saved_plan):
            await self.save_state()
        if moved := self._scheduler.list_moved_times():
            await self._store.write(save_moved_times, moved)
        report = await self.measure_quality()
        hour = report.hour
        log.info(
            "quality",
            completeness=_round_figure(report.completeness),
            expected_completeness=_round_figure(report.expected_completeness),
            freshness=_round_figure(report.freshness),
            lost_hour=round(hour.lost, 1),
            delay_median=None if hour.delay is None else _round_figure(hour.delay.median),
            delay_p95=None if hour.delay is None else _round_figure(hour.delay.p95),
            requests=report.used_requests,
            budget=report.budget_requests,
            saturated=report.saturated,
            losing={one.feed_id: round(one.lost + one.lost_now, 1) for one in report.losing[:MAX_LOGGED]},
            price=_round_figure(report.price),
            target=report.target,
            problem=report.problem,
        )
        await self.monitor.save(report.at, report)
        await self.measure_server_promise(report)
        await live_settings.save_options(self._store, self.settings, report.at)

    async def measure_server_promise(self, report: QualityReport) -> None:
        """Record the server's quality of the hours since the last record, as far as the tally reaches."""
        current = int(report.at // HOUR)
        latest = (await self._store.read(find_latest_hours)).get(SERVER, current - HOURS_KEPT)
        first = min(max(latest, current - HOURS_KEPT + 1), current)
        hours = {hour: self.monitor.tally.count_hour(hour, report.feeds) for hour in range(first, current + 1)}
        await self._promises.measure_server(hours, self.settings.target, self._scheduler.target_result)
        self._scheduler.target_broken = self._promises.broken.get(SERVER)

    async def measure_promises(
        self,
        model: DemandModel,
        definitions: Mapping[int, CreateFeed],
        outcomes: Sequence[TargetOutcome],
        now: float,
    ) -> None:
        """Measure the TARGETs of queries, at most every PROMISE_SECONDS; `outcomes` are the plan's expectations."""
        if now - self._promises_measured >= PROMISE_SECONDS:
            self._promises_measured = now
            await self._promises.measure_queries(definitions, model, outcomes, now, self.settings.alert_hours)

    async def replace_strategy(self, strategy: Strategy) -> None:
        """Use another strategy, taught from the log of refreshes."""
        feeds = self._scheduler.feed_table
        strategy.resize(len(feeds))
        feeds.learned_until[:] = -np.inf
        self._scheduler.strategy = strategy
        await snapshot.replay_missed(self._store, feeds, strategy)

    async def apply_settings(self, changes: Collection[str], new: Settings, strategy: Strategy | None) -> None:
        """Use other settings, of which these have changed, and another strategy if there is one."""
        had_target = self.settings.target is not None
        self.settings = new
        if strategy is not None:
            await self.replace_strategy(strategy)
        await self.update_target_budget()
        if new.target is None and ("budget" in changes or had_target):
            self._scheduler.budget.set_limit(new.budget)
        self._scheduler.reader_share.share = new.reader_share
        self._scheduler.strategy.note_change()
        self._scheduler.on_changed()

    async def update_target_budget(self) -> None:
        """Find the budget that reaches the target, if there is one."""
        settings, scheduler = self.settings, self._scheduler
        apply_thrift(scheduler.strategy, settings)
        if settings.target is None:
            scheduler.target_result, scheduler.target_broken, self._budget_floor = None, None, 0.0
        else:
            await find_target_budget(scheduler, settings.target, settings.max_budget, self._clock(), self._budget_floor)

    async def follow_feed_changes(self, definitions: DefinitionSource) -> None:
        """Load feeds that a command or another process has added, changed or removed."""
        revision = await self._store.read(read_revision)
        if revision != self._revision:
            await self._scheduler.load_feeds()
            await self._learn_foreign_refreshes()
            self._revision = revision
            await self.update_demand(definitions)

    async def _learn_foreign_refreshes(self) -> None:
        """Learn from refreshes of other processes, and compute when their feeds may be polled again."""
        scheduler, feeds = self._scheduler, self._scheduler.feed_table
        await snapshot.replay_missed(self._store, feeds, scheduler.strategy)
        await scheduler.reconsider_feeds(feeds.ids[feeds.unjudged].tolist())

    async def update_demand(self, source: DefinitionSource) -> None:
        """Weight the feeds by the demand of queries and readers, and compare the TARGETs with the budget."""
        definitions = source.definitions
        settings, store = self.settings, self._store
        self._scheduler.feed_table.set_reader_feeds(await store.read(list_reader_feeds))
        own = await load_own_weights(store, settings.only_wanted_by_queries)
        model = await load_demand_model(store, settings, definitions, source.build_scope(), self._clock())
        demand = await asyncio.to_thread(model.compute_demand, own)
        if not definitions and not settings.only_wanted_by_queries:
            await self._apply_demand(demand, {})
            await self._apply_targets((), 0.0)
            return
        found = await asyncio.to_thread(self._plan_targets, model, definitions, demand)
        if any(times > 1 for times in found.times.values()):
            demand = await asyncio.to_thread(model.compute_demand, own, found.times)
        await self._apply_demand(demand, found.deadlines)
        await self.measure_promises(model, definitions, found.aims, self._clock())
        broken = {definitions[id].name.name: why for id, why in self._promises.broken.items() if id in definitions}
        aims = tuple(note_broken_target(one, broken.get(one.query)) for one in found.aims)
        await self._apply_targets(aims, found.budget)

    async def _apply_demand(self, demand: Mapping[int, Demand], deadlines: Mapping[int, Deadline]) -> None:
        """Set weights and deadlines; if any has changed, the strategy plans anew at once."""
        feeds = self._scheduler.feed_table
        heavier = feeds.set_demand(demand)
        hurried = feeds.set_deadlines({feed: one.seconds for feed, one in deadlines.items()})
        if heavier or hurried:
            self._scheduler.strategy.note_change()
        if hurried:
            await targets.save_deadlines(self._store, deadlines, time.time())
        self._scheduler.on_changed()

    def _plan_targets(
        self, model: DemandModel, definitions: Mapping[int, CreateFeed], demand: Mapping[int, Demand]
    ) -> TargetPlan:
        settings, aim = self.settings, self._scheduler.target_result
        worth = {feed: one.weight * one.selectivity for feed, one in demand.items()}
        now = self._clock()
        if settings.target is None or aim is None:
            return plan_query_targets(model, definitions, self._scheduler, worth, settings.budget, now)
        most = settings.budget if settings.max_budget is None else settings.max_budget
        return plan_query_targets(model, definitions, self._scheduler, worth, aim.requests_per_minute, now, most)

    async def _apply_targets(self, found: tuple[TargetOutcome, ...], budget: float) -> None:
        """Raise the budget for the TARGETs of queries, and log those that cannot be reached."""
        settings, aim = self.settings, self._scheduler.target_result
        if settings.target is not None and aim is not None:
            self._budget_floor = budget
            self._scheduler.budget.set_limit(max(aim.requests_per_minute, budget))
        before = {one.query: one.reached for one in self._scheduler.target_outcomes}
        for one in found:
            if not one.reached and before.get(one.query) is not False:
                log.warning("query_target", query=one.query, reached=False, message=one.message)
        if found or self._scheduler.target_outcomes:
            await targets.save_outcomes(self._store, found, self._clock())
        self._scheduler.target_outcomes = found

    async def prune_store(self) -> None:
        """Delete items beyond the retention policy, in batches, and compact marks."""
        keep = RetentionPolicy(days=self.settings.keep_days, per_feed=self.settings.keep_per_feed)
        while True:
            pruned = await self._store.write(delete_expired, keep, self._clock())
            if not (pruned.items or pruned.refreshes or pruned.outbox):
                break
        await self._store.write(delete_orphaned_articles)
        await compact_all_marks(self._store, self._clock())
        while await self._store.write(delete_expired_trash, self._clock()):
            pass

    async def index_items(self) -> None:
        while await self._store.read(has_queued_items) and (await self._store.write(index_queued)) > 0:
            pass


def log_refreshes(refreshes: Iterable[tuple[Refresh, str]]) -> None:
    """Log refreshes with the addresses of their feeds."""
    bound = log.bind()  # once: binding looks its settings up each time
    for refresh, url in refreshes:
        bound.info(
            "refreshed",
            feed=refresh.feed_id,
            url=url,
            ending=refresh.ending.value,
            new=refresh.new,
            duplicates=refresh.duplicates,
            lost=round(refresh.lost, 1),
            reason=refresh.reason,
        )


def _round_figure(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 5)
