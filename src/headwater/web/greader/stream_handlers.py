"""Handles the Google Reader calls about items: lists, contents, unread counts, marks."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from sqlalchemy import Connection
from starlette.responses import Response

from headwater.errors import InputError
from headwater.formats.write import write_atom
from headwater.model import Document, Entry
from headwater.store.readers.item_labels import change_item_labels, count_unread_by_label, find_item_labels
from headwater.store.readers.marks import mark_items, mark_stream_read
from headwater.store.readers.reader_items import (
    ReaderItem,
    StreamPage,
    find_reader_items,
    find_subscriptions_of_items,
    list_reader_items,
)
from headwater.store.readers.stream_positions import Stream, StreamQuery, list_stream_positions
from headwater.store.readers.subscriptions import Subscription, find_subscribed_feed
from headwater.store.readers.unread_counts import count_unread
from headwater.web.greader import greader_json, stream_ids
from headwater.web.greader.greader_call import (
    GReaderCall,
    in_thread_if_large,
    json_response,
    ok_response,
)
from headwater.web.greader.stream_ids import (
    MAX_IDS,
    MAX_ITEMS,
    format_continuation,
    parse_mark_time,
    read_stream_query,
)
from headwater.web.site import Site

ItemLabels = dict[int, list[str]]
CATEGORY_SCHEME = "http://www.google.com/reader/"  # of categories in Atom
MAX_CONTENTS = 10_000  # items requested by id in one call


class StreamHandlers:
    """Handlers of stream/…, unread-count, edit-tag, mark-all-as-read and /reader/atom."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.store

    async def count_unread(self, call: GReaderCall) -> Response:
        found = await self._store.read(count_unread, call.user.id)
        labels = await self._store.read(count_unread_by_label, call.user.id)
        return await in_thread_if_large(
            lambda: json_response(greader_json.shape_unread_counts(found, labels)), len(found.feeds)
        )

    async def list_item_ids(self, call: GReaderCall) -> Response:
        requested = await self._read_stream(call, call.given.first_value("s") or stream_ids.READING_LIST)
        if requested.nothing:
            return json_response({"itemRefs": []})
        wanted = read_stream_query(requested, call.given, MAX_IDS)
        places = await self._store.read(list_stream_positions, call.user.id, requested.which, wanted)
        answer: dict[str, object] = {"itemRefs": [{"id": str(id)} for _, id in places[: wanted.limit]]}
        if len(places) > wanted.limit:
            answer["continuation"] = format_continuation(places[wanted.limit - 1])
        return json_response(answer)

    async def show_contents(self, call: GReaderCall) -> Response:
        """Return a page of the stream named in the path or by `s`, by default the reading list."""
        name = call.request.path_params.get("stream") or call.given.first_value("s") or stream_ids.READING_LIST
        requested = await self._read_stream(call, name)
        page, subscriptions, labels = await self._load_page(call, requested)
        shape = self._make_shaper(call, subscriptions, labels)
        answer: dict[str, object] = {
            "direction": "ltr",
            "id": name,
            "title": self._stream_title(requested, subscriptions),
            "updated": int(self._site.clock()),
            "items": [shape(one) for one in page.items],
        }
        if page.next is not None:
            answer["continuation"] = format_continuation(page.next)
        return json_response(answer)

    async def _load_page(
        self, call: GReaderCall, requested: stream_ids.StreamRequest
    ) -> tuple[StreamPage, list[Subscription], ItemLabels]:
        if requested.nothing:
            return StreamPage(), [], {}
        part = read_stream_query(requested, call.given, MAX_ITEMS)
        return await self._store.read(_list_items, call.user.id, requested.which, part)

    @staticmethod
    def _stream_title(requested: stream_ids.StreamRequest, subscriptions: list[Subscription]) -> str:
        one = next((one for one in subscriptions if _is_visible(one, requested.which)), None)
        return one.title if one is not None else requested.which.tag or "Headwater"

    async def show_items(self, call: GReaderCall) -> Response:
        """Return the items with the given ids; those that this reader cannot see are left out."""
        numbers = [stream_ids.parse_item_id(each) for each in call.given.list_values("i")]
        if len(numbers) > MAX_CONTENTS:
            raise InputError(f"Too many fields `i`: request at most {MAX_CONTENTS:,} items at a time.")
        found, subscriptions, labels = await self._store.read(_find_items, call.user.id, numbers)
        shape = self._make_shaper(call, subscriptions, labels)
        items = [shape(one) for one in found]
        return json_response({"id": stream_ids.READING_LIST, "updated": int(self._site.clock()), "items": items})

    def _make_shaper(
        self, call: GReaderCall, subscriptions: list[Subscription], labels: ItemLabels
    ) -> greader_json.ItemShaper:
        by_liferea = call.request.headers.get("user-agent", "").startswith("Liferea/")
        return greader_json.ItemShaper(subscriptions, self._site.base_url, labels, for_liferea=by_liferea)

    async def edit_tag(self, call: GReaderCall) -> Response:
        """Add states and labels (`a`) to the items `i`, or remove them (`r`); unknown ones are ignored."""
        numbers = [stream_ids.parse_item_id(each) for each in call.given.list_values("i")]
        read: bool | None = None
        starred: bool | None = None
        labels: dict[bool, list[str]] = {False: [], True: []}
        for field, added in (("r", False), ("a", True)):
            for tag in call.given.list_values(field):
                state = stream_ids.parse_state(tag)
                if (label := stream_ids.find_label(tag)) is not None:
                    labels[added].append(label)
                elif state == "read":
                    read = added
                elif state == "kept-unread" and added:
                    read = False
                elif state == "starred":
                    starred = added
        await self._store.write(mark_items, call.user.id, numbers, self._site.clock(), read=read, starred=starred)
        if labels[True] or labels[False]:
            await self._store.write(change_item_labels, call.user.id, numbers, labels[True], labels[False])
        return ok_response()

    async def mark_all_read(self, call: GReaderCall) -> Response:
        name = call.given.first_value("s")
        if not name:
            raise InputError("Missing field `s`: the stream to mark as read.")
        requested = await self._read_stream(call, name)
        upto = parse_mark_time(call.given.parse_number("ts"))
        if requested.nothing or requested.unread is False:
            return ok_response()
        if requested.starred:
            wanted = read_stream_query(requested, call.given, MAX_IDS)
            places = await self._store.read(list_stream_positions, call.user.id, requested.which, wanted)
            chosen = [id for at, id in places if upto is None or at < upto]
            await self._store.write(mark_items, call.user.id, chosen, self._site.clock(), read=True)
        else:
            await self._store.write(mark_stream_read, call.user.id, requested.which, now=self._site.clock(), until=upto)
        return ok_response()

    async def show_atom(self, call: GReaderCall) -> Response:
        """Return a page of a stream as an Atom document."""
        name = call.request.path_params["stream"]
        requested = await self._read_stream(call, name)
        page, subscriptions, _ = await self._load_page(call, requested)
        here = f"{self._site.base_url}/reader/atom/{quote(name)}"
        title = self._stream_title(requested, subscriptions)
        document = Document("atom 1.0", title, id=here, items=tuple(map(_to_entry, page.items)))
        labels = {stream_ids.format_item_id(one.id): _state_categories(one) for one in page.items}
        body = write_atom(document, self_url=here, labels=labels)
        return Response(body, media_type="application/atom+xml; charset=utf-8")

    async def _read_stream(self, call: GReaderCall, name: str) -> stream_ids.StreamRequest:
        requested = stream_ids.parse_stream(name)
        if requested.url is None:
            return requested
        return stream_ids.StreamRequest(
            Stream(feed=await self._store.read(find_subscribed_feed, call.user.id, requested.url))
        )


def _list_items(
    connection: Connection, user_id: int, stream: Stream, part: StreamQuery
) -> tuple[StreamPage, list[Subscription], ItemLabels]:
    """List a page of a stream, the subscriptions that its items belong to, and the labels of its items."""
    page = list_reader_items(connection, user_id, stream, part)
    return page, *_find_context(connection, user_id, page.items)


def _find_items(
    connection: Connection, user_id: int, ids: list[int]
) -> tuple[list[ReaderItem], list[Subscription], ItemLabels]:
    """Find the items among these ids that the reader may see, with their subscriptions and labels."""
    items = find_reader_items(connection, user_id, ids)
    return items, *_find_context(connection, user_id, items)


def _find_context(
    connection: Connection, user_id: int, items: Sequence[ReaderItem]
) -> tuple[list[Subscription], ItemLabels]:
    ids = [one.item.id for one in items if one.item.id is not None]
    return find_subscriptions_of_items(connection, user_id, items), find_item_labels(connection, user_id, ids)


def _is_visible(one: Subscription, which: Stream) -> bool:
    if which.query is not None:
        return one.query_id == which.query
    return which.feed is not None and one.feed_id == which.feed


def _state_categories(one: ReaderItem) -> list[tuple[str, str, str]]:
    """Return the categories from which newsboat learns the state of an item; “fresh” means unread."""
    states = ["reading-list", "read" if one.read else "fresh", *(["starred"] if one.starred else [])]
    return [(f"{stream_ids.STATE_PREFIX}{state}", CATEGORY_SCHEME, state) for state in states]


def _to_entry(one: ReaderItem) -> Entry:
    item = one.item
    return Entry(
        stream_ids.format_item_id(one.id),
        item.link,
        item.title,
        item.published,
        item.updated,
        item.authors,
        content=item.content or item.summary,
        enclosures=item.enclosures,
    )
