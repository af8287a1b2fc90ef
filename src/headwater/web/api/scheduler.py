"""The scheduler: what it may spend, what it costs to be refreshed, who is next and why."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.cluster.node import shared
from headwater.cluster.status import ClusterStatus, cluster_status
from headwater.errors import NotFound
from headwater.node.aim import Aim
from headwater.node.upcoming import upcoming
from headwater.web.api.access import the_node
from headwater.web.api.endpoint import ADMIN, Answer, Asked, Call, Noun
from headwater.web.api.values import Limit, Page, Time, finite

noun = Noun("scheduler", "What is being refreshed, within which budget, at which price, and what comes next.")


class SchedulerView(Answer, frozen=True):
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
    aims: list[Aim]


@noun.get("/scheduler")
async def show_scheduler(call: Call) -> SchedulerView:
    """Say what goes on at this moment."""
    status = call.frame.status()
    next_up = upcoming(call.node.crawler, call.now, 1) if call.node is not None else []
    return SchedulerView(
        strategy=status.strategy,
        feeds=status.feeds,
        under_way=status.under_way,
        budget_per_minute=status.budget_per_minute,
        budget_left=status.budget_left,
        spent=status.spent,
        budget_bytes=finite(status.budget_bytes),
        spent_bytes=status.spent_bytes,
        price=finite(next_up[0].price) if next_up else None,
        next_due=finite(status.next_due),
        held_hosts=status.held_hosts,
        network_away_since=status.network_away_since,
        problem=status.problem,
        target=status.target,
        target_reached=status.target_reached,
        queries=status.queries,
        aims=list(status.aims) if call.user.is_owner else [],
    )


@noun.get("/scheduler/cluster", ADMIN)
async def show_cluster(call: Call) -> ClusterStatus:
    """Say which machines share the work: who leads, who holds what, what waits, what is wrong."""
    if not shared(call.frame.settings):
        raise NotFound("This server runs by itself: its database is a file.")
    return await cluster_status(call.store)


class NextAsked(Asked, frozen=True):
    limit: Limit = 20


class Candidate(Answer, frozen=True):
    """A feed that is to be refreshed: when, what that is worth beside the price, and why."""

    feed: int
    title: str | None
    url: str
    due: Annotated[Time, Meta(description="not before; the budget may let it wait longer")]
    value: float | None
    price: float | None
    why: str


@noun.get("/scheduler/candidates", ADMIN)
async def list_candidates(call: Call, asked: NextAsked) -> Page[Candidate]:
    """List the feeds that are refreshed next, with the strategy's reasons."""
    found = upcoming(the_node(call).crawler, call.now, asked.limit)
    feeds = await call.store.feeds_by_id(one.feed_id for one in found)
    return Page(
        items=[
            Candidate(
                feed=one.feed_id,
                title=feeds[one.feed_id].title,
                url=feeds[one.feed_id].url,
                due=one.due,
                value=finite(one.value),
                price=finite(one.price),
                why=one.why,
            )
            for one in found
            if one.feed_id in feeds
        ],
        next=None,
    )
