"""Search: words in items, or the query language over the stored past."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.web.api.endpoint import Answer, Asked, Call, Noun
from headwater.web.api.items import ItemView, stream_of, view
from headwater.web.api.values import Cursor, Id, Limit, Line, Tag, cursor, place

noun = Noun("search", "Words in what you read. The query language is tried out by /queries/preview.")


class SearchAsked(Asked, frozen=True):
    q: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1000,
            pattern=r"^[^\u0000]*$",
            description=('all these words; "a phrase", -without, begin*'),
        ),
    ]
    limit: Limit = 50
    cursor: Cursor | None = None
    feed: Id | None = None
    query: Line | None = None
    tag: Tag | None = None


class FoundItems(Answer, frozen=True):
    """A page of what was found, the latest arrival first; `waiting` items were not searched yet."""

    items: list[ItemView]
    next: str | None
    waiting: int


@noun.get("/search")
async def search_items(call: Call, asked: SearchAsked) -> FoundItems:
    """Find items by their words."""
    which = await stream_of(call, asked.feed, asked.query, asked.tag)
    before = place(asked.cursor, int)
    found, items = await call.store.reading.search(
        call.user.id, asked.q, which, limit=asked.limit, before_id=before[0] if before else None
    )
    more = cursor(found.items[-1].id) if found.more and found.items else None
    return FoundItems(items=[view(one) for one in items], next=more, waiting=found.waiting)
