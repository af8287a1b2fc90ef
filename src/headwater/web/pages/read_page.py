"""Read: streams at the left, items in the middle, the article at the right; works without scripts, better with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import InputError, NotFound
from headwater.model import Feed, Item
from headwater.query.items.tokens import strip_markup
from headwater.query.matched_words import find_present_words, list_searched_words
from headwater.store.people import ReaderItem, Stream
from headwater.store.queries.query_feeds import read_definition
from headwater.store.store import Store
from headwater.web.auth.authentication import require_user
from headwater.web.pages.item_list import EmptyStream, explain_empty_stream, fold_duplicates
from headwater.web.pages.sidebar import (
    OpenStream,
    ReaderFeeds,
    Sidebar,
    SubscriptionCache,
    count_unread_by_path,
    find_stream,
    load_sidebar,
)
from headwater.web.shared.article_html import PictureProxy, clean_for_page
from headwater.web.shared.search_box import SearchResult, run_search
from headwater.web.site import Site, json_response, parse_integer, redirect_inside, wants_json

PAGE_SIZE = 50
MOST_WAITING = 100  # new items are counted up to here


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A line of the list; `others` are the same story in other feeds."""

    reading: ReaderItem
    title: str
    feed: str
    link: str
    others: tuple[tuple[str, str], ...]  # feed, address

    @property
    def item(self) -> Item:
        return self.reading.item


@dataclass(frozen=True, slots=True)
class MatchReason:
    """Why an item is seen: a query feed, and the words of it that stand in the item."""

    query: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenedArticle:
    """An item opened. `here` is its address in the stream, `back` that of the list."""

    reading: ReaderItem
    title: str
    feed: Feed | None
    feed_title: str
    tags: tuple[str, ...]
    content: Markup
    because: tuple[MatchReason, ...]
    here: str
    back: str

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
    view: str  # what one column shows: list, article or side
    found: SearchResult | None = None
    said: str = ""
    settled: int = 0  # before it was loaded, all items were stored up to this one
    beyond: tuple[int, ...] = ()  # what is shown of those that came after it, and unread
    silence: EmptyStream | None = None  # where nothing stands in it


class ReadPages:
    """The pages of reading."""

    def __init__(self, frame: Site) -> None:
        self._frame = frame
        self._store = frame.store
        self._subscriptions = SubscriptionCache(frame.store, frame.clock)
        self.pictures = PictureProxy(frame.node.scout if frame.node is not None else None)

    async def show_start(self, request: Request) -> Response:
        """All items; on an empty server, how to begin."""
        user = await require_user(request)
        if not await self._subscriptions.load_feeds(user.id):
            feeds = await self._store.count_feeds()
            return self._frame.render_page(
                request, "start.html", feeds=feeds, can_discover=self._frame.node is not None
            )
        return await self._load_stream(request, "all", "")

    async def show_stream(self, request: Request) -> Response:
        return await self._load_stream(request, request.path_params["kind"], request.path_params.get("key", ""))

    async def show_item(self, request: Request) -> Response:
        """One item by its number, in the stream of everything."""
        return await self._load_stream(request, "all", "", item=request.path_params["item_id"])

    async def show_search(self, request: Request) -> Response:
        user = await require_user(request)
        said = request.query_params.get("q", "").strip()[:2000]
        mine = await self._subscriptions.load_feeds(user.id)
        before = parse_integer(request.query_params.get("before"))
        found = (
            await run_search(self._store, user.id, said, self._frame.clock(), before_id=before, limit=PAGE_SIZE)
            if said
            else SearchResult(())
        )
        path = f"/read/search?{urlencode({'q': said})}"
        place = OpenStream(path, f"“{said}”" if said else "Search", Stream())
        article = await self._load_article(request, user.id, mine, path, "&")
        page = ReadPage(
            where=place,
            side=await load_sidebar(self._store, user.id, mine, ""),
            rows=self._build_rows(found.readings, mine, path, "&"),
            article=article,
            older=f"{path}&before={found.next_id}" if found.next_id is not None else None,
            newer=None,
            unread_only=False,
            view=_choose_view(request, article),
            found=found,
            said=said,
        )
        return self._render_read_page(request, page)

    async def _load_stream(self, request: Request, kind: str, key: str, item: str | None = None) -> Response:
        user = await require_user(request)
        mine = await self._subscriptions.load_feeds(user.id, has=key if kind == "feed" else "")
        place = await find_stream(self._store, mine, kind, key)
        query = request.query_params
        unread = query.get("show") == "unread"
        before = _parse_cursor(query.get("before"))
        settled = await self._store.reading.settled()
        found = await self._store.reading.stream(
            user.id,
            place.stream,
            starred=place.starred,
            unread=True if unread else None,
            before=before,
            limit=PAGE_SIZE,
        )
        keep = {"show": "unread"} if unread else {}
        if before is not None:
            keep["before"] = query["before"]
        path = place.path + (f"?{urlencode(keep)}" if keep else "")
        article = await self._load_article(request, user.id, mine, path, "&" if keep else "?", item)
        older = None
        if found.next is not None:
            older = f"{place.path}?{urlencode(keep | {'before': f'{found.next[0]!r},{found.next[1]}'})}"
        page = ReadPage(
            where=place,
            side=await load_sidebar(self._store, user.id, mine, place.path),
            rows=self._build_rows(found.items, mine, path, "&" if keep else "?"),
            article=article,
            older=older,
            newer=place.path + ("?show=unread" if unread else "") if before is not None else None,
            unread_only=unread,
            view=_choose_view(request, article),
            settled=settled,
            beyond=tuple(one.id for one in found.items if not one.read and (one.item.id or 0) > settled),
            silence=None if found.items else await explain_empty_stream(self._store, user.id, mine, place.stream),
        )
        return self._render_read_page(request, page)

    def _render_read_page(self, request: Request, page: ReadPage) -> Response:
        part = request.headers.get("x-part", "")
        if part == "article" and page.article is not None:
            return self._frame.render_page(request, "article.html", page=page)
        if part == "rows":
            return self._frame.render_page(request, "rows.html", page=page)
        query = request.query_params
        done, undo = parse_integer(query.get("marked")), parse_integer(query.get("undo"))
        return self._frame.render_page(
            request, "read.html", page=page, marked=done, undo=undo, loaded=self._frame.clock()
        )

    def _build_rows(
        self, readings: Sequence[ReaderItem], mine: ReaderFeeds, path: str, sign: str
    ) -> tuple[StreamRow, ...]:
        def feed(one: ReaderItem) -> str:
            return mine.feed_title(one.item.feed_id)

        return tuple(
            StreamRow(
                one,
                one.item.title or "Without a title",
                feed(one),
                f"{path}{sign}item={one.id}",
                tuple((feed(other), f"{path}{sign}item={other.id}") for other in others),
            )
            for one, others in fold_duplicates(readings)
        )

    async def _load_article(
        self,
        request: Request,
        user_id: int,
        mine: ReaderFeeds,
        path: str,
        sign: str,
        item: str | None = None,
    ) -> OpenedArticle | None:
        wanted = item if item is not None else request.query_params.get("item")
        if wanted is None:
            return None
        number = parse_integer(wanted, most=2**63 - 1)
        found = await self._store.reading.items(user_id, [number]) if number is not None else []
        if not found:
            raise NotFound("There is no such item among what you read; perhaps it was deleted since.")
        (reading,) = found
        one = mine.feeds.get(reading.item.feed_id)
        feeds = await self._store.pages.by_ids([reading.item.feed_id])
        feed = feeds.get(reading.item.feed_id)
        item_shown = reading.item
        return OpenedArticle(
            reading=reading,
            title=item_shown.title or "Without a title",
            feed=feed,
            feed_title=one.title if one else (feed.title or feed.url) if feed else "a feed that is no more",
            tags=one.tags if one else (),
            content=clean_for_page(item_shown.content or item_shown.summary, self.pictures.picture_url),
            because=await explain_match(self._store, item_shown),
            here=f"{path}{sign}item={reading.id}",
            back=path,
        )

    # changes

    async def mark_items(self, request: Request) -> Response:
        """Read or unread, star or none, of some items."""
        user = await require_user(request, "write")
        form = await self._frame.forms.read_form(request)
        ids = _parse_ids(form.get("ids", ""))
        if not ids:
            raise InputError("The form does not say which items are meant: load the page again.")
        now = self._frame.clock()
        read, star = form.get("read"), form.get("starred")
        if form.get("undo") and read == "1" and star is None:
            marked = await self._store.reading.mark_read(user.id, ids, now)
            return json_response({"marked": marked.count, "undo": marked.undo})
        done = await self._store.reading.mark(
            user.id,
            ids,
            now,
            read=None if read is None else read == "1",
            starred=None if star is None else star == "1",
        )
        if wants_json(request):
            return json_response({"marked": done})
        return redirect_inside(request, form.get("to", "/"))

    async def mark_stream_read(self, request: Request) -> Response:
        """Everything of a stream that had arrived, and was stored, when its page was loaded."""
        user = await require_user(request, "write")
        form = await self._frame.forms.read_form(request)
        mine = await self._subscriptions.load_feeds(user.id)
        place = await find_stream(self._store, mine, form.get("kind", "all"), form.get("key", ""))
        now = self._frame.clock()
        try:
            until = min(float(form.get("until", "")), now)
        except ValueError:
            until = now
        marked = await self._store.reading.mark_all_read(
            user.id,
            place.stream,
            now=now,
            until=until + 0.001,
            up_to=parse_integer(form.get("up_to")),
            also=_parse_ids(form.get("beyond", "")),
        )
        more = {"marked": marked.count} | ({"undo": marked.undo} if marked.undo is not None else {})
        return redirect_inside(request, f"{place.path}?{urlencode(more)}")

    async def undo_marks(self, request: Request) -> Response:
        user = await require_user(request, "write")
        form = await self._frame.forms.read_form(request)
        numbers = _parse_ids(form.get("undo", ""))
        if not numbers:
            raise InputError("The form does not say what is to be taken back: load the page again.")
        for number in numbers[::-1]:
            await self._store.reading.undo(user.id, number, self._frame.clock())
        return json_response({}) if wants_json(request) else redirect_inside(request, form.get("to", "/"))

    async def count_waiting(self, request: Request) -> Response:
        """How many items have arrived in a stream since its page was loaded."""
        user = await require_user(request)
        mine = await self._subscriptions.load_feeds(user.id)
        query = request.query_params
        place = await find_stream(self._store, mine, query.get("kind", "all"), query.get("key", ""))
        try:
            since = float(query.get("since", ""))
        except ValueError as error:
            raise InputError("“since” is no time.") from error
        found = await self._store.reading.stream(user.id, place.stream, since=since, limit=MOST_WAITING)
        return json_response({"new": len(found.items), "more": found.next is not None})

    async def show_unread_counts(self, request: Request) -> Response:
        """How much is unread in each stream, by its path, of feeds those asked for; who have nothing are left out."""
        user = await require_user(request)
        return json_response(
            await count_unread_by_path(self._store, user.id, _parse_ids(request.query_params.get("feeds", "")))
        )

    def routes(self) -> list[Route]:
        return [
            Route("/", self.show_start),
            Route("/read/counts", self.show_unread_counts),
            Route("/read/search", self.show_search),
            Route("/read/waiting", self.count_waiting),
            Route("/read/mark", self.mark_items, methods=["POST"]),
            Route("/read/all-read", self.mark_stream_read, methods=["POST"]),
            Route("/read/undo", self.undo_marks, methods=["POST"]),
            Route("/read/item/{item_id}", self.show_item),
            Route("/read/{kind}", self.show_stream),
            Route("/read/{kind}/{key:path}", self.show_stream),
            *self.pictures.routes(),
        ]


async def explain_match(store: Store, item: Item) -> tuple[MatchReason, ...]:
    """The query feeds that show an item, with the words of theirs that stand in it."""
    if item.id is None:
        return ()
    emitted = (await store.queries.emitted([item.id])).get(item.id)
    if emitted is None:
        return ()
    texts = [item.title or "", strip_markup(item.content or item.summary or ""), *item.categories, *item.authors]
    found = []
    for name in sorted(emitted.by):
        try:
            query = await store.queries.find(name)
        except NotFound:
            continue
        found.append(
            MatchReason(
                query.name,
                find_present_words(texts, list_searched_words(read_definition(query.active or query.text).query)),
            )
        )
    return tuple(found)


def _parse_ids(given: str) -> list[int]:
    """The numbers of a form's field, with commas between; what is none is passed over."""
    return [number for part in given.split(",")[:1000] if (number := parse_integer(part, most=2**63 - 1))]


def _parse_cursor(given: str | None) -> tuple[float, int] | None:
    """The place where a page begins, out of its address."""
    if not given:
        return None
    at, _, id = given.partition(",")
    number = parse_integer(id, most=2**63 - 1)
    try:
        return None if number is None else (float(at), number)
    except ValueError:
        return None


def _choose_view(request: Request, article: OpenedArticle | None) -> str:
    if "side" in request.query_params:
        return "side"
    return "article" if article is not None else "list"


def routes(frame: Site) -> list[Route]:
    return ReadPages(frame).routes()
