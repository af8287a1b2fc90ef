"""Refreshes of feeds: what came of each, when the next one is and why. Readers see those of feeds they subscribe to."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.model import Refresh
from headwater.node.explaining import Asked as Hint
from headwater.node.explaining import Belief, Explanation, explain
from headwater.node.pattern import pattern
from headwater.web.api.access import see_feed, the_node
from headwater.web.api.endpoint import Answer, Asked, Call, Noun
from headwater.web.api.values import Cursor, Id, Limit, Moment, One, Page, Time, finite, page, place
from headwater.web.pages.sentences import explained

noun = Noun("refreshes", "What came of refreshing feeds, when they are refreshed next, and why.")


class RefreshView(Answer, frozen=True):
    """One poll of a feed and what came of it."""

    at: Time
    ending: str
    status: int | None
    elapsed: float
    bytes: int
    new: int
    updated: int
    window: int | None
    overlap: int | None
    saturated: bool
    lost: float
    reason: str
    message: str


def view_refresh(one: Refresh) -> RefreshView:
    return RefreshView(
        at=one.at,
        ending=one.ending.value,
        status=one.status,
        elapsed=one.elapsed,
        bytes=one.bytes,
        new=one.new,
        updated=one.updated,
        window=one.window,
        overlap=one.overlap,
        saturated=one.saturated,
        lost=one.lost,
        reason=one.reason,
        message=one.message,
    )


@noun.post("/feeds/{id}/refresh")
async def refresh_feed(call: Call, asked: One) -> RefreshView:
    """Refresh a feed now and say what came of it; 409 while its server wants to be left alone."""
    await see_feed(call, asked.id)
    settled = await the_node(call).crawler.refresh_now(asked.id)
    return view_refresh(settled.verdict.refresh)


class RefreshesAsked(Asked, frozen=True):
    id: Id
    limit: Limit = 100
    cursor: Cursor | None = None
    since: Moment | None = None


@noun.get("/feeds/{id}/refreshes")
async def list_refreshes(call: Call, asked: RefreshesAsked) -> Page[RefreshView]:
    """List the refreshes of a feed, the latest first."""
    await see_feed(call, asked.id)
    before = place(asked.cursor, float)
    rows = await call.store.refreshes(
        asked.id, since=asked.since, before=before[0] if before else None, limit=asked.limit + 1
    )
    return page(rows, asked.limit, view_refresh, lambda one: (one.at,))


class FeedExplanation(Answer, frozen=True):
    """When and why a feed is refreshed."""

    sentences: list[str]
    strategy: str
    belief: Belief | None
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


@noun.get("/feeds/{id}/explanation")
async def explain_feed(call: Call, asked: One) -> FeedExplanation:
    """Say what is believed of a feed, what its server asked for, and when and why it is refreshed."""
    await see_feed(call, asked.id)
    told: Explanation = await explain(call.store, call.frame.settings, asked.id, call.now)
    refreshes = await call.store.refreshes(asked.id, limit=300)
    return FeedExplanation(
        sentences=list(explained(told, refreshes, call.now)),
        strategy=told.strategy,
        belief=told.belief,
        asked=list(told.asked),
        push=told.push,
        held_until=finite(told.held_until),
        held_by=told.held_by,
        value=finite(told.value),
        price=finite(told.price),
        why=told.why,
        next_refresh=finite(told.next_refresh),
        last=view_refresh(told.last) if told.last else None,
        kinds=list(told.kinds),
    )


class FeedPattern(Answer, frozen=True):
    """Items in each of the 168 hours of a week, Monday 00:00 UTC first: believed for this one, counted in the past."""

    believed: list[float] | None
    counted: list[int]
    weeks: Annotated[float, Meta(description="of the past that were counted")]


@noun.get("/feeds/{id}/pattern")
async def show_pattern(call: Call, asked: One) -> FeedPattern:
    """Say at which hours a feed publishes."""
    await see_feed(call, asked.id)
    told = await explain(call.store, call.frame.settings, asked.id, call.now)
    found = await pattern(call.store, told, call.now)
    believed = None if found.believed is None else list(found.believed)
    return FeedPattern(believed=believed, counted=list(found.counted), weeks=found.weeks)
