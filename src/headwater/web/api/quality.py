"""Quality: what the budget buys, how it went, what other budgets would bring, and strategies compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from headwater.errors import NotFound
from headwater.node.buying import estimate_quality_by_budget
from headwater.node.history import QualityPoint, load_history
from headwater.node.quality import QualityReport, load_last_report
from headwater.schedule.curve import PredictedQuality
from headwater.web.api.access import require_aggregator
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, Parameters, ResponseBody
from headwater.web.api.jobs import BackgroundJobView
from headwater.web.api.jobs import view_job as view_job
from headwater.web.api.values import Cursor, Limit, ListPage, Moment, Time, decode_cursor, finite_or_none, paginate
from headwater.web.jobs import BackgroundJob
from headwater.web.pages.comparing import StrategyComparison, replay_strategies

quality_group = EndpointGroup(
    "quality", "What the budget buys: completeness, freshness, delay, losing feeds; what another would."
)


@quality_group.get("/quality")
async def show_quality(call: ApiCall) -> QualityReport:
    """Show the node's report of the last minute; readers see of the losing feeds those they subscribe to."""
    report = await load_last_report(call.store)
    if report is None:
        raise NotFound("No node has reported yet: the first report comes after a minute.")
    if call.user.is_owner:
        return report
    mine = {one.feed_id for one in await call.store.reading.subscriptions(call.user.id)}
    return replace(report, losing=tuple(one for one in report.losing if one.feed_id in mine))


class QualityPointView(ResponseBody, frozen=True):
    """Quality at one moment; null is what was not known then. Delay is the median of the hour, lost counts it."""

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
async def list_quality(call: ApiCall, asked: QualitySeriesParameters) -> ListPage[QualityPointView]:
    """List how quality went, the oldest first: each minute of the last hours, each ten minutes of two weeks."""
    after = decode_cursor(asked.cursor, float)
    history = await load_history(call.store)
    since = asked.since if asked.since is not None else 0.0
    lines = [one for one in history.list_since(since) if after is None or one.at > after[0]]
    return paginate(lines[: asked.limit + 1], asked.limit, _view_quality_point, lambda one: (one.at,))


class WhatIfParameters(Parameters, frozen=True):
    budget: (
        Annotated[float, Meta(gt=0, le=1e9, description="requests per minute; else a curve around today's")] | None
    ) = None


@quality_group.get("/quality/what-if")
async def show_what_if(call: ApiCall, asked: WhatIfParameters) -> ListPage[PredictedQuality]:
    """Say what another budget is believed to bring; nothing while nothing is believed of the feeds."""
    node = require_aggregator(call)
    wanted = None if asked.budget is None else [asked.budget]
    found = await estimate_quality_by_budget(
        await node.sample_beliefs(call.now), call.frame.settings.least_interval, wanted
    )
    return ListPage(items=found, next=None)


@quality_group.post("/quality/comparison", ADMIN, status=202)
async def compare_strategies(call: ApiCall) -> BackgroundJobView:
    """Replay this server's own history with every strategy, as a job; one at a time."""
    running = call.frame.background_jobs.find_running("comparison")
    if running is not None:
        return view_job(running)
    budget = call.frame.status().budget_per_minute

    async def work(job: BackgroundJob) -> StrategyComparison:
        return await replay_strategies(call.store, budget, call.now, job)

    return view_job(
        call.frame.background_jobs.start("Comparing strategies", work, page="comparison", unit="strategies")
    )
