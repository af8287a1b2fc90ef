"""Handles the Google Reader calls about subscriptions, labels and the account."""

from __future__ import annotations

import contextlib

from starlette.responses import Response

from headwater.errors import InputError, NotFound
from headwater.formats.opml import read_opml
from headwater.formats.write import write_opml
from headwater.publish.published_documents import list_outlines
from headwater.store.content.feeds import NewFeed
from headwater.store.maintenance.trash import (
    move_query_subscription_to_trash,
    move_subscription_to_trash,
    move_tag_to_trash,
)
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.queries.query_access import may_read_query_id
from headwater.store.readers.item_labels import count_item_labels, rename_label
from headwater.store.readers.stream_positions import Stream
from headwater.store.readers.subscriptions import (
    add_and_subscribe,
    change_subscription_title,
    change_tags,
    count_subscription_tags,
    find_subscribed_feed,
    list_subscriptions,
    subscribe_to_query_feed,
)
from headwater.web.greader import greader_json, stream_ids
from headwater.web.greader.greader_call import (
    GReaderCall,
    edit_token,
    in_thread_if_large,
    json_response,
    ok_response,
    text_response,
)
from headwater.web.site import Site

MAX_OPML_BYTES = 20 << 20  # bytes of OPML


class SubscriptionHandlers:
    """Handlers of subscription/…, tag/list, rename-tag, disable-tag, user-info and token."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.store

    async def show_token(self, call: GReaderCall) -> Response:
        return text_response(edit_token(call.secret))

    async def show_user_info(self, call: GReaderCall) -> Response:
        user = call.user
        return json_response(
            {
                "userId": str(user.id),
                "userName": user.name,
                "userProfileId": str(user.id),
                "userEmail": "",
                "isBloggerUser": False,
                "signupTimeSec": int(user.created),
                "isMultiLoginEnabled": False,
            }
        )

    async def list_subscriptions(self, call: GReaderCall) -> Response:
        """List subscriptions, without an ETag: Liferea does not fetch new items after a 304."""
        found = await self._store.read(list_subscriptions, call.user.id)

        def make() -> Response:
            return json_response(
                {"subscriptions": [greader_json.shape_subscription(one, self._site.base_url) for one in found]}
            )

        return await in_thread_if_large(make, len(found))

    async def list_tags(self, call: GReaderCall) -> Response:
        """List the tags of subscriptions (`folder`) and the labels of items (`tag`)."""
        folders = await self._store.read(count_subscription_tags, call.user.id)
        labels = await self._store.read(count_item_labels, call.user.id)
        return json_response({"tags": greader_json.shape_tags(folders, labels)})

    async def edit_subscription(self, call: GReaderCall) -> Response:
        """Subscribe to, unsubscribe from or edit (`ac`) the streams `s`.

        `t` sets their titles, in the same order; `a` adds labels to all of them and `r` removes labels.
        """
        action, given = call.given.first_value("ac"), call.given
        streams = given.list_values("s")
        if not streams:
            raise InputError("Missing field `s`: the stream to change.")
        add = [stream_ids.parse_label(each) for each in given.list_values("a") if stream_ids.parse_state(each) is None]
        remove = [
            stream_ids.parse_label(each) for each in given.list_values("r") if stream_ids.parse_state(each) is None
        ]
        titles = given.list_values("t")
        for place, stream in enumerate(streams):
            title = titles[place] if place < len(titles) else None
            requested = stream_ids.parse_stream(stream)
            if action == "subscribe":
                await self._subscribe(call, requested, title, add)
            elif action == "unsubscribe":
                await self._unsubscribe(call, await self._find_target(call, requested))
            elif action == "edit":
                await self._change_subscription(call, await self._find_target(call, requested), title, add, remove)
            else:
                raise InputError(f"`ac` must be subscribe, unsubscribe or edit, not “{(action or '')[:100]}”.")
        return ok_response()

    async def _subscribe(
        self, call: GReaderCall, requested: stream_ids.StreamRequest, title: str | None, add: list[str]
    ) -> None:
        if requested.which.query is not None:
            if not await self._store.read(may_read_query_id, call.user, requested.which.query):
                raise NotFound(f"There is no query feed {requested.which.query}.")
            await self._store.write(subscribe_to_query_feed, call.user.id, requested.which.query, self._site.clock())
            which = requested.which
        elif requested.url is not None:
            feed = (await self._site.add_feed(requested.url, call.user.id)).feed
            which = Stream(feed=feed.id)
        else:
            which = await self._find_target(call, requested)
        await self._change_subscription(call, which, title, add, [])

    async def _unsubscribe(self, call: GReaderCall, which: Stream) -> None:
        by = Remover(call.user.id, self._site.clock())  # clients cannot undo this, but the web pages can
        if which.query is not None:
            await self._store.write(move_query_subscription_to_trash, call.user.id, which.query, by=by)
        elif which.feed is not None:
            await self._store.write(move_subscription_to_trash, call.user.id, which.feed, by=by)

    async def _change_subscription(
        self, call: GReaderCall, which: Stream, title: str | None, add: list[str], remove: list[str]
    ) -> None:
        user = call.user.id
        if title is not None:
            await self._store.write(change_subscription_title, user, title, feed_id=which.feed, query_id=which.query)
        if add or remove:
            await self._store.write(change_tags, user, feed_id=which.feed, query_id=which.query, add=add, remove=remove)

    async def _find_target(self, call: GReaderCall, requested: stream_ids.StreamRequest) -> Stream:
        """Return the feed or query feed that a request names by number or address.

        Raise InputError for other streams and NotFound for a feed that the reader is not subscribed to.
        """
        if requested.url is not None:
            return Stream(feed=await self._store.read(find_subscribed_feed, call.user.id, requested.url))
        if requested.which.feed is None and requested.which.query is None:
            raise InputError("Only feeds can be subscribed to: `s` must be feed/….")
        return requested.which

    async def quick_add(self, call: GReaderCall) -> Response:
        address = (call.given.first_value("quickadd") or "").strip().removeprefix("feed/")
        if not address:
            raise InputError("Missing field `quickadd`: the address of the feed to add.")
        try:
            feed = (await self._site.add_feed(address, call.user.id)).feed
        except (InputError, NotFound) as error:
            return json_response({"numResults": 0, "query": address, "error": str(error)})
        stream = stream_ids.feed_stream_id(feed.id, None)
        name = feed.title or feed.url
        return json_response({"numResults": 1, "query": address, "streamId": stream, "streamName": name})

    async def import_opml(self, call: GReaderCall) -> Response:
        """Subscribe to the feeds of the OPML document in the body; folders become labels."""
        lists = read_opml(call.body)
        new = [NewFeed(one.url, one.title, link=one.link, tags=tuple(one.tags)) for one in lists.feeds]
        allowed = self._site.reader_quota.limit_for(call.user)
        await self._store.write(add_and_subscribe, new, self._site.clock(), subscriber=call.user.id, allowed=allowed)
        return ok_response()

    async def export_opml(self, call: GReaderCall) -> Response:
        outlines = await list_outlines(self._store, call.user, self._site.base_url, self._site.clock())
        headers = {"Content-Disposition": 'attachment; filename="subscriptions.opml"'}
        return Response(write_opml(outlines), 200, headers, media_type="text/x-opml; charset=utf-8")

    async def rename_tag(self, call: GReaderCall) -> Response:
        """Rename the label `s`, or `t` without its prefix, to `dest`."""
        old = stream_ids.parse_label(
            call.given.first_value("s") or f"{stream_ids.LABEL_PREFIX}{call.given.first_value('t') or ''}"
        )
        new = stream_ids.parse_label(call.given.first_value("dest") or "")
        await self._store.write(rename_label, call.user.id, old, new)
        return ok_response()

    async def disable_tag(self, call: GReaderCall) -> Response:
        """Remove the labels `s`, or `t` without its prefix, from everything. NetNewsWire also sends unknown ones."""
        for given in call.given.list_values("s") or [f"{stream_ids.LABEL_PREFIX}{call.given.first_value('t') or ''}"]:
            if given in ("", stream_ids.LABEL_PREFIX):
                continue
            by = Remover(call.user.id, self._site.clock())
            with contextlib.suppress(NotFound):
                await self._store.write(move_tag_to_trash, call.user.id, stream_ids.parse_label(given), by=by)
        return ok_response()
