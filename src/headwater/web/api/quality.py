"""Quality: what the budget buys, how it went, what other budgets would bring, and strategies compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from headwater.errors import NotFound
from headwater.node.buying import what_budgets_buy
from headwater.node.history import Past, load_history
from headwater.node.quality import Quality, last_report
from headwater.schedule.curve import Bought
from headwater.web.api.access import the_node
from headwater.web.api.endpoint import ADMIN, Answer, Asked, Call, Noun
from headwater.web.api.jobs import JobView
from headwater.web.api.jobs import view as view_job
from headwater.web.api.values import Cursor, Limit, Moment, Page, Time, finite, page, place
from headwater.web.jobs import Job
from headwater.web.pages.comparing import Comparison, comparison

noun = Noun("quality", "What the budget buys: completeness, freshness, delay, losing feeds; what another would.")


@noun.get("/quality")
async def show_quality(call: Call) -> Quality:
    """Show the node's report of the last minute; readers see of the losing feeds those they subscribe to."""
    report = await last_report(call.store)
    if report is None:
        raise NotFound("No node has reported yet: the first report comes after a minute.")
    if call.user.is_owner:
        return report
    mine = {one.feed_id for one in await call.store.reading.subscriptions(call.user.id)}
    return replace(report, losing=tuple(one for one in report.losing if one.feed_id in mine))


class Line(Answer, frozen=True):
    """Quality at one moment; null is what was not known then. Delay is the median of the hour, lost counts it."""

    at: Time
    completeness: float | None
    freshness: float | None
    delay: float | None
    requests: float | None
    budget: float | None
    price: float | None
    lost: float | None


def _line(one: Past) -> Line:
    return Line(
        at=one.at,
        completeness=finite(one.completeness),
        freshness=finite(one.freshness),
        delay=finite(one.delay),
        requests=finite(one.requests),
        budget=finite(one.budget),
        price=finite(one.price),
        lost=finite(one.lost),
    )


class SeriesAsked(Asked, frozen=True):
    limit: Limit = 1000
    cursor: Cursor | None = None
    since: Moment | None = None


@noun.get("/quality/series")
async def list_quality(call: Call, asked: SeriesAsked) -> Page[Line]:
    """List how quality went, the oldest first: each minute of the last hours, each ten minutes of two weeks."""
    after = place(asked.cursor, float)
    history = await load_history(call.store)
    since = asked.since if asked.since is not None else 0.0
    lines = [one for one in history.since(since) if after is None or one.at > after[0]]
    return page(lines[: asked.limit + 1], asked.limit, _line, lambda one: (one.at,))


class WhatIf(Asked, frozen=True):
    budget: (
        Annotated[float, Meta(gt=0, le=1e9, description="requests per minute; else a curve around today's")] | None
    ) = None


@noun.get("/quality/what-if")
async def show_what_if(call: Call, asked: WhatIf) -> Page[Bought]:
    """Say what another budget is believed to bring; nothing while nothing is believed of the feeds."""
    node = the_node(call)
    wanted = None if asked.budget is None else [asked.budget]
    found = await what_budgets_buy(await node.sample(call.now), call.frame.settings.least_interval, wanted)
    return Page(items=found, next=None)


@noun.post("/quality/comparison", ADMIN, status=202)
async def compare_strategies(call: Call) -> JobView:
    """Replay this server's own history with every strategy, as a job; one at a time."""
    running = call.frame.jobs.running("comparison")
    if running is not None:
        return view_job(running)
    budget = call.frame.status().budget_per_minute

    async def work(job: Job) -> Comparison:
        return await comparison(call.store, budget, call.now, job)

    return view_job(call.frame.jobs.start("Comparing strategies", work, page="comparison", unit="strategies"))
