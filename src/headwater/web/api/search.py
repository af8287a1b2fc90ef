"""Search: words in what a person reads, or the query language over the stored past, as in the search box."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.errors import InputError
from headwater.web.api.endpoint import Answer, Asked, Call, Noun
from headwater.web.api.items import ItemView, stream_of, view
from headwater.web.api.values import Cursor, Id, Limit, Line, Tag, cursor, place
from headwater.web.pages.searching import search

noun = Noun("search", "Words in what you read, or a condition of the query language.")

Said = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        pattern=r"^[^\u0000]*$",
        description='words, "a phrase", -without, begin*; or a condition like TITLE CONTAINS "ice"',
    ),
]


class SearchAsked(Asked, frozen=True):
    q: Said
    limit: Limit = 50
    cursor: Cursor | None = None
    feed: Annotated[Id, Meta(description="only this feed; then `q` is words")] | None = None
    query: Annotated[Line, Meta(description="only this query feed; then `q` is words")] | None = None
    tag: Annotated[Tag, Meta(description="only this tag; then `q` is words")] | None = None


class FoundItems(Answer, frozen=True):
    """A page of what was found, the latest arrival first; `waiting` items were not searched yet.

    Where `q` was read as a query, `read_as` is its text, and it kept `kept` of `looked_at` items of the last 30 days.
    """

    items: list[ItemView]
    next: str | None
    waiting: int = 0
    read_as: str | None = None
    kept: int = 0
    looked_at: int = 0


@noun.get("/search")
async def search_items(call: Call, asked: SearchAsked) -> FoundItems:
    """Find items by their words, or by a condition of the query language."""
    after = place(asked.cursor, int)
    before = after[0] if after else None
    if asked.feed is None and asked.query is None and asked.tag is None:
        found = await search(call.store, call.user.id, asked.q, call.now, before_id=before, limit=asked.limit)
        if found.said:
            raise InputError(found.said)
        return FoundItems(
            items=[view(one) for one in found.readings[: asked.limit]],
            next=None if found.next_id is None else cursor(found.next_id),
            waiting=found.waiting,
            read_as=found.query,
            kept=found.kept,
            looked_at=found.looked_at,
        )
    which = await stream_of(call, asked.feed, asked.query, asked.tag)
    page, items = await call.store.reading.search(call.user.id, asked.q, which, limit=asked.limit, before_id=before)
    more = cursor(page.items[-1].id) if page.more and page.items else None
    return FoundItems(items=[view(one) for one in items], next=more, waiting=page.waiting)
