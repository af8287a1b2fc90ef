"""Endpoints of one reader's subscriptions and tags, with import and export as OPML."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from headwater.errors import NotFound
from headwater.formats.write import write_opml
from headwater.publish.published_documents import list_outlines
from headwater.store.maintenance.trash import (
    move_query_subscription_to_trash,
    move_subscription_to_trash,
    move_tag_to_trash,
)
from headwater.store.readers.subscriptions import (
    Subscription,
    change_subscription_title,
    change_tags,
    count_subscription_tags,
    find_subscription,
    list_subscription_page,
    rename_subscription_tag,
)
from headwater.web.api.api_types import (
    Cursor,
    IdParameters,
    Limit,
    ListPage,
    RemovedView,
    ShortText,
    Tag,
    Time,
    decode_cursor,
    paginate,
)
from headwater.web.api.endpoint import ApiCall, EndpointGroup, Parameters, RawBody, RequestBody, ResponseBody
from headwater.web.api.feed_endpoints import Tags
from headwater.web.api.server_endpoints import BackgroundJobView
from headwater.web.api.server_endpoints import view_job as view_job
from headwater.web.shared.opml_import import start_import
from headwater.web.shared.reader_quota import join_feed

subscription_group = EndpointGroup(
    "subscriptions", "Your subscriptions, with your own titles and tags; import and export as OPML."
)


class SubscriptionView(ResponseBody, frozen=True):
    """Your subscription to a feed or, if `query` is set, to a query feed."""

    feed: int | None
    query: int | None
    title: str
    url: str
    link: str | None
    tags: list[str]
    added: Time


def view_subscription(one: Subscription) -> SubscriptionView:
    return SubscriptionView.from_row(one, feed=one.feed_id, query=one.query_id)


class SubscriptionListParameters(Parameters, frozen=True):
    limit: Limit = 100
    cursor: Cursor | None = None
    tag: Tag | None = None


@subscription_group.get("/subscriptions")
async def list_subscriptions(call: ApiCall, parameters: SubscriptionListParameters) -> ListPage[SubscriptionView]:
    """List your subscriptions: feeds, then query feeds."""
    after = decode_cursor(parameters.cursor, int, int)
    rows = await call.store.read(
        list_subscription_page, call.user.id, after=after, limit=parameters.limit + 1, tag=parameters.tag
    )
    return paginate(rows, parameters.limit, view_subscription, _subscription_key)


def _subscription_key(one: Subscription) -> tuple[int, int]:
    return (0, one.feed_id) if one.feed_id is not None else (1, one.query_id or 0)


async def _find_subscription(
    call: ApiCall, *, feed_id: int | None = None, query_id: int | None = None
) -> SubscriptionView:
    found = await call.store.read(find_subscription, call.user.id, feed_id=feed_id, query_id=query_id)
    if found is None:
        kind, id = ("feed", feed_id) if feed_id is not None else ("query feed", query_id)
        raise NotFound(f"You are not subscribed to {kind} {id}.")
    return view_subscription(found)


class SubscriptionChange(RequestBody, frozen=True):
    """Fields that are left out keep their values; a title of null restores the feed's; tags replace the old ones."""

    title: ShortText | UnsetType | None = UNSET
    tags: Tags | UnsetType = UNSET


async def _save_change(
    call: ApiCall, body: SubscriptionChange, *, feed_id: int | None = None, query_id: int | None = None
) -> SubscriptionView:
    before = await _find_subscription(call, feed_id=feed_id, query_id=query_id)
    if not isinstance(body.title, UnsetType):
        await call.store.write(change_subscription_title, call.user.id, body.title, feed_id=feed_id, query_id=query_id)
    if not isinstance(body.tags, UnsetType):
        add, remove = set(body.tags) - set(before.tags), set(before.tags) - set(body.tags)
        await call.store.write(change_tags, call.user.id, feed_id=feed_id, query_id=query_id, add=add, remove=remove)
    return await _find_subscription(call, feed_id=feed_id, query_id=query_id)


@subscription_group.get("/subscriptions/feeds/{id}")
async def show_subscription(call: ApiCall, parameters: IdParameters) -> SubscriptionView:
    """Show your subscription to a feed."""
    return await _find_subscription(call, feed_id=parameters.id)


class SubscribeRequest(RequestBody, frozen=True):
    tags: Tags = field(default_factory=list)


@subscription_group.put("/subscriptions/feeds/{id}")
async def subscribe(call: ApiCall, parameters: IdParameters, body: SubscribeRequest) -> SubscriptionView:
    """Subscribe to a feed of this server; readers only to one that several people read."""
    await join_feed(call.store, call.user, parameters.id, call.now, body.tags)
    return await _find_subscription(call, feed_id=parameters.id)


@subscription_group.patch("/subscriptions/feeds/{id}")
async def change_subscription(call: ApiCall, parameters: IdParameters, body: SubscriptionChange) -> SubscriptionView:
    """Change your title and tags of a feed."""
    return await _save_change(call, body, feed_id=parameters.id)


@subscription_group.delete("/subscriptions/feeds/{id}")
async def unsubscribe(call: ApiCall, parameters: IdParameters) -> RemovedView:
    """Unsubscribe from a feed; your starred items stay, and so does the feed for others."""
    await _find_subscription(call, feed_id=parameters.id)
    return RemovedView(
        undo=await call.store.write(move_subscription_to_trash, call.user.id, parameters.id, by=call.remover)
    )


@subscription_group.patch("/subscriptions/queries/{id}")
async def change_query_subscription(
    call: ApiCall, parameters: IdParameters, body: SubscriptionChange
) -> SubscriptionView:
    """Change your title and tags of a query feed."""
    return await _save_change(call, body, query_id=parameters.id)


@subscription_group.delete("/subscriptions/queries/{id}")
async def unsubscribe_query(call: ApiCall, parameters: IdParameters) -> RemovedView:
    """Unsubscribe from a query feed; the query feed itself stays."""
    await _find_subscription(call, query_id=parameters.id)
    return RemovedView(
        undo=await call.store.write(move_query_subscription_to_trash, call.user.id, parameters.id, by=call.remover)
    )


# tags


class TagView(ResponseBody, frozen=True):
    name: str
    subscriptions: int


@subscription_group.get("/tags")
async def list_tags(call: ApiCall) -> ListPage[TagView]:
    """List your tags with the number of subscriptions of each."""
    counts = await call.store.read(count_subscription_tags, call.user.id)
    return ListPage(items=[TagView(name=name, subscriptions=counts[name]) for name in sorted(counts)], next=None)


class TagParameters(Parameters, frozen=True):
    name: Tag


class TagRenameRequest(RequestBody, frozen=True):
    name: Tag


@subscription_group.patch("/tags/{name}")
async def rename_tag(call: ApiCall, parameters: TagParameters, body: TagRenameRequest) -> None:
    """Rename one of your tags."""
    await call.store.write(rename_subscription_tag, call.user.id, parameters.name, body.name)


@subscription_group.delete("/tags/{name}")
async def remove_tag(call: ApiCall, parameters: TagParameters) -> RemovedView:
    """Remove a tag from all your subscriptions."""
    return RemovedView(undo=await call.store.write(move_tag_to_trash, call.user.id, parameters.name, by=call.remover))


# OPML


@subscription_group.get("/opml")
async def export_opml(call: ApiCall) -> RawBody:
    """Export your subscriptions as OPML, with your query feeds."""
    return RawBody(write_opml(await list_outlines(call.store, call.user, call.site.base_url, call.now)))


class ImportParameters(Parameters, frozen=True):
    tag: Annotated[Tag, Meta(description="a tag for all imported feeds")] | None = None


@subscription_group.post("/opml", status=202)
async def import_opml(call: ApiCall, parameters: ImportParameters, body: RawBody) -> BackgroundJobView:
    """Subscribe to all feeds of an OPML list, or of a list with one address per line; folders become tags.

    The import runs in the background; /jobs/{id} shows its progress and its result.
    """
    job = await start_import(call.site, body.body, call.user.id, (parameters.tag,) if parameters.tag else ())
    return view_job(job)
