"""Endpoints of feeds; owners see all of them, readers those they subscribe to."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from headwater.errors import InputError
from headwater.fetch.discovery import discover_candidates
from headwater.node.feed_pace import MAX_INTERVAL, check_interval
from headwater.node.new_feed import add_feed_from_address
from headwater.store.content import articles
from headwater.store.content import feeds as stored_feeds
from headwater.store.content.feed_overview import (
    FeedFilter,
    FeedOverview,
    find_similar_feeds,
    group_failures,
    list_feed_overviews,
)
from headwater.store.content.feeds import find_feed
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.web.api.api_types import (
    Address,
    Id,
    IdParameters,
    ListPage,
    ListParameters,
    RemovedView,
    ShortText,
    Tag,
    Time,
    decode_cursor,
    finite_or_none,
    format_item_id,
    paginate,
)
from headwater.web.api.endpoint import (
    ADMIN,
    ApiCall,
    EndpointGroup,
    RequestBody,
    ResponseBody,
    require_owner,
    require_visible_feed,
)
from headwater.web.shared.failure_advice import FAILURE_ADVICE
from headwater.web.shared.suggestions import LinkedSite, Suggestion, suggest_feeds

feed_group = EndpointGroup("feeds", "The feeds that the server polls; readers see those they subscribe to.")

Weight = Annotated[
    float, Meta(ge=0, le=1000, description="how much one of its items counts for the scheduler; by default 1")
]
Interval = Annotated[
    float,
    Meta(
        gt=0,
        le=MAX_INTERVAL,
        description="seconds: the longest pause between two refreshes; null: the scheduler decides",
    ),
]
Tags = Annotated[list[Tag], Meta(max_length=20)]


class FeedView(ResponseBody, frozen=True):
    """A feed."""

    id: int
    url: str
    title: str | None
    name: str | None
    link: str | None
    tags: list[str]
    weight: float
    interval: float | None
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


def view_feed(row: FeedOverview) -> FeedView:
    return FeedView.from_row(
        row.feed,
        items=row.items,
        window=row.window,
        last_refresh=row.last_refresh,
        last_change=row.last_change,
        next_refresh=finite_or_none(row.next_refresh),
        failures=row.failures,
        last_error=row.last_error,
    )


def _reader_id(call: ApiCall) -> int | None:
    """Return the reader who sees their own feeds and tags only; None for owners."""
    return None if call.user.is_owner else call.user.id


class FeedListParameters(ListParameters, frozen=True):
    tag: Tag | None = None
    search: Annotated[ShortText, Meta(description="part of a title, name or address")] | None = None
    state: Literal["failing", "gone", "paused", "new"] | None = None


@feed_group.get("/feeds")
async def list_feeds(call: ApiCall, parameters: FeedListParameters) -> ListPage[FeedView]:
    """List feeds by id."""
    after = decode_cursor(parameters.cursor, int)
    which = FeedFilter(parameters.tag, parameters.search, parameters.state, subscriber=_reader_id(call))
    rows = await call.store.read(list_feed_overviews, which, after=after[0] if after else 0, limit=parameters.limit + 1)
    return paginate(rows, parameters.limit, view_feed, lambda row: (row.feed.id,))


class FeedRequest(RequestBody, frozen=True):
    url: Annotated[Address, Meta(description="the address of a feed, or of a page that offers one")]
    tags: Tags = field(default_factory=list)
    name: ShortText | None = None
    weight: Weight | None = None
    choose: Annotated[int, Meta(ge=1, le=100, description="which feed, if a page offers several")] = 1


class OfferedFeed(ResponseBody, frozen=True):
    """A feed that a page offers."""

    url: str
    title: str | None
    type: str | None


class AddedFeedView(ResponseBody, frozen=True):
    """The feed, whether it is new on this server, and the other feeds that the address offers."""

    feed: FeedView
    created: bool
    others: list[OfferedFeed]


@feed_group.post("/feeds", status=201)
async def add_feed(call: ApiCall, body: FeedRequest) -> AddedFeedView:
    """Find the feed at an address, add it and subscribe to it.

    Only owners can set a name or a weight.
    """
    if body.name is not None or body.weight is not None:
        require_owner(call, "can set the name or the weight of a feed")
    await call.site.reader_quota.check_additions(call.user, [body.url])

    def choose(address: str, found: object) -> object:
        offers = list(found)  # type: ignore[call-overload]
        if body.choose > len(offers):
            raise InputError(f"The page offers {len(offers)} feeds: `choose` must be 1 to {len(offers)}.", "choose")
        return offers[body.choose - 1]

    done = await add_feed_from_address(
        call.store,
        call.aggregator.fetcher,
        body.url,
        now=call.now,
        choose=choose,  # type: ignore[arg-type]
        name=body.name,
        tags=body.tags,
        weight=1.0 if body.weight is None else body.weight,
        subscriber=call.user.id,
        allowed=call.site.reader_quota.limit_for(call.user),
    )
    others = [OfferedFeed.from_row(one) for one in done.others]
    return AddedFeedView(feed=await find_visible_feed(call, done.feed.id), created=done.created, others=others)


class AddressRequest(RequestBody, frozen=True):
    url: Address


@feed_group.post("/feeds/discover")
async def discover_feeds(call: ApiCall, body: AddressRequest) -> ListPage[OfferedFeed]:
    """List the feeds that an address offers, without adding any."""
    found = await discover_candidates(call.aggregator.fetcher, body.url)
    return ListPage(items=[OfferedFeed.from_row(one) for one in found[:100]], next=None)


async def find_visible_feed(call: ApiCall, feed_id: int) -> FeedView:
    await require_visible_feed(call, feed_id)
    mine = FeedFilter(subscriber=_reader_id(call))
    (row,) = await call.store.read(list_feed_overviews, mine, after=feed_id - 1, limit=1)
    return view_feed(row)


@feed_group.get("/feeds/{id}")
async def show_feed(call: ApiCall, parameters: IdParameters) -> FeedView:
    """Show one feed."""
    return await find_visible_feed(call, parameters.id)


class FeedChange(RequestBody, frozen=True):
    """Fields that are left out keep their values.

    A title of null restores the publisher's, an interval of null leaves the pace to the scheduler.
    """

    title: ShortText | UnsetType | None = UNSET
    name: ShortText | UnsetType | None = UNSET
    weight: Weight | UnsetType = UNSET
    interval: Interval | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    url: Annotated[Address, Meta(description="the new address of a feed that has moved")] | UnsetType = UNSET


@feed_group.patch("/feeds/{id}", ADMIN)
async def change_feed(call: ApiCall, parameters: IdParameters, body: FeedChange) -> FeedView:
    """Change a feed's title, name, weight, interval, tags or address for everybody, or pause it."""
    named = ("title", "name", "weight", "interval", "paused", "tags", "url")
    changes = {name: getattr(body, name) for name in named if getattr(body, name) is not UNSET}
    if "tags" in changes:
        changes["tags"] = tuple(dict.fromkeys(changes["tags"]))
    if "url" in changes and not changes["url"].lower().startswith(("http://", "https://")):
        raise InputError("The address must begin with https:// or http://.", "url")
    if changes.get("interval") is not None:
        check_interval(changes["interval"], call.site.settings.least_interval)
    if changes:
        await call.store.write(stored_feeds.change_feed, parameters.id, **changes)
    return await find_visible_feed(call, parameters.id)


class RemovalParameters(IdParameters, frozen=True):
    cascade: Annotated[bool, Meta(description="remove the query feeds that name it too")] = False


@feed_group.delete("/feeds/{id}", ADMIN)
async def remove_feed(call: ApiCall, parameters: RemovalParameters) -> RemovedView:
    """Remove a feed and its items for everybody. A feed that queries name is removed with `cascade` only."""
    undo = await call.store.write(move_feed_to_trash, parameters.id, by=call.remover, cascade=parameters.cascade)
    return RemovedView(undo=undo)


class ArticleWish(RequestBody, frozen=True):
    wanted: bool


@feed_group.put("/feeds/{id}/articles", ADMIN)
async def want_articles(call: ApiCall, parameters: IdParameters, body: ArticleWish) -> None:
    """Turn fetching the full articles of a feed on or off."""
    feed = await call.store.read(find_feed, parameters.id)
    await call.store.write(articles.want_articles, "feed", feed.id, body.wanted)


class MergedFeedsView(ResponseBody, frozen=True):
    moved: Annotated[int, Meta(description="the number of items moved to this feed")]
    feed: FeedView


class MergeRequest(RequestBody, frozen=True):
    other: Annotated[Id, Meta(description="the feed to remove; its items and tags move to this one")]


@feed_group.post("/feeds/{id}/merge", ADMIN)
async def merge_feeds(call: ApiCall, parameters: IdParameters, body: MergeRequest) -> MergedFeedsView:
    """Merge another feed into this one: its items move here, and it is removed. This cannot be undone."""
    moved = await call.store.write(stored_feeds.merge_feeds, parameters.id, body.other)
    return MergedFeedsView(moved=moved, feed=await find_visible_feed(call, parameters.id))


class SimilarFeed(ResponseBody, frozen=True):
    id: int
    url: str
    title: str | None


@feed_group.get("/feeds/{id}/alike", ADMIN)
async def list_alike_feeds(call: ApiCall, parameters: IdParameters) -> ListPage[SimilarFeed]:
    """List feeds that may be duplicates: those with the same title or the same web page."""
    found = await call.store.read(find_similar_feeds, parameters.id, 100)
    return ListPage(items=[SimilarFeed.from_row(feed) for feed in found], next=None)


class FailureGroupView(ResponseBody, frozen=True):
    """Feeds that fail for the same cause: their number, since when, some of them, and advice."""

    ending: str
    cause: str
    helps: str
    feeds: int
    since: float | None
    some: list[FeedView]


@feed_group.get("/feeds/troubles", ADMIN)
async def list_troubles(call: ApiCall) -> ListPage[FailureGroupView]:
    """List the causes why feeds fail, the most frequent first."""
    found = await call.store.read(group_failures)
    other = ("Another cause", "The feed's page has the details.")
    views = [
        FailureGroupView(
            ending=one.ending.value,
            cause=FAILURE_ADVICE.get(one.ending, other)[0],
            helps=FAILURE_ADVICE.get(one.ending, other)[1],
            feeds=one.feeds,
            since=one.since,
            some=[view_feed(row) for row in one.examples],
        )
        for one in found
    ]
    return ListPage(items=views, next=None)


# suggestions

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
    hot: list[SuggestedFeed]
    growing: list[SuggestedFeed]


def _view_suggestion(one: Suggestion) -> SuggestedFeed:
    return SuggestedFeed.from_row(one, feed=SimilarFeed.from_row(one.feed))


@discovery_group.get("/discover")
async def show_discoveries(call: ApiCall) -> DiscoveriesView:
    """List suggested feeds, what people here read and star most, sites that your items link to, and rising topics."""
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
        hot=[_view_suggestion(one) for one in found.hot],
        growing=[_view_suggestion(one) for one in found.growing],
    )
