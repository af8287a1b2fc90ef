"""Endpoints of the scheduler and of quality: reports, history, predictions, comparison of strategies."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from headwater.cluster.cluster_status import ClusterStatus, read_cluster_status
from headwater.errors import NotFound
from headwater.node.crawl.crawl_status import TargetOutcome
from headwater.node.quality.belief_sample import estimate_quality_by_budget
from headwater.node.quality.promises import PromiseReport, load_promises
from headwater.node.quality.quality_monitor import QualityPoint, load_history
from headwater.node.quality.quality_report import QualityReport, load_last_report
from headwater.schedule.quality.least_budget import PredictedQuality
from headwater.settings import is_shared_database
from headwater.store.content.feeds import find_feeds
from headwater.store.readers.subscriptions import list_subscriptions
from headwater.web.api.api_types import Cursor, Limit, ListPage, Moment, Time, decode_cursor, finite_or_none, paginate
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, Parameters, ResponseBody
from headwater.web.api.server_endpoints import BackgroundJobView
from headwater.web.api.server_endpoints import view_job as view_job
from headwater.web.shared.background_jobs import BackgroundJob
from headwater.web.shared.strategy_comparison import StrategyComparison, list_compared, replay_strategies

scheduler_group = EndpointGroup(
    "scheduler", "The state of the scheduler: its budget, its price, and the next refreshes."
)


class SchedulerView(ResponseBody, frozen=True):
    """The current state of the scheduler. The price is the least value for which a feed is refreshed."""

    strategy: str
    feeds: int
    under_way: int
    budget_per_minute: float
    budget_left: int
    spent: int
    budget_bytes: float | None
    spent_bytes: float
    price: float | None
    next_due: float | None
    held_hosts: int
    network_away_since: float | None
    problem: str | None
    target: str | None
    target_reached: bool | None
    queries: int
    aims: list[TargetOutcome]


@scheduler_group.get("/scheduler")
async def show_scheduler(call: ApiCall) -> SchedulerView:
    """Show the current state of the scheduler."""
    status = call.site.status()
    next_up = await call.aggregator.crawl.list_upcoming(call.now, 1)
    return SchedulerView.from_row(
        status,
        budget_bytes=finite_or_none(status.budget_bytes),
        price=finite_or_none(next_up[0].price) if next_up else None,
        next_due=finite_or_none(status.next_due),
        aims=list(status.aims) if call.user.is_owner else [],
    )


@scheduler_group.get("/scheduler/cluster", ADMIN)
async def show_cluster(call: ApiCall) -> ClusterStatus:
    """Show the nodes of the cluster: leaders, assignments, queues and problems."""
    if not is_shared_database(call.site.settings):
        raise NotFound("This server is not a cluster: it uses a SQLite database.")
    return await read_cluster_status(call.store)


class UpcomingParameters(Parameters, frozen=True):
    limit: Limit = 20


class UpcomingRefreshView(ResponseBody, frozen=True):
    """A feed that is due for a refresh: when, its value and the price, and the reason."""

    feed: int
    title: str | None
    url: str
    due: Annotated[Time, Meta(description="the earliest time; the budget may delay it")]
    value: float | None
    price: float | None
    why: str


@scheduler_group.get("/scheduler/candidates", ADMIN)
async def list_candidates(call: ApiCall, parameters: UpcomingParameters) -> ListPage[UpcomingRefreshView]:
    """List the next feeds to refresh, with the strategy's reasons."""
    found = await call.aggregator.crawl.list_upcoming(call.now, parameters.limit)
    feeds = await call.store.read(find_feeds, [one.feed_id for one in found])
    return ListPage(
        items=[
            UpcomingRefreshView.from_row(
                one,
                feed=one.feed_id,
                title=feeds[one.feed_id].title,
                url=feeds[one.feed_id].url,
                value=finite_or_none(one.value),
                price=finite_or_none(one.price),
            )
            for one in found
            if one.feed_id in feeds
        ],
        next=None,
    )


quality_group = EndpointGroup(
    "quality",
    "Completeness, freshness and delay at the current budget, feeds that lose items, and predictions for other "
    "budgets.",
)


@quality_group.get("/quality")
async def show_quality(call: ApiCall) -> QualityReport:
    """Show the latest quality report; readers see only their own feeds among those that lose items."""
    report = await load_last_report(call.store)
    if report is None:
        raise NotFound("No node has reported yet. The first report comes a minute after the start.")
    if call.user.is_owner:
        return report
    mine = {one.feed_id for one in await call.store.read(list_subscriptions, call.user.id)}
    return replace(report, losing=tuple(one for one in report.losing if one.feed_id in mine))


@quality_group.get("/quality/promises", ADMIN)
async def list_promises(call: ApiCall) -> ListPage[PromiseReport]:
    """List what the server and its queries with a TARGET promise, what was measured, and whether it is kept."""
    return ListPage(items=await load_promises(call.store, call.now), next=None)


class QualityPointView(ResponseBody, frozen=True):
    """Quality at one time; unknown values are null. `delay` is the median and `lost` the count of the last hour."""

    at: Time
    completeness: float | None
    freshness: float | None
    delay: float | None
    requests: float | None
    budget: float | None
    price: float | None
    lost: float | None


def _view_quality_point(one: QualityPoint) -> QualityPointView:
    return QualityPointView(
        at=one.at,
        completeness=finite_or_none(one.completeness),
        freshness=finite_or_none(one.freshness),
        delay=finite_or_none(one.delay),
        requests=finite_or_none(one.requests),
        budget=finite_or_none(one.budget),
        price=finite_or_none(one.price),
        lost=finite_or_none(one.lost),
    )


class QualitySeriesParameters(Parameters, frozen=True):
    limit: Limit = 1000
    cursor: Cursor | None = None
    since: Moment | None = None


@quality_group.get("/quality/series")
async def list_quality(call: ApiCall, parameters: QualitySeriesParameters) -> ListPage[QualityPointView]:
    """List past quality, the oldest first: by the minute for some hours, by ten minutes for two weeks."""
    after = decode_cursor(parameters.cursor, float)
    history = await load_history(call.store)
    since = parameters.since if parameters.since is not None else 0.0
    lines = [one for one in history.list_since(since) if after is None or one.at > after[0]]
    return paginate(lines[: parameters.limit + 1], parameters.limit, _view_quality_point, lambda one: (one.at,))


class WhatIfParameters(Parameters, frozen=True):
    budget: (
        Annotated[
            float, Meta(gt=0, le=1e9, description="requests per minute; by default several around the current one")
        ]
        | None
    ) = None


@quality_group.get("/quality/what-if")
async def show_what_if(call: ApiCall, parameters: WhatIfParameters) -> ListPage[PredictedQuality]:
    """Predict quality at other budgets; the list is empty until there are estimates of the feeds."""
    wanted = None if parameters.budget is None else [parameters.budget]
    found = await estimate_quality_by_budget(await call.aggregator.crawl.sample_beliefs(call.now), wanted)
    return ListPage(items=found, next=None)


class ComparisonParameters(Parameters, frozen=True):
    strategy: (
        Annotated[str, Meta(max_length=500, description="more strategies, with commas between: advarss(c=.5)")] | None
    ) = None


@quality_group.post("/quality/comparison", ADMIN, status=202)
async def compare_strategies(call: ApiCall, parameters: ComparisonParameters) -> BackgroundJobView:
    """Start a job that replays this server's history with every strategy; one runs at a time."""
    names = list_compared(call.site.settings.strategy, parameters.strategy)
    running = call.site.background_jobs.find_running("comparison")
    if running is not None:
        return view_job(running)
    budget = call.site.status().budget_per_minute

    async def work(job: BackgroundJob) -> StrategyComparison:
        return await replay_strategies(call.store, budget, call.now, job, names)

    return view_job(call.site.background_jobs.start("Comparing strategies", work, page="comparison", unit="strategies"))
