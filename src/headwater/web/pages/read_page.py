"""The reading page: streams, a list of items and an open article. It works without scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.responses import Response

from headwater.errors import InputError, NotFound
from headwater.formats.values.encodings import decode_document
from headwater.formats.values.html import clean_html
from headwater.formats.write.addresses import public_address
from headwater.model import Feed, Item, SafeHtml
from headwater.query.items.tokens import strip_markup
from headwater.query.matched_words import find_present_words, list_searched_words
from headwater.store.content.articles import ArticlePage, find_article_page, has_article_page
from headwater.store.content.feeds import count_feeds, find_feeds
from headwater.store.content.items import find_earlier_versions
from headwater.store.content.stories import find_story_entries
from headwater.store.database.item_ids import find_last_settled_item
from headwater.store.publishing.deliveries import count_failing_deliveries
from headwater.store.queries.hits import find_showing_queries
from headwater.store.queries.query_access import find_readable_query, owns_query
from headwater.store.queries.query_feeds import read_definition
from headwater.store.readers import marks
from headwater.store.readers.accounts import READ, WRITE, User
from headwater.store.readers.item_labels import change_item_labels, find_item_labels
from headwater.store.readers.marks import mark_items_read, undo_mark_read
from headwater.store.readers.reader_items import ReaderItem, find_reader_items, list_reader_items
from headwater.store.readers.stream_positions import Stream, StreamQuery
from headwater.store.readers.subscriptions import find_subscription
from headwater.store.store import Store
from headwater.times import WEEK
from headwater.web.page import PageGroup, Visit
from headwater.web.pages.item_list import EmptyStream, explain_empty_stream, fold_rows
from headwater.web.pages.sidebar import (
    OpenStream,
    Sidebar,
    count_unread_by_path,
    find_stream,
    load_sidebar,
)
from headwater.web.shared.article_html import clean_for_page, followable_link
from headwater.web.shared.reader_feeds import ReaderFeeds
from headwater.web.shared.search_box import SearchResult, run_search
from headwater.web.shared.story_view import JoinReason, ReaderStory, explain_joining, load_story
from headwater.web.shared.version_diff import VersionChange, list_changes
from headwater.web.site import json_response, parse_integer, redirect_inside

PAGE_SIZE = 50
MAX_WAITING = 100  # new items are counted up to here


pages = PageGroup()


@dataclass(frozen=True, slots=True)
class FoldedItem:
    """An item below a row: another one of its story, and why it belongs there if that is known."""

    title: str
    feed: str
    link: str
    read: bool
    reason: JoinReason | None


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A row of the list; `others` are the items of the same story."""

    reading: ReaderItem
    title: str
    feed: str
    link: str
    others: tuple[FoldedItem, ...]
    reason: JoinReason | None = None

    @property
    def item(self) -> Item:
        return self.reading.item


@dataclass(frozen=True, slots=True)
class MatchReason:
    """A query feed that shows an item, and its words that occur in the item."""

    query: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenedArticle:
    """An open item. `here` is its address in the stream, `back` that of the list."""

    reading: ReaderItem
    title: str
    feed: Feed | None  # None also for a feed whose page this reader may not see
    subscribed: bool
    feed_title: str
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    lead: str | None  # our address of the lead picture, unless the text shows it
    content: Markup
    because: tuple[MatchReason, ...]
    story: ReaderStory | None
    changes: tuple[VersionChange, ...]
    here: str
    back: str
    page: str | None = None  # our address of the publisher's page, if its HTML is kept

    @property
    def item(self) -> Item:
        return self.reading.item


@dataclass(frozen=True, slots=True)
class ReadPage:
    where: OpenStream
    side: Sidebar
    rows: tuple[StreamRow, ...]
    article: OpenedArticle | None
    older: str | None
    newer: str | None
    unread_only: bool
    view: str  # the column shown on a phone: list, article or side
    found: SearchResult | None = None
    search_text: str = ""
    settled: int = 0  # all items up to this id were stored when the page was loaded
    beyond: tuple[int, ...] = ()  # unread items of the page beyond it
    silence: EmptyStream | None = None  # why the stream is empty


@pages.get("/", READ)
async def show_start(visit: Visit) -> Response:
    """Show all items; on an empty server, how to begin."""
    if not await visit.site.reader_feeds.load_feeds(visit.user.id):
        feeds = await visit.store.read(count_feeds)
        return visit.render("start_page.html", feeds=feeds)
    return await _show_stream(visit, "all", "")


@pages.get("/read/item/{item_id}", READ)
async def show_item(visit: Visit) -> Response:
    """Show one item by its id, in the stream of all items."""
    return await _show_stream(visit, "all", "", visit.path("item_id"))


@pages.get("/read/{kind}", READ)
async def show_stream(visit: Visit) -> Response:
    return await _show_stream(visit, visit.path("kind"), "")


@pages.get("/read/{kind}/{key:path}", READ)
async def show_named_stream(visit: Visit) -> Response:
    return await _show_stream(visit, visit.path("kind"), visit.path("key"))


@pages.get("/read/search", READ)
async def show_search(visit: Visit) -> Response:
    search_text = visit.query("q").strip()[:2000]
    mine = await visit.site.reader_feeds.load_feeds(visit.user.id)
    found = SearchResult(())
    if search_text:
        before = visit.integer("before")
        found = await run_search(
            visit.store,
            visit.user.id,
            search_text,
            visit.now,
            before_id=before,
            limit=PAGE_SIZE,
            unfinished=visit.site.unfinished_searches,
        )
    path = f"/read/search?{urlencode({'q': search_text})}"
    article = await _load_article(visit, mine, path, "&")
    page = ReadPage(
        where=OpenStream(path, f"“{search_text}”" if search_text else "Search", Stream()),
        side=await load_sidebar(visit.store, visit.user.id, mine, ""),
        rows=await _build_rows(visit.store, found.readings, mine, path, "&"),
        article=article,
        older=f"{path}&before={found.next_id}" if found.next_id is not None else None,
        newer=None,
        unread_only=False,
        view=_choose_view(visit, article),
        found=found,
        search_text=search_text,
    )
    return await _render_read_page(visit, page)


async def _show_stream(visit: Visit, kind: str, key: str, item: str | None = None) -> Response:
    store, user = visit.store, visit.user
    mine = await visit.site.reader_feeds.load_feeds(user.id, has=parse_integer(key) if kind == "feed" else None)
    place = await find_stream(store, user, mine, kind, key)
    query_id = place.stream.query
    if query_id is not None and await store.read(find_subscription, user.id, query_id=query_id) is None:
        return visit.redirect(f"/queries/{quote(place.key, safe='')}")  # the page where one subscribes
    unread = visit.query("show") == "unread"
    before = _parse_cursor(visit.query("before"))
    settled = await store.read(find_last_settled_item)
    found = await store.read(
        list_reader_items,
        user.id,
        place.stream,
        StreamQuery(starred=place.starred, unread=True if unread else None, before=before, limit=PAGE_SIZE),
    )
    keep = {"show": "unread"} if unread else {}
    if before is not None:
        keep["before"] = visit.query("before")
    path = place.path + (f"?{urlencode(keep)}" if keep else "")
    article = await _load_article(visit, mine, path, "&" if keep else "?", item)
    older = None
    if found.next is not None:
        older = f"{place.path}?{urlencode(keep | {'before': f'{found.next[0]!r},{found.next[1]}'})}"
    page = ReadPage(
        where=place,
        side=await load_sidebar(store, user.id, mine, place.path),
        rows=await _build_rows(store, found.items, mine, path, "&" if keep else "?", fold=place.stream.feed is None),
        article=article,
        older=older,
        newer=place.path + ("?show=unread" if unread else "") if before is not None else None,
        unread_only=unread,
        view=_choose_view(visit, article),
        settled=settled,
        beyond=tuple(one.id for one in found.items if not one.read and (one.item.id or 0) > settled),
        silence=None if found.items else await explain_empty_stream(store, user.id, mine, place.stream),
    )
    return await _render_read_page(visit, page)


async def _render_read_page(visit: Visit, page: ReadPage) -> Response:
    if visit.part == "article" and page.article is not None:
        return visit.render("_article.html", page=page)
    if visit.part == "rows":
        return visit.render("_rows.html", page=page)
    marked, undo = visit.integer("marked"), visit.integer("undo")
    reader_id = None if visit.user.is_owner else visit.user.id
    failing = await visit.store.read(count_failing_deliveries, reader_id, visit.now - WEEK)
    return visit.render("read_page.html", page=page, marked=marked, undo=undo, loaded=visit.now, failing=failing)


async def _build_rows(
    store: Store, readings: Sequence[ReaderItem], mine: ReaderFeeds, path: str, sign: str, fold: bool = True
) -> tuple[StreamRow, ...]:
    """Build the rows of a list. Stories are folded unless the list is that of one feed."""
    ids = [one.item.id for one in readings if one.item.id is not None] if fold else []
    stories = await store.read(find_story_entries, ids) if ids else {}

    def show_folded(one: ReaderItem) -> FoldedItem:
        entry = stories.get(one.item.id or 0)
        reason = None if entry is None else explain_joining(entry, mine)
        title, feed = one.item.title or "Untitled", mine.feed_title(one.item.feed_id)
        return FoldedItem(title, feed, f"{path}{sign}item={one.id}", one.read, reason)

    return tuple(
        StreamRow(
            one,
            one.item.title or "Untitled",
            mine.feed_title(one.item.feed_id),
            f"{path}{sign}item={one.id}",
            tuple(map(show_folded, others)),
            show_folded(one).reason if others else None,
        )
        for one, others in fold_rows(readings, stories)
    )


async def _load_article(
    visit: Visit, mine: ReaderFeeds, path: str, sign: str, item: str | None = None
) -> OpenedArticle | None:
    wanted = item if item is not None else visit.request.query_params.get("item")
    if wanted is None:
        return None
    item_id = parse_integer(wanted, highest=2**63 - 1)
    found = await visit.store.read(find_reader_items, visit.user.id, [item_id]) if item_id is not None else []
    if not found:
        raise NotFound("You do not read an item of this number; it may have been deleted.")
    (reading,) = found
    subscription = mine.feeds.get(reading.item.feed_id)
    feed = (await visit.store.read(find_feeds, [reading.item.feed_id])).get(reading.item.feed_id)
    feed_title = (feed.title or public_address(feed.url, feed.link)) if feed else "a removed feed"
    return OpenedArticle(
        reading=reading,
        title=reading.item.title or "Untitled",
        feed=feed if subscription is not None or visit.user.is_owner else None,
        subscribed=subscription is not None,
        feed_title=subscription.title if subscription else feed_title,
        tags=subscription.tags if subscription else (),
        labels=await _load_labels(visit, reading.item),
        lead=_find_lead_picture(reading.item, visit.site.pictures.picture_url),
        content=clean_for_page(reading.item.content or reading.item.summary, visit.site.pictures.picture_url),
        because=await explain_match(visit.store, visit.user, reading.item),
        story=await load_story(visit.store, mine, reading.item.id or 0),
        changes=await _load_changes(visit.store, reading.item),
        here=f"{path}{sign}item={reading.id}",
        back=path,
        page=f"/article/{reading.item.id}" if await visit.store.read(has_article_page, reading.item.id or 0) else None,
    )


async def _load_labels(visit: Visit, item: Item) -> tuple[str, ...]:
    ids = [] if item.id is None else [item.id]
    return tuple((await visit.store.read(find_item_labels, visit.user.id, ids)).get(item.id or 0, ()))


async def _load_changes(store: Store, item: Item) -> tuple[VersionChange, ...]:
    """Load the publisher's changes of an item."""
    if item.id is None or item.version == 1:
        return ()
    earlier = (await store.read(find_earlier_versions, [item.id])).get(item.id, [])
    return list_changes(item, earlier)


def _find_lead_picture(item: Item, picture: Callable[[str], str | None]) -> str | None:
    """Return our address of the lead picture, None if the text shows it or there is none."""
    address, text = followable_link(item.image), item.content or item.summary or ""
    return None if address is None or escape(address) in text or address in text else picture(address)


@pages.get("/article/{item_id}", READ)
async def show_article_page(visit: Visit) -> Response:
    """Show the kept HTML of the page behind an item, cleaned."""
    id = parse_integer(visit.path("item_id")) or 0
    (reading, *_) = await visit.store.read(find_reader_items, visit.user.id, [id]) or (None,)
    found = None if reading is None else await visit.store.read(find_article_page, id)
    if reading is None or found is None:
        raise NotFound("The page of this item is not kept.")
    safe = await asyncio.to_thread(_clean_page, found)
    content = clean_for_page(safe, visit.site.pictures.picture_url)
    return visit.render("article_page.html", item=reading.item, content=content, url=found.url, at=found.at)


def _clean_page(page: ArticlePage) -> SafeHtml | None:
    text = decode_document(page.html, None)[0]
    return clean_html(text[max(text.lower().find("<body"), 0) :], page.url)


@pages.get("/picture", READ)
async def show_picture(visit: Visit) -> Response:
    return await visit.site.pictures.serve_picture(visit.request)


# changes


@pages.post("/read/mark", WRITE)
async def mark_items(visit: Visit) -> Response:
    """Mark some items read or unread, or star them."""
    ids = _parse_ids(visit.form.get("ids", ""))
    if not ids:
        raise InputError("The form does not name any items. Load the page again.")
    read, star = visit.form.get("read"), visit.form.get("starred")
    if visit.form.get("undo") and read == "1" and star is None:
        marked = await visit.store.write(mark_items_read, visit.user.id, ids, visit.now)
        return json_response({"marked": marked.count, "undo": marked.undo})
    done = await visit.store.write(
        marks.mark_items,
        visit.user.id,
        ids,
        visit.now,
        read=None if read is None else read == "1",
        starred=None if star is None else star == "1",
    )
    return json_response({"marked": done}) if visit.wants_json else redirect_inside(visit.form.get("to", "/"))


@pages.post("/read/label", WRITE)
async def change_labels(visit: Visit) -> Response:
    """Add labels to some items, or remove one (`do`)."""
    ids = _parse_ids(visit.form.get("ids", ""))
    if not ids:
        raise InputError("The form does not name any items. Load the page again.")
    label = visit.form.get("label", "")
    if visit.form.get("do") == "remove":
        await visit.store.write(change_item_labels, visit.user.id, ids, (), [label])
    else:
        labels = [part for part in label.split(",") if part.strip()] or [""]
        await visit.store.write(change_item_labels, visit.user.id, ids, labels)
    return json_response({}) if visit.wants_json else redirect_inside(visit.form.get("to", "/"))


@pages.post("/read/all-read", WRITE)
async def mark_stream_read(visit: Visit) -> Response:
    """Mark everything of a stream read that had arrived, and was stored, when its page was loaded."""
    mine = await visit.site.reader_feeds.load_feeds(visit.user.id)
    place = await find_stream(visit.store, visit.user, mine, visit.form.get("kind", "all"), visit.form.get("key", ""))
    now = visit.now
    try:
        until = min(float(visit.form.get("until", "")), now)
    except ValueError:
        until = now
    marked = await visit.store.write(
        marks.mark_stream_read,
        visit.user.id,
        place.stream,
        now=now,
        until=until + 0.001,
        up_to=parse_integer(visit.form.get("up_to")),
        also=_parse_ids(visit.form.get("beyond", "")),
    )
    return visit.redirect(place.path, marked=marked.count, undo=marked.undo)


@pages.post("/read/undo", WRITE)
async def undo_marks(visit: Visit) -> Response:
    numbers = _parse_ids(visit.form.get("undo", ""))
    if not numbers:
        raise InputError("The form does not name anything to undo. Load the page again.")
    for number in numbers[::-1]:
        await visit.store.write(undo_mark_read, visit.user.id, number, visit.now)
    return json_response({}) if visit.wants_json else redirect_inside(visit.form.get("to", "/"))


@pages.get("/read/waiting", READ)
async def count_waiting(visit: Visit) -> Response:
    """Count the items that have arrived in a stream since its page was loaded."""
    mine = await visit.site.reader_feeds.load_feeds(visit.user.id)
    place = await find_stream(visit.store, visit.user, mine, visit.query("kind", "all"), visit.query("key"))
    try:
        since = float(visit.query("since"))
    except ValueError as error:
        raise InputError("`since` must be a time: seconds since 1970.") from error
    found = await visit.store.read(
        list_reader_items, visit.user.id, place.stream, StreamQuery(since=since, limit=MAX_WAITING)
    )
    return json_response({"new": len(found.items), "more": found.next is not None})


@pages.get("/read/counts", READ)
async def show_unread_counts(visit: Visit) -> Response:
    """Answer with the unread count of each stream by its path: of the given feeds, and without the zeros."""
    return json_response(await count_unread_by_path(visit.store, visit.user.id, _parse_ids(visit.query("feeds"))))


async def explain_match(store: Store, user: User, item: Item) -> tuple[MatchReason, ...]:
    """Find the query feeds that show an item and that the user may read; with the words of the user's own."""
    if item.id is None:
        return ()
    emitted = (await store.read(find_showing_queries, [item.id])).get(item.id)
    if emitted is None:
        return ()
    texts = [item.title or "", strip_markup(item.content or item.summary or ""), *item.categories, *item.authors]
    found = []
    for name in sorted(emitted.by):
        try:
            query = await store.read(find_readable_query, user, name)
        except NotFound:
            continue
        searched = list_searched_words(read_definition(query.active or query.text).query)
        words = find_present_words(texts, searched) if owns_query(user, query) else ()
        found.append(MatchReason(query.name, words))
    return tuple(found)


def _parse_ids(given: str) -> list[int]:
    """Parse comma-separated ids; other text is skipped."""
    return [number for part in given.split(",")[:1000] if (number := parse_integer(part, highest=2**63 - 1))]


def _parse_cursor(given: str | None) -> tuple[float, int] | None:
    """Parse the position where a page begins."""
    if not given:
        return None
    at, _, id = given.partition(",")
    number = parse_integer(id, highest=2**63 - 1)
    try:
        return None if number is None else (float(at), number)
    except ValueError:
        return None


def _choose_view(visit: Visit, article: OpenedArticle | None) -> str:
    if "side" in visit.request.query_params:
        return "side"
    return "article" if article is not None else "list"
