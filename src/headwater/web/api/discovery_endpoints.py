"""Discover: what others here read, what your items link to, what is rising today."""

from __future__ import annotations

from headwater.web.api.endpoint import ApiCall, EndpointGroup, ResponseBody
from headwater.web.api.feed_endpoints import SimilarFeed
from headwater.web.api.item_endpoints import format_item_id
from headwater.web.shared.suggestions import LinkedSite, Suggestion, suggest_feeds

discovery_group = EndpointGroup(
    "discover", "Feeds you might like, with the reason, and rising topics. /feeds/discover looks at an address."
)


class SuggestedFeed(ResponseBody, frozen=True):
    """A feed that is here already, and why you might like it; PUT /subscriptions/feeds/{id} subscribes to it."""

    feed: SimilarFeed
    reason: str


class RisingTopicView(ResponseBody, frozen=True):
    """A topic of today: its items, in how many feeds, and how many times its usual that is."""

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
    """Suggest feeds, from what similar readers read and from what your items link to, and name rising topics."""
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
