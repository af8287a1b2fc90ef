"""Discover: what others here read, what your items link to, what is rising today."""

from __future__ import annotations

from headwater.web.api.endpoint import Answer, Call, Noun
from headwater.web.api.feeds import Alike
from headwater.web.api.items import number_name
from headwater.web.pages.suggestions import Linked, Suggestion, suggestions

noun = Noun(
    "discover", "Feeds you might like, with the reason, and rising topics. /feeds/discover looks at an address."
)


class Suggested(Answer, frozen=True):
    """A feed that is here already, and why you might like it; PUT /subscriptions/feeds/{id} subscribes to it."""

    feed: Alike
    reason: str


class Rising(Answer, frozen=True):
    """A topic of today: its items, in how many feeds, and how many times its usual that is."""

    topic: str
    items: list[str]
    feeds: int
    factor: float


class Discovered(Answer, frozen=True):
    also_read: list[Suggested]
    popular: list[Suggested]
    linked: list[Linked]
    rising: list[Rising]


def _suggested(one: Suggestion) -> Suggested:
    return Suggested(feed=Alike(id=one.feed.id, url=one.feed.url, title=one.feed.title), reason=one.reason)


@noun.get("/discover")
async def show_discoveries(call: Call) -> Discovered:
    """Suggest feeds, from what similar readers read and from what your items link to, and name rising topics."""
    found = await suggestions(call.frame, call.user.id)
    return Discovered(
        also_read=[_suggested(one) for one in found.also],
        popular=[_suggested(one) for one in found.popular],
        linked=list(found.linked),
        rising=[
            Rising(
                topic=one.topic.text,
                items=[number_name(id) for id in one.topic.items[:1000]],
                feeds=one.topic.feeds,
                factor=one.topic.factor,
            )
            for one in found.rising
        ],
    )
