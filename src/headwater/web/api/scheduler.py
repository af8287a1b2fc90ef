"""The scheduler: what it may spend, what it costs to be refreshed, who is next and why."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.cluster.node import is_shared_database
from headwater.cluster.status import ClusterStatus, read_cluster_status
from headwater.errors import NotFound
from headwater.node.aim import TargetOutcome
from headwater.node.upcoming import list_upcoming
from headwater.web.api.access import require_aggregator
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, Parameters, ResponseBody
from headwater.web.api.values import Limit, ListPage, Time, finite_or_none

scheduler_group = EndpointGroup(
    "scheduler", "What is being refreshed, within which budget, at which price, and what comes next."
)


class SchedulerView(ResponseBody, frozen=True):
    """What goes on at this moment. The price is what a refresh must be worth to be made."""

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
    """Say what goes on at this moment."""
    status = call.frame.status()
    next_up = list_upcoming(call.node.crawler, call.now, 1) if call.node is not None else []
    return SchedulerView(
        strategy=status.strategy,
        feeds=status.feeds,
        under_way=status.under_way,
        budget_per_minute=status.budget_per_minute,
        budget_left=status.budget_left,
        spent=status.spent,
        budget_bytes=finite_or_none(status.budget_bytes),
        spent_bytes=status.spent_bytes,
        price=finite_or_none(next_up[0].price) if next_up else None,
        next_due=finite_or_none(status.next_due),
        held_hosts=status.held_hosts,
        network_away_since=status.network_away_since,
        problem=status.problem,
        target=status.target,
        target_reached=status.target_reached,
        queries=status.queries,
        aims=list(status.aims) if call.user.is_owner else [],
    )


@scheduler_group.get("/scheduler/cluster", ADMIN)
async def show_cluster(call: ApiCall) -> ClusterStatus:
    """Say which machines share the work: who leads, who holds what, what waits, what is wrong."""
    if not is_shared_database(call.frame.settings):
        raise NotFound("This server runs by itself: its database is a file.")
    return await read_cluster_status(call.store)


class UpcomingParameters(Parameters, frozen=True):
    limit: Limit = 20


class UpcomingRefreshView(ResponseBody, frozen=True):
    """A feed that is to be refreshed: when, what that is worth beside the price, and why."""

    feed: int
    title: str | None
    url: str
    due: Annotated[Time, Meta(description="not before; the budget may let it wait longer")]
    value: float | None
    price: float | None
    why: str


@scheduler_group.get("/scheduler/candidates", ADMIN)
async def list_candidates(call: ApiCall, asked: UpcomingParameters) -> ListPage[UpcomingRefreshView]:
    """List the feeds that are refreshed next, with the strategy's reasons."""
    found = list_upcoming(require_aggregator(call).crawler, call.now, asked.limit)
    feeds = await call.store.feeds_by_id(one.feed_id for one in found)
    return ListPage(
        items=[
            UpcomingRefreshView(
                feed=one.feed_id,
                title=feeds[one.feed_id].title,
                url=feeds[one.feed_id].url,
                due=one.due,
                value=finite_or_none(one.value),
                price=finite_or_none(one.price),
                why=one.why,
            )
            for one in found
            if one.feed_id in feeds
        ],
        next=None,
    )
