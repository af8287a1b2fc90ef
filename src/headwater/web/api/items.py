"""Items as one person reads them: streams, one item, marks and stars."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from headwater.errors import InputError, NotFound
from headwater.model import Enclosure
from headwater.store.people import HIT, Reading, Stream
from headwater.web.api.endpoint import Answer, Asked, Call, Given, Noun
from headwater.web.api.queries import find_query
from headwater.web.api.values import (
    Cursor,
    Id,
    Limit,
    Line,
    Moment,
    Page,
    Tag,
    Time,
    cursor,
    place,
)

noun = Noun("items", "What you read: streams of items, what is unread, marks and stars. Each person has their own.")

# Text: places in query feeds are numbered beyond what JavaScript can count.
ItemId = Annotated[
    str, Meta(pattern="^q?[1-9][0-9]{0,14}$", description="an item; with a q, a place in a query feed: 12, q34")
]


def number(id: str) -> int:
    """The number that the store knows.

    >>> number("12"), number("q34") - number("q33")
    (12, 1)
    """
    return HIT + int(id[1:]) if id.startswith("q") else int(id)


def number_name(number: int) -> str:
    """
    >>> number_name(12), number_name(HIT + 34)
    ('12', 'q34')
    """
    return f"q{number - HIT}" if number > HIT else str(number)


class ItemView(Answer, frozen=True):
    """An item as a list shows it. The `id` of one that stands in a query feed names its place there."""

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
    read: bool
    starred: bool


class WholeItem(ItemView, frozen=True):
    """An item with its content, as safe HTML, and what is attached to it."""

    content: str | None
    enclosures: list[Enclosure]
    queries: Annotated[list[str], Meta(description="the query feeds that show it to you")]


def view(one: Reading) -> ItemView:
    return ItemView(**_fields(one))


def _fields(one: Reading) -> dict[str, Any]:
    item = one.item
    return {
        "id": number_name(one.id),
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
        "read": one.read,
        "starred": one.starred,
    }


class StreamAsked(Asked, frozen=True):
    """Which stream: of a feed, of a query feed, of a tag, or of everything."""

    limit: Limit = 100
    cursor: Cursor | None = None
    feed: Id | None = None
    query: Annotated[Line, Meta(description="the name of a query feed")] | None = None
    tag: Tag | None = None
    unread: bool | None = None
    starred: bool = False
    since: Moment | None = None
    until: Moment | None = None
    oldest_first: bool = False


async def stream_of(call: Call, feed: int | None, query: str | None, tag: str | None) -> Stream:
    if sum(one is not None for one in (feed, query, tag)) > 1:
        raise InputError("Give one of feed, query and tag, or none for everything.")
    if query is not None:
        return Stream(query=(await find_query(call, query)).id)
    return Stream(feed=feed, tag=tag)


@noun.get("/items")
async def list_items(call: Call, asked: StreamAsked) -> Page[ItemView]:
    """List the items of a stream, the newest first."""
    which = await stream_of(call, asked.feed, asked.query, asked.tag)
    before = place(asked.cursor, float, int)
    found = await call.store.reading.stream(
        call.user.id,
        which,
        unread=asked.unread,
        starred=asked.starred,
        since=asked.since,
        until=asked.until,
        before=(before[0], before[1]) if before else None,
        limit=asked.limit,
        oldest_first=asked.oldest_first,
    )
    return Page(items=[view(one) for one in found.items], next=cursor(*found.next) if found.next else None)


class UnreadCount(Answer, frozen=True):
    count: int
    newest: Time


class CountsView(Answer, frozen=True):
    """How much is unread; feeds and query feeds by number, tags by name, those without any left out."""

    total: int
    starred: int
    feeds: dict[str, UnreadCount]
    queries: dict[str, UnreadCount]
    tags: dict[str, UnreadCount]


@noun.get("/items/counts")
async def count_unread(call: Call) -> CountsView:
    """Say how much is unread."""
    counts = await call.store.reading.counts(call.user.id)

    def by(found: object) -> dict[str, UnreadCount]:
        return {str(key): UnreadCount(count=one.count, newest=one.newest) for key, one in found.items()}  # type: ignore[attr-defined]

    return CountsView(
        total=counts.total,
        starred=counts.starred,
        feeds=by(counts.feeds),
        queries=by(counts.queries),
        tags=by(counts.tags),
    )


class OneItem(Asked, frozen=True):
    id: ItemId


async def _reading(call: Call, id: str) -> Reading:
    found = await call.store.reading.items(call.user.id, [number(id)])
    if not found:
        raise NotFound(f"There is no item {id}, or it is not in anything you subscribe to.")
    return found[0]


@noun.get("/items/{id}")
async def show_item(call: Call, asked: OneItem) -> WholeItem:
    """Show one item with its content, and the query feeds that show it."""
    one = await _reading(call, asked.id)
    item = one.item
    emitted = await call.store.queries.emitted([item.id] if item.id is not None else [])
    shown = emitted[item.id].by if item.id in emitted else set()
    if shown and not call.user.is_owner:
        shown &= {query.name for query in await call.store.queries.some(subscriber=call.user.id, limit=10_000)}
    return WholeItem(
        **_fields(one),
        content=item.content,
        enclosures=list(item.enclosures),
        queries=sorted(shown),
    )


class Marks(Given, frozen=True):
    """What is left out stays as it is."""

    read: bool | UnsetType = UNSET
    starred: bool | UnsetType = UNSET


@noun.patch("/items/{id}")
async def mark_item(call: Call, asked: OneItem, given: Marks) -> ItemView:
    """Mark one item read or unread, star it or take the star away."""
    await _reading(call, asked.id)
    await _mark(call, [asked.id], given.read, given.starred)
    return view(await _reading(call, asked.id))


class ManyMarks(Given, frozen=True):
    ids: Annotated[list[ItemId], Meta(max_length=1000)]
    read: bool | UnsetType = UNSET
    starred: bool | UnsetType = UNSET


class MarkedMany(Answer, frozen=True):
    marked: Annotated[int, Meta(description="those that are yours; others are passed over")]


@noun.post("/items/marks")
async def mark_items(call: Call, given: ManyMarks) -> MarkedMany:
    """Mark or star up to a thousand items at once."""
    return MarkedMany(marked=await _mark(call, given.ids, given.read, given.starred))


async def _mark(call: Call, ids: list[str], read: bool | UnsetType, starred: bool | UnsetType) -> int:
    if read is UNSET and starred is UNSET:
        raise InputError("Say what is to be changed: read, starred, or both.", "read")
    return await call.store.reading.mark(
        call.user.id,
        [number(id) for id in ids],
        call.now,
        read=None if isinstance(read, UnsetType) else read,
        starred=None if isinstance(starred, UnsetType) else starred,
    )


class ReadAll(Given, frozen=True):
    feed: Id | None = None
    query: Line | None = None
    tag: Tag | None = None
    up_to: Annotated[ItemId, Meta(description="no item beyond this one")] | None = None
    until: Annotated[Moment, Meta(description="only what arrived before")] | None = None


class MarkedAll(Answer, frozen=True):
    """How many were unread, and the number by which it can be taken back."""

    count: int
    undo: int | None


@noun.post("/items/read-all")
async def mark_all_read(call: Call, given: ReadAll) -> MarkedAll:
    """Mark a whole stream as read."""
    which = await stream_of(call, given.feed, given.query, given.tag)
    done = await call.store.reading.mark_all_read(
        call.user.id, which, now=call.now, up_to=None if given.up_to is None else number(given.up_to), until=given.until
    )
    return MarkedAll(count=done.count, undo=done.undo)


class Undo(Given, frozen=True):
    undo: Id


@noun.post("/items/undo")
async def undo_read_all(call: Call, given: Undo) -> None:
    """Take a “read all” back."""
    await call.store.reading.undo(call.user.id, given.undo, call.now)
