"""Feeds: what the server watches. Owners see all of them, readers those they subscribe to."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from headwater.errors import InputError
from headwater.fetch.discover import discover
from headwater.model import Feed
from headwater.node.adding import subscribe
from headwater.store.page_store import FeedRow, Which
from headwater.web.api.access import see_feed, the_node, the_owner
from headwater.web.api.endpoint import ADMIN, Answer, Call, Given, Noun
from headwater.web.api.values import (
    Address,
    Id,
    Line,
    Listed,
    One,
    Page,
    Removed,
    Tag,
    Time,
    finite,
    page,
    place,
)
from headwater.web.pages.health import CAUSES

noun = Noun("feeds", "The feeds that the server watches; readers see those they subscribe to.")

Weight = Annotated[
    float, Meta(ge=0, le=1000, description="what one of its items is worth to the scheduler; 1 is usual")
]
Tags = Annotated[list[Tag], Meta(max_length=20)]


class FeedView(Answer, frozen=True):
    """A feed."""

    id: int
    url: str
    title: str | None
    name: str | None
    link: str | None
    tags: list[str]
    weight: float
    added: Time
    paused: bool
    gone_since: float | None
    items: int
    window: int
    last_refresh: float | None
    last_change: float | None
    next_refresh: float | None
    failures: int
    last_error: str | None


def view(row: FeedRow) -> FeedView:
    feed = row.feed
    return FeedView(
        id=feed.id,
        url=feed.url,
        title=feed.title,
        name=feed.name,
        link=feed.link,
        tags=list(feed.tags),
        weight=feed.weight,
        added=feed.added,
        paused=feed.paused,
        gone_since=feed.gone_since,
        items=row.items,
        window=row.window,
        last_refresh=row.last_refresh,
        last_change=row.last_change,
        next_refresh=finite(row.next_refresh),
        failures=row.failures,
        last_error=row.last_error,
    )


class FeedsAsked(Listed, frozen=True):
    tag: Tag | None = None
    search: Annotated[Line, Meta(description="part of a title, name or address")] | None = None
    state: Literal["failing", "gone", "paused", "new"] | None = None


@noun.get("/feeds")
async def list_feeds(call: Call, asked: FeedsAsked) -> Page[FeedView]:
    """List feeds in the order of their numbers."""
    after = place(asked.cursor, int)
    mine = None if call.user.is_owner else call.user.id
    which = Which(asked.tag, asked.search, asked.state, subscriber=mine)
    rows = await call.store.pages.feeds(which, after=after[0] if after else 0, limit=asked.limit + 1)
    return page(rows, asked.limit, view, lambda row: (row.feed.id,))


class NewFeed(Given, frozen=True):
    url: Annotated[Address, Meta(description="the address of a feed, or of a page that offers one")]
    tags: Tags = field(default_factory=list)
    name: Line | None = None
    weight: Weight | None = None
    choose: Annotated[int, Meta(ge=1, le=100, description="which one, where a page offers several")] = 1


class Offer(Answer, frozen=True):
    """A feed that a page offers."""

    url: str
    title: str | None
    type: str | None


class Added(Answer, frozen=True):
    """The feed, whether it is here since just now, and the others that the address offers."""

    feed: FeedView
    created: bool
    others: list[Offer]


@noun.post("/feeds", status=201)
async def add_feed(call: Call, given: NewFeed) -> Added:
    """Find the feed at an address, add it and subscribe to it.

    Only an owner gives a name or a weight.
    """
    if given.name is not None or given.weight is not None:
        the_owner(call, "gives feeds names and weights")
    node = the_node(call)
    await call.frame.allowance.check(call.user, [given.url])

    def choose(address: str, found: object) -> object:
        offers = list(found)  # type: ignore[call-overload]
        if given.choose > len(offers):
            raise InputError(f"The page offers {len(offers)} feeds; there is no number {given.choose}.", "choose")
        return offers[given.choose - 1]

    done = await subscribe(
        call.store,
        node.scout,
        given.url,
        now=call.now,
        choose=choose,  # type: ignore[arg-type]
        name=given.name,
        tags=given.tags,
        weight=1.0 if given.weight is None else given.weight,
        subscriber=call.user.id,
        allowed=call.frame.allowance.of(call.user),
    )
    others = [Offer(url=one.url, title=one.title, type=one.type) for one in done.others]
    return Added(feed=await one_feed(call, done.feed.id), created=done.created, others=others)


class Where(Given, frozen=True):
    url: Address


@noun.post("/feeds/discover")
async def discover_feeds(call: Call, given: Where) -> Page[Offer]:
    """Say which feeds an address offers, without adding any."""
    found = await discover(the_node(call).scout, given.url)
    return Page(items=[Offer(url=one.url, title=one.title, type=one.type) for one in found[:100]], next=None)


async def one_feed(call: Call, feed_id: int) -> FeedView:
    await see_feed(call, feed_id)
    (row,) = await call.store.pages.feeds(after=feed_id - 1, limit=1)
    return view(row)


@noun.get("/feeds/{id}")
async def show_feed(call: Call, asked: One) -> FeedView:
    """Show one feed."""
    return await one_feed(call, asked.id)


class FeedChange(Given, frozen=True):
    """What is left out stays as it is; a title of null shows the publisher's own again."""

    title: Line | UnsetType | None = UNSET
    name: Line | UnsetType | None = UNSET
    weight: Weight | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    url: Annotated[Address, Meta(description="the new address of a feed that has moved")] | UnsetType = UNSET


@noun.patch("/feeds/{id}", ADMIN)
async def change_feed(call: Call, asked: One, given: FeedChange) -> FeedView:
    """Change a feed's title, name, weight, tags or address for everybody, or pause it."""
    named = ("title", "name", "weight", "paused", "tags", "url")
    changes = {name: getattr(given, name) for name in named if getattr(given, name) is not UNSET}
    if "tags" in changes:
        changes["tags"] = tuple(dict.fromkeys(changes["tags"]))
    if "url" in changes and not changes["url"].lower().startswith(("http://", "https://")):
        raise InputError("An address begins with https:// or http://.", "url")
    if changes:
        await call.store.update_feed(asked.id, **changes)
    return await one_feed(call, asked.id)


@noun.delete("/feeds/{id}", ADMIN)
async def remove_feed(call: Call, asked: One) -> Removed:
    """Remove a feed and everything that came of it, for everybody."""
    return Removed(undo=await call.store.remove_feed(asked.id, by=call.remover))


class Wanted(Given, frozen=True):
    wanted: bool


@noun.put("/feeds/{id}/articles", ADMIN)
async def want_articles(call: Call, asked: One, given: Wanted) -> None:
    """Fetch the pages behind the items of a feed from now on, or no longer."""
    feed = await call.store.feed(asked.id)
    await call.store.articles.wish("feed", feed.id, given.wanted)


class Merged(Removed, frozen=True):
    moved: Annotated[int, Meta(description="items that belong to this feed now")]
    feed: FeedView


class Other(Given, frozen=True):
    other: Annotated[Id, Meta(description="the feed that goes; its items and tags come here")]


@noun.post("/feeds/{id}/merge", ADMIN)
async def merge_feeds(call: Call, asked: One, given: Other) -> Merged:
    """Make two feeds one: the items of the other belong to this one, and the other is removed."""
    moved, undo = await call.store.pages.merge(asked.id, given.other, by=call.remover)
    return Merged(moved=moved, feed=await one_feed(call, asked.id), undo=undo)


class Alike(Answer, frozen=True):
    id: int
    url: str
    title: str | None


@noun.get("/feeds/{id}/alike", ADMIN)
async def list_alike_feeds(call: Call, asked: One) -> Page[Alike]:
    """List feeds that are perhaps the same: with the same title, or of the same web page."""

    def seen(feed: Feed) -> Alike:
        return Alike(id=feed.id, url=feed.url, title=feed.title)

    return Page(items=[seen(feed) for feed in await call.store.pages.alike(asked.id, 100)], next=None)


class Troubled(Answer, frozen=True):
    """Feeds that fail for one cause: how many, since when the first, some of them, and what helps."""

    ending: str
    cause: str
    helps: str
    feeds: int
    since: float | None
    some: list[FeedView]


@noun.get("/feeds/troubles", ADMIN)
async def list_troubles(call: Call) -> Page[Troubled]:
    """List why feeds fail, the most frequent cause first."""
    found = await call.store.pages.troubles()
    other = ("Another cause", "The feed's page says more.")
    told = [
        Troubled(
            ending=one.ending.value,
            cause=CAUSES.get(one.ending, other)[0],
            helps=CAUSES.get(one.ending, other)[1],
            feeds=one.feeds,
            since=one.since,
            some=[view(row) for row in one.some],
        )
        for one in found
    ]
    return Page(items=told, next=None)
