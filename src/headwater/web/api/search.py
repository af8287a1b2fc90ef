"""Search: words in what a person reads, or the query language over the stored past, as in the search box."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.errors import InputError
from headwater.web.api.endpoint import ApiCall, EndpointGroup, Parameters, ResponseBody
from headwater.web.api.items import ItemView, find_stream_named, view_item
from headwater.web.api.values import Cursor, Id, Limit, ShortText, Tag, decode_cursor, encode_cursor
from headwater.web.pages.searching import run_search

search_group = EndpointGroup("search", "Words in what you read, or a condition of the query language.")

SearchText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        pattern=r"^[^\u0000]*$",
        description='words, "a phrase", -without, begin*; or a condition like TITLE CONTAINS "ice"',
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
    """A page of what was found, the latest arrival first; `waiting` items were not searched yet.

    Where `q` was read as a query, `read_as` is its text, and it kept `kept` of `looked_at` items of the last 30 days.
    """

    items: list[ItemView]
    next: str | None
    waiting: int = 0
    read_as: str | None = None
    kept: int = 0
    looked_at: int = 0


@search_group.get("/search")
async def search_items(call: ApiCall, asked: SearchParameters) -> SearchResultView:
    """Find items by their words, or by a condition of the query language."""
    after = decode_cursor(asked.cursor, int)
    before = after[0] if after else None
    if asked.feed is None and asked.query is None and asked.tag is None:
        found = await run_search(call.store, call.user.id, asked.q, call.now, before_id=before, limit=asked.limit)
        if found.said:
            raise InputError(found.said)
        return SearchResultView(
            items=[view_item(one) for one in found.readings[: asked.limit]],
            next=None if found.next_id is None else encode_cursor(found.next_id),
            waiting=found.waiting,
            read_as=found.query,
            kept=found.kept,
            looked_at=found.looked_at,
        )
    which = await find_stream_named(call, asked.feed, asked.query, asked.tag)
    page, items = await call.store.reading.search(call.user.id, asked.q, which, limit=asked.limit, before_id=before)
    more = encode_cursor(page.items[-1].id) if page.more and page.items else None
    return SearchResultView(items=[view_item(one) for one in items], next=more, waiting=page.waiting)
