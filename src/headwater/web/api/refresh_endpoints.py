"""Endpoints of refreshes: their results, and when and why the next one is scheduled."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.node.quality.feed_explanation import (
    FeedBelief,
    ScheduleExplanation,
    explain_feed_schedule,
    load_weekly_pattern,
)
from headwater.node.quality.feed_explanation import ServerHint as Hint
from headwater.store.content import refreshes as stored_refreshes
from headwater.web.api.api_types import (
    Cursor,
    Id,
    IdParameters,
    Limit,
    ListPage,
    Moment,
    Time,
    decode_cursor,
    finite_or_none,
    paginate,
)
from headwater.web.api.endpoint import (
    ApiCall,
    EndpointGroup,
    Parameters,
    ResponseBody,
    require_visible_feed,
)
from headwater.web.shared.schedule_sentences import explain_schedule

refresh_group = EndpointGroup("refreshes", "The results of refreshes, and when and why the next ones are scheduled.")


class RefreshView(ResponseBody, frozen=True):
    """One refresh of a feed and its result."""

    at: Time
    ending: str
    status: int | None
    elapsed: float
    bytes: int
    new: int
    updated: int
    duplicates: int
    window: int | None
    overlap: int | None
    saturated: bool
    lost: float
    reason: str
    message: str


@refresh_group.post("/feeds/{id}/refresh")
async def refresh_feed(call: ApiCall, parameters: IdParameters) -> RefreshView:
    """Refresh a feed now and show the result; 409 while its server asks to wait."""
    await require_visible_feed(call, parameters.id)
    settled = await call.aggregator.crawl.request_refresh(parameters.id)
    return RefreshView.from_row(settled.verdict.refresh)


class RefreshListParameters(Parameters, frozen=True):
    id: Id
    limit: Limit = 100
    cursor: Cursor | None = None
    since: Moment | None = None


@refresh_group.get("/feeds/{id}/refreshes")
async def list_refreshes(call: ApiCall, parameters: RefreshListParameters) -> ListPage[RefreshView]:
    """List the refreshes of a feed, the latest first."""
    await require_visible_feed(call, parameters.id)
    before = decode_cursor(parameters.cursor, float)
    rows = await call.store.read(
        stored_refreshes.list_refreshes,
        parameters.id,
        since=parameters.since,
        before=before[0] if before else None,
        limit=parameters.limit + 1,
    )
    return paginate(rows, parameters.limit, RefreshView.from_row, lambda one: (one.at,))


class FeedExplanationView(ResponseBody, frozen=True):
    """The schedule of a feed and the reasons for it."""

    sentences: list[str]
    strategy: str
    belief: FeedBelief | None
    asked: list[Hint]
    push: str
    held_until: float | None
    held_by: str
    value: float | None
    price: float | None
    why: str
    next_refresh: float | None
    last: RefreshView | None
    kinds: list[str]


@refresh_group.get("/feeds/{id}/explanation")
async def explain_feed(call: ApiCall, parameters: IdParameters) -> FeedExplanationView:
    """Explain a feed's schedule: the estimates, the server's hints, and when and why it is refreshed."""
    await require_visible_feed(call, parameters.id)
    explanation: ScheduleExplanation = await explain_feed_schedule(
        call.store, call.site.settings, parameters.id, call.now
    )
    refreshes = await call.store.read(stored_refreshes.list_refreshes, parameters.id, limit=300)
    return FeedExplanationView.from_row(
        explanation,
        sentences=list(explain_schedule(explanation, refreshes, call.now)),
        held_until=finite_or_none(explanation.held_until),
        value=finite_or_none(explanation.value),
        price=finite_or_none(explanation.price),
        next_refresh=finite_or_none(explanation.next_refresh),
        last=RefreshView.from_row(explanation.last) if explanation.last else None,
    )


class WeeklyPatternView(ResponseBody, frozen=True):
    """Items in each of the 168 hours of a week from Monday 00:00 UTC: expected this week, and counted in the past."""

    believed: list[float] | None
    counted: list[int]
    weeks: Annotated[float, Meta(description="the number of past weeks that were counted")]


@refresh_group.get("/feeds/{id}/pattern")
async def show_pattern(call: ApiCall, parameters: IdParameters) -> WeeklyPatternView:
    """Show at which hours of the week a feed publishes."""
    await require_visible_feed(call, parameters.id)
    explanation = await explain_feed_schedule(call.store, call.site.settings, parameters.id, call.now)
    return WeeklyPatternView.from_row(await load_weekly_pattern(call.store, explanation, call.now))
