"""Endpoints of items as one reader sees them: streams, single items, marks, stars and search."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from headwater.errors import InputError, NotFound
from headwater.model import Enclosure, Episode, Person
from headwater.store.queries.hits import find_showing_queries
from headwater.store.queries.query_access import list_readable_queries
from headwater.store.readers import marks, unread_counts
from headwater.store.readers.marks import mark_stream_read, undo_mark_read
from headwater.store.readers.reader_items import ReaderItem, find_reader_items, list_reader_items, search_reader_items
from headwater.store.readers.stream_positions import Stream, StreamQuery
from headwater.web.api.api_types import (
    Cursor,
    Id,
    ItemId,
    Limit,
    ListPage,
    Moment,
    ShortText,
    Tag,
    Time,
    decode_cursor,
    encode_cursor,
    format_item_id,
    parse_item_id,
)
from headwater.web.api.endpoint import ApiCall, EndpointGroup, Parameters, RequestBody, ResponseBody
from headwater.web.api.query_endpoints import find_visible_query
from headwater.web.shared.search_box import run_search
from headwater.web.shared.story_view import load_story

item_group = EndpointGroup(
    "items", "The items of your subscriptions: streams, unread counts, marks and stars. Each user has their own."
)


class ItemView(ResponseBody, frozen=True):
    """An item in a list. An item in a query feed has an id of its own there."""

    id: ItemId
    feed: int
    query: int | None
    title: str | None
    link: str | None
    published: Time
    arrived: Time
    updated: float | None
    authors: list[str]
    categories: list[str]
    language: str | None
    summary: str | None
    image: Annotated[str | None, Meta(description="the address of the lead picture")]
    read: bool
    starred: bool


class StoryItemView(ResponseBody, frozen=True):
    """Another item of the story."""

    id: ItemId
    feed: int
    title: str | None
    link: str | None
    published: Time


class ItemStoryView(ResponseBody, frozen=True):
    """The story of an item: what it joined, how alike they are, and the other items that you read."""

    id: ItemId
    joined: Annotated[ItemId | None, Meta(description="the item it joined; null if it began the story for you")]
    score: float | None
    words: Annotated[list[str], Meta(description="the words that both share, heaviest first")]
    publishers: int
    items: list[StoryItemView]


class FullItemView(ItemView, frozen=True):
    """An item with its content as safe HTML, and its enclosures."""

    content: str | None
    enclosures: list[Enclosure]
    people: Annotated[list[Person], Meta(description="the authors with their addresses, if any is known")]
    episode: Episode | None
    queries: Annotated[list[str], Meta(description="the query feeds that show it, as far as you see them")]
    story: ItemStoryView | None


def view_item(one: ReaderItem) -> ItemView:
    return ItemView(**_item_fields(one))


def _item_fields(one: ReaderItem) -> dict[str, Any]:
    item = one.item
    return {
        "id": format_item_id(one.id),
        "feed": item.feed_id,
        "query": one.query_id,
        "title": item.title,
        "link": item.link,
        "published": item.published,
        "arrived": one.arrived or item.first_seen,
        "updated": item.updated,
        "authors": list(item.authors),
        "categories": list(item.categories),
        "language": item.language,
        "summary": item.summary,
        "image": item.image,
        "read": one.read,
        "starred": one.starred,
    }


class StreamParameters(Parameters, frozen=True):
    """A stream: of a feed, a query feed, a tag, or of all subscriptions."""

    limit: Limit = 100
    cursor: Cursor | None = None
    feed: Id | None = None
    query: Annotated[ShortText, Meta(description="the name of a query feed")] | None = None
    tag: Tag | None = None
    unread: bool | None = None
    starred: bool = False
    since: Moment | None = None
    until: Moment | None = None
    oldest_first: bool = False


async def find_stream_named(call: ApiCall, feed: int | None, query: str | None, tag: str | None) -> Stream:
    if sum(one is not None for one in (feed, query, tag)) > 1:
        raise InputError("Only one of feed, query and tag is allowed. Leave out the others.")
    if query is not None:
        return Stream(query=(await find_visible_query(call, query)).id)
    return Stream(feed=feed, tag=tag)


@item_group.get("/items")
async def list_items(call: ApiCall, parameters: StreamParameters) -> ListPage[ItemView]:
    """List the items of a stream, the newest first."""
    which = await find_stream_named(call, parameters.feed, parameters.query, parameters.tag)
    before = decode_cursor(parameters.cursor, float, int)
    found = await call.store.read(
        list_reader_items,
        call.user.id,
        which,
        StreamQuery(
            unread=parameters.unread,
            starred=parameters.starred,
            since=parameters.since,
            until=parameters.until,
            before=(before[0], before[1]) if before else None,
            limit=parameters.limit,
            oldest_first=parameters.oldest_first,
        ),
    )
    return ListPage(
        items=[view_item(one) for one in found.items], next=encode_cursor(*found.next) if found.next else None
    )


class UnreadCountView(ResponseBody, frozen=True):
    count: int
    newest: Time


class UnreadCountsView(ResponseBody, frozen=True):
    """Unread items of feeds and query feeds by id and of tags by name, without zeros."""

    total: int
    starred: int
    feeds: dict[str, UnreadCountView]
    queries: dict[str, UnreadCountView]
    tags: dict[str, UnreadCountView]


@item_group.get("/items/counts")
async def count_unread(call: ApiCall) -> UnreadCountsView:
    """Count unread items by feed, query feed and tag."""
    counts = await call.store.read(unread_counts.count_unread, call.user.id)

    def by(found: object) -> dict[str, UnreadCountView]:
        return {str(key): UnreadCountView(count=one.count, newest=one.newest) for key, one in found.items()}  # type: ignore[attr-defined]

    return UnreadCountsView(
        total=counts.total,
        starred=counts.starred,
        feeds=by(counts.feeds),
        queries=by(counts.queries),
        tags=by(counts.tags),
    )


class ItemParameters(Parameters, frozen=True):
    id: ItemId


async def _find_reader_item(call: ApiCall, id: str) -> ReaderItem:
    found = await call.store.read(find_reader_items, call.user.id, [parse_item_id(id)])
    if not found:
        raise NotFound(f"There is no item {id} in your subscriptions.")
    return found[0]


@item_group.get("/items/{id}")
async def show_item(call: ApiCall, parameters: ItemParameters) -> FullItemView:
    """Show one item with its content, and the query feeds that show it."""
    one = await _find_reader_item(call, parameters.id)
    item = one.item
    emitted = await call.store.read(find_showing_queries, [item.id] if item.id is not None else [])
    shown = emitted[item.id].by if item.id in emitted else set()
    if shown:
        shown &= {query.name for query in await call.store.read(list_readable_queries, call.user, limit=100_000)}
    return FullItemView(
        **_item_fields(one),
        content=item.content,
        enclosures=list(item.enclosures),
        people=list(item.people),
        episode=item.episode,
        queries=sorted(shown),
        story=await _view_story(call, item.id),
    )


async def _view_story(call: ApiCall, item_id: int | None) -> ItemStoryView | None:
    feeds = await call.site.reader_feeds.load_feeds(call.user.id)
    story = None if item_id is None else await load_story(call.store, feeds, item_id)
    if story is None:
        return None
    mine, seen = story.mine.entry, story.mine.reason is not None
    return ItemStoryView(
        id=format_item_id(story.id),
        joined=format_item_id(mine.joined_id) if seen and mine.joined_id is not None else None,
        score=mine.score if seen else None,
        words=list(mine.words) if seen else [],
        publishers=story.publishers,
        items=[
            StoryItemView(
                id=format_item_id(one.entry.item_id),
                feed=one.entry.feed_id,
                title=one.entry.title,
                link=one.entry.link,
                published=one.entry.published,
            )
            for one in story.others
        ],
    )


class MarkRequest(RequestBody, frozen=True):
    """Fields that are left out keep their values."""

    read: bool | UnsetType = UNSET
    starred: bool | UnsetType = UNSET


@item_group.patch("/items/{id}")
async def mark_item(call: ApiCall, parameters: ItemParameters, body: MarkRequest) -> ItemView:
    """Mark one item read or unread, star or unstar it."""
    await _find_reader_item(call, parameters.id)
    await _save_marks(call, [parameters.id], body.read, body.starred)
    return view_item(await _find_reader_item(call, parameters.id))


class MarkManyRequest(RequestBody, frozen=True):
    ids: Annotated[list[ItemId], Meta(max_length=1000)]
    read: bool | UnsetType = UNSET
    starred: bool | UnsetType = UNSET


class MarkedItemsView(ResponseBody, frozen=True):
    marked: Annotated[int, Meta(description="the number of your items among them; others are ignored")]


@item_group.post("/items/marks")
async def mark_items(call: ApiCall, body: MarkManyRequest) -> MarkedItemsView:
    """Mark or star up to a thousand items at once."""
    return MarkedItemsView(marked=await _save_marks(call, body.ids, body.read, body.starred))


async def _save_marks(call: ApiCall, ids: list[str], read: bool | UnsetType, starred: bool | UnsetType) -> int:
    if read is UNSET and starred is UNSET:
        raise InputError("Missing fields: set read, starred, or both.", "read")
    return await call.store.write(
        marks.mark_items,
        call.user.id,
        [parse_item_id(id) for id in ids],
        call.now,
        read=None if isinstance(read, UnsetType) else read,
        starred=None if isinstance(starred, UnsetType) else starred,
    )


class MarkAllRequest(RequestBody, frozen=True):
    feed: Id | None = None
    query: ShortText | None = None
    tag: Tag | None = None
    up_to: Annotated[ItemId, Meta(description="only items up to this one")] | None = None
    until: Annotated[Moment, Meta(description="only items that arrived before")] | None = None


class MarkedStreamView(ResponseBody, frozen=True):
    """The number of items that were unread, and the id for POST /items/undo."""

    count: int
    undo: int | None


@item_group.post("/items/read-all")
async def mark_all_read(call: ApiCall, body: MarkAllRequest) -> MarkedStreamView:
    """Mark a whole stream as read."""
    which = await find_stream_named(call, body.feed, body.query, body.tag)
    done = await call.store.write(
        mark_stream_read,
        call.user.id,
        which,
        now=call.now,
        up_to=None if body.up_to is None else parse_item_id(body.up_to),
        until=body.until,
    )
    return MarkedStreamView(count=done.count, undo=done.undo)


class UndoMarkRequest(RequestBody, frozen=True):
    undo: Id


@item_group.post("/items/undo")
async def undo_read_all(call: ApiCall, body: UndoMarkRequest) -> None:
    """Undo a “mark all read”."""
    await call.store.write(undo_mark_read, call.user.id, body.undo, call.now)


search_group = EndpointGroup(
    "search", "Search in your subscriptions, by words or by a condition of the query language."
)

SearchText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        pattern=r"^[^\u0000]*$",
        description='words, "a phrase", -without, begin*; or a condition such as TITLE CONTAINS "ice"',
    ),
]


class SearchParameters(Parameters, frozen=True):
    q: SearchText
    limit: Limit = 50
    cursor: Cursor | None = None
    feed: Annotated[Id, Meta(description="only this feed; then `q` is words")] | None = None
    query: Annotated[ShortText, Meta(description="only this query feed; then `q` is words")] | None = None
    tag: Annotated[Tag, Meta(description="only this tag; then `q` is words")] | None = None


class SearchResultView(ResponseBody, frozen=True):
    """A page of the items found, the latest arrival first; `waiting` items are not indexed yet.

    If `q` was run as a query, `read_as` is its text, and it kept `kept` of `looked_at` items of the last 30 days. With
    `next`, these are the items of this page, down to the last one that was evaluated.
    """

    items: list[ItemView]
    next: str | None
    waiting: int = 0
    read_as: str | None = None
    kept: int = 0
    looked_at: int = 0


@search_group.get("/search")
async def search_items(call: ApiCall, parameters: SearchParameters) -> SearchResultView:
    """Find items by words or by a condition of the query language."""
    after = decode_cursor(parameters.cursor, int)
    before = after[0] if after else None
    if parameters.feed is None and parameters.query is None and parameters.tag is None:
        found = await run_search(
            call.store, call.user.id, parameters.q, call.now, before_id=before, limit=parameters.limit
        )
        if found.refusal:
            raise InputError(found.refusal)
        return SearchResultView(
            items=[view_item(one) for one in found.readings[: parameters.limit]],
            next=None if found.next_id is None else encode_cursor(found.next_id),
            waiting=found.waiting,
            read_as=found.query,
            kept=found.kept,
            looked_at=found.looked_at,
        )
    which = await find_stream_named(call, parameters.feed, parameters.query, parameters.tag)
    page, items = await search_reader_items(
        call.store, call.user.id, parameters.q, which, limit=parameters.limit, before_id=before
    )
    more = encode_cursor(page.items[-1].id) if page.more and page.items else None
    return SearchResultView(items=[view_item(one) for one in items], next=more, waiting=page.waiting)
