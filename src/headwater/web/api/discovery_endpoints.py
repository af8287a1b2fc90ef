"""Endpoint of suggestions: what others read, what your items link to, what is rising today."""

from __future__ import annotations

from headwater.web.api.endpoint import ApiCall, EndpointGroup, ResponseBody
from headwater.web.api.feed_endpoints import SimilarFeed
from headwater.web.api.item_endpoints import format_item_id
from headwater.web.shared.suggestions import LinkedSite, Suggestion, suggest_feeds

discovery_group = EndpointGroup(
    "discover", "Suggested feeds with reasons, and rising topics. /feeds/discover lists the feeds of an address."
)


class SuggestedFeed(ResponseBody, frozen=True):
    """A feed of this server, and why it is suggested; PUT /subscriptions/feeds/{id} subscribes to it."""

    feed: SimilarFeed
    reason: str


class RisingTopicView(ResponseBody, frozen=True):
    """A topic of today: its items, the number of feeds, and the factor by which it exceeds its usual rate."""

    topic: str
    items: list[str]
    feeds: int
    factor: float


class DiscoveriesView(ResponseBody, frozen=True):
    also_read: list[SuggestedFeed]
    popular: list[SuggestedFeed]
    linked: list[LinkedSite]
    rising: list[RisingTopicView]


def _view_suggestion(one: Suggestion) -> SuggestedFeed:
    return SuggestedFeed(feed=SimilarFeed(id=one.feed.id, url=one.feed.url, title=one.feed.title), reason=one.reason)


@discovery_group.get("/discover")
async def show_discoveries(call: ApiCall) -> DiscoveriesView:
    """List suggested feeds, sites that your items link to, and rising topics."""
    found = await suggest_feeds(call.site, call.user.id)
    return DiscoveriesView(
        also_read=[_view_suggestion(one) for one in found.also],
        popular=[_view_suggestion(one) for one in found.popular],
        linked=list(found.linked),
        rising=[
            RisingTopicView(
                topic=one.topic.text,
                items=[format_item_id(id) for id in one.topic.items[:1000]],
                feeds=one.topic.feeds,
                factor=one.topic.factor,
            )
            for one in found.rising
        ],
    )
