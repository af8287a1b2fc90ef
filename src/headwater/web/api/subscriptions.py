"""Subscriptions: which feeds and query feeds one person reads, under which title and tags; lists as OPML."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from headwater.errors import NotFound
from headwater.formats.opml import Outline
from headwater.formats.write import write_opml
from headwater.store.people import Subscription
from headwater.web.api.endpoint import Answer, Asked, Call, Document, Given, Noun
from headwater.web.api.feeds import Tags
from headwater.web.api.jobs import JobView
from headwater.web.api.jobs import view as view_job
from headwater.web.api.values import Cursor, Limit, Line, One, Page, Removed, Tag, Time, page, place
from headwater.web.importing import start_import
from headwater.web.joining import join

noun = Noun("subscriptions", "What you subscribe to, with titles and tags of your own; import and export as OPML.")


class SubscriptionView(Answer, frozen=True):
    """A feed or, where `query` is set, a query feed, as you have it."""

    feed: int | None
    query: int | None
    title: str
    url: str
    link: str | None
    tags: list[str]
    added: Time


def view(one: Subscription) -> SubscriptionView:
    return SubscriptionView(
        feed=one.feed_id,
        query=one.query_id,
        title=one.title,
        url=one.url,
        link=one.link,
        tags=list(one.tags),
        added=one.added,
    )


class SubscriptionsAsked(Asked, frozen=True):
    limit: Limit = 100
    cursor: Cursor | None = None
    tag: Tag | None = None


@noun.get("/subscriptions")
async def list_subscriptions(call: Call, asked: SubscriptionsAsked) -> Page[SubscriptionView]:
    """List what you subscribe to: feeds, then query feeds."""
    after = place(asked.cursor, int, int)
    rows = await call.store.reading.subscriptions_part(call.user.id, after=after, limit=asked.limit + 1, tag=asked.tag)
    return page(rows, asked.limit, view, _key)


def _key(one: Subscription) -> tuple[int, int]:
    return (0, one.feed_id) if one.feed_id is not None else (1, one.query_id or 0)


async def _one(call: Call, *, feed_id: int | None = None, query_id: int | None = None) -> SubscriptionView:
    found = await call.store.reading.subscription(call.user.id, feed_id=feed_id, query_id=query_id)
    if found is None:
        raise NotFound("You do not subscribe to that.")
    return view(found)


class SubscriptionChange(Given, frozen=True):
    """What is left out stays as it is; a title of null shows the feed's own again. Tags replace the ones before."""

    title: Line | UnsetType | None = UNSET
    tags: Tags | UnsetType = UNSET


async def _change(
    call: Call, given: SubscriptionChange, *, feed_id: int | None = None, query_id: int | None = None
) -> SubscriptionView:
    before = await _one(call, feed_id=feed_id, query_id=query_id)
    reading = call.store.reading
    if not isinstance(given.title, UnsetType):
        await reading.retitle(call.user.id, given.title, feed_id=feed_id, query_id=query_id)
    if not isinstance(given.tags, UnsetType):
        add, remove = set(given.tags) - set(before.tags), set(before.tags) - set(given.tags)
        await reading.retag(call.user.id, feed_id=feed_id, query_id=query_id, add=add, remove=remove)
    return await _one(call, feed_id=feed_id, query_id=query_id)


@noun.get("/subscriptions/feeds/{id}")
async def show_subscription(call: Call, asked: One) -> SubscriptionView:
    """Show your subscription to a feed."""
    return await _one(call, feed_id=asked.id)


class Joining(Given, frozen=True):
    tags: Tags = field(default_factory=list)


@noun.put("/subscriptions/feeds/{id}")
async def subscribe(call: Call, asked: One, given: Joining) -> SubscriptionView:
    """Subscribe to a feed that is here already; readers to one that several people read."""
    await join(call.store, call.user, asked.id, call.now, given.tags)
    return await _one(call, feed_id=asked.id)


@noun.patch("/subscriptions/feeds/{id}")
async def change_subscription(call: Call, asked: One, given: SubscriptionChange) -> SubscriptionView:
    """Change the title and tags that a feed has for you."""
    return await _change(call, given, feed_id=asked.id)


@noun.delete("/subscriptions/feeds/{id}")
async def unsubscribe(call: Call, asked: One) -> Removed:
    """Subscribe to a feed no longer. What you starred stays; the feed itself stays for others."""
    await _one(call, feed_id=asked.id)
    return Removed(undo=await call.store.reading.unsubscribe(call.user.id, asked.id, by=call.remover))


@noun.patch("/subscriptions/queries/{id}")
async def change_query_subscription(call: Call, asked: One, given: SubscriptionChange) -> SubscriptionView:
    """Change the title and tags that a query feed has for you."""
    return await _change(call, given, query_id=asked.id)


@noun.delete("/subscriptions/queries/{id}")
async def unsubscribe_query(call: Call, asked: One) -> Removed:
    """Subscribe to a query feed no longer; the query feed itself stays."""
    await _one(call, query_id=asked.id)
    return Removed(undo=await call.store.reading.unsubscribe_query(call.user.id, asked.id, by=call.remover))


# tags


class TagView(Answer, frozen=True):
    name: str
    subscriptions: int


@noun.get("/tags")
async def list_tags(call: Call) -> Page[TagView]:
    """List your tags, and how many subscriptions have each."""
    counts = await call.store.reading.tags(call.user.id)
    return Page(items=[TagView(name=name, subscriptions=counts[name]) for name in sorted(counts)], next=None)


class OneTag(Asked, frozen=True):
    name: Tag


class TagName(Given, frozen=True):
    name: Tag


@noun.patch("/tags/{name}")
async def rename_tag(call: Call, asked: OneTag, given: TagName) -> None:
    """Give a tag of yours another name."""
    await call.store.reading.rename_tag(call.user.id, asked.name, given.name)


@noun.delete("/tags/{name}")
async def remove_tag(call: Call, asked: OneTag) -> Removed:
    """Take a tag off everything of yours."""
    return Removed(undo=await call.store.reading.remove_tag(call.user.id, asked.name, by=call.remover))


# lists


@noun.get("/opml")
async def export_opml(call: Call) -> Document:
    """Export what you subscribe to as OPML."""
    mine = await call.store.reading.subscriptions(call.user.id)
    base = call.frame.base
    feeds = [
        Outline(one.url if one.feed_id is not None else base + one.url, one.title, one.link, one.tags) for one in mine
    ]
    return Document(write_opml(feeds))


class ImportAsked(Asked, frozen=True):
    tag: Annotated[Tag, Meta(description="a tag for all of them")] | None = None


@noun.post("/opml", status=202)
async def import_opml(call: Call, asked: ImportAsked, given: Document) -> JobView:
    """Subscribe to all feeds of an OPML list, or of addresses line by line; folders become tags.

    The work goes on behind the answer; /jobs/{id} tells how far it is, and in the end what became of it.
    """
    job = await start_import(call.frame, given.body, call.user.id, (asked.tag,) if asked.tag else ())
    return view_job(job)
