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
from headwater.query.marking import needles, present
from headwater.query.words import strip
from headwater.store.people import Reading, Stream
from headwater.store.queries import definition
from headwater.store.store import Store
from headwater.web.articles import shown
from headwater.web.frame import Frame, as_json, back, integer, wants_json
from headwater.web.images import Images
from headwater.web.pages.folding import folded
from headwater.web.pages.searching import Search, search
from headwater.web.pages.silence import Silence, silence
from headwater.web.pages.streams import Mine, Sidebar, Subscribed, Where, sidebar, unread, where
from headwater.web.session import current

SIZE = 50
WAITING = 100  # new items are counted up to here


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list; `others` are the same story in other feeds."""

    reading: Reading
    title: str
    feed: str
    link: str
    others: tuple[tuple[str, str], ...]  # feed, address

    @property
    def item(self) -> Item:
        return self.reading.item


@dataclass(frozen=True, slots=True)
class Because:
    """Why an item is seen: a query feed, and the words of it that stand in the item."""

    query: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Article:
    """An item opened. `here` is its address in the stream, `back` that of the list."""

    reading: Reading
    title: str
    feed: Feed | None
    feed_title: str
    tags: tuple[str, ...]
    content: Markup
    because: tuple[Because, ...]
    here: str
    back: str

    @property
    def item(self) -> Item:
        return self.reading.item


@dataclass(frozen=True, slots=True)
class ReadPage:
    where: Where
    side: Sidebar
    rows: tuple[Row, ...]
    article: Article | None
    older: str | None
    newer: str | None
    unread_only: bool
    view: str  # what one column shows: list, article or side
    found: Search | None = None
    said: str = ""
    settled: int = 0  # before it was loaded, all items were stored up to this one
    beyond: tuple[int, ...] = ()  # what is shown of those that came after it, and unread
    silence: Silence | None = None  # where nothing stands in it


class Reader:
    """The pages of reading."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._store = frame.store
        self._subscribed = Subscribed(frame.store, frame.clock)
        self.images = Images(frame.node.scout if frame.node is not None else None)

    async def first(self, request: Request) -> Response:
        """All items; on an empty server, how to begin."""
        user = await current(request)
        if not await self._subscribed.of(user.id):
            feeds = await self._store.count_feeds()
            return self._frame.page(request, "start.html", feeds=feeds, can_discover=self._frame.node is not None)
        return await self._stream(request, "all", "")

    async def stream(self, request: Request) -> Response:
        return await self._stream(request, request.path_params["kind"], request.path_params.get("key", ""))

    async def item(self, request: Request) -> Response:
        """One item by its number, in the stream of everything."""
        return await self._stream(request, "all", "", item=request.path_params["item_id"])

    async def search(self, request: Request) -> Response:
        user = await current(request)
        said = request.query_params.get("q", "").strip()[:2000]
        mine = await self._subscribed.of(user.id)
        before = integer(request.query_params.get("before"))
        found = (
            await search(self._store, user.id, said, self._frame.clock(), before_id=before, limit=SIZE)
            if said
            else Search(())
        )
        path = f"/read/search?{urlencode({'q': said})}"
        place = Where(path, f"“{said}”" if said else "Search", Stream())
        article = await self._article(request, user.id, mine, path, "&")
        page = ReadPage(
            where=place,
            side=await sidebar(self._store, user.id, mine, ""),
            rows=self._rows(found.readings, mine, path, "&"),
            article=article,
            older=f"{path}&before={found.next_id}" if found.next_id is not None else None,
            newer=None,
            unread_only=False,
            view=_view(request, article),
            found=found,
            said=said,
        )
        return self._answer(request, page)

    async def _stream(self, request: Request, kind: str, key: str, item: str | None = None) -> Response:
        user = await current(request)
        mine = await self._subscribed.of(user.id, has=key if kind == "feed" else "")
        place = await where(self._store, mine, kind, key)
        query = request.query_params
        unread = query.get("show") == "unread"
        before = _cursor(query.get("before"))
        settled = await self._store.reading.settled()
        found = await self._store.reading.stream(
            user.id,
            place.stream,
            starred=place.starred,
            unread=True if unread else None,
            before=before,
            limit=SIZE,
        )
        keep = {"show": "unread"} if unread else {}
        if before is not None:
            keep["before"] = query["before"]
        path = place.path + (f"?{urlencode(keep)}" if keep else "")
        article = await self._article(request, user.id, mine, path, "&" if keep else "?", item)
        older = None
        if found.next is not None:
            older = f"{place.path}?{urlencode(keep | {'before': f'{found.next[0]!r},{found.next[1]}'})}"
        page = ReadPage(
            where=place,
            side=await sidebar(self._store, user.id, mine, place.path),
            rows=self._rows(found.items, mine, path, "&" if keep else "?"),
            article=article,
            older=older,
            newer=place.path + ("?show=unread" if unread else "") if before is not None else None,
            unread_only=unread,
            view=_view(request, article),
            settled=settled,
            beyond=tuple(one.id for one in found.items if not one.read and (one.item.id or 0) > settled),
            silence=None if found.items else await silence(self._store, user.id, mine, place.stream),
        )
        return self._answer(request, page)

    def _answer(self, request: Request, page: ReadPage) -> Response:
        part = request.headers.get("x-part", "")
        if part == "article" and page.article is not None:
            return self._frame.page(request, "article.html", page=page)
        if part == "rows":
            return self._frame.page(request, "rows.html", page=page)
        query = request.query_params
        done, undo = integer(query.get("marked")), integer(query.get("undo"))
        return self._frame.page(request, "read.html", page=page, marked=done, undo=undo, loaded=self._frame.clock())

    def _rows(self, readings: Sequence[Reading], mine: Mine, path: str, sign: str) -> tuple[Row, ...]:
        def feed(one: Reading) -> str:
            return mine.title(one.item.feed_id)

        return tuple(
            Row(
                one,
                one.item.title or "Without a title",
                feed(one),
                f"{path}{sign}item={one.id}",
                tuple((feed(other), f"{path}{sign}item={other.id}") for other in others),
            )
            for one, others in folded(readings)
        )

    async def _article(
        self,
        request: Request,
        user_id: int,
        mine: Mine,
        path: str,
        sign: str,
        item: str | None = None,
    ) -> Article | None:
        wanted = item if item is not None else request.query_params.get("item")
        if wanted is None:
            return None
        number = integer(wanted, most=2**63 - 1)
        found = await self._store.reading.items(user_id, [number]) if number is not None else []
        if not found:
            raise NotFound("There is no such item among what you read; perhaps it was deleted since.")
        (reading,) = found
        one = mine.feeds.get(reading.item.feed_id)
        feeds = await self._store.pages.by_ids([reading.item.feed_id])
        feed = feeds.get(reading.item.feed_id)
        item_shown = reading.item
        return Article(
            reading=reading,
            title=item_shown.title or "Without a title",
            feed=feed,
            feed_title=one.title if one else (feed.title or feed.url) if feed else "a feed that is no more",
            tags=one.tags if one else (),
            content=shown(item_shown.content or item_shown.summary, self.images.address),
            because=await because(self._store, item_shown),
            here=f"{path}{sign}item={reading.id}",
            back=path,
        )

    # changes

    async def mark(self, request: Request) -> Response:
        """Read or unread, star or none, of some items."""
        user = await current(request, "write")
        form = await self._frame.forms.read(request)
        ids = _ids(form.get("ids", ""))
        if not ids:
            raise InputError("The form does not say which items are meant: load the page again.")
        now = self._frame.clock()
        read, star = form.get("read"), form.get("starred")
        if form.get("undo") and read == "1" and star is None:
            marked = await self._store.reading.mark_read(user.id, ids, now)
            return as_json({"marked": marked.count, "undo": marked.undo})
        done = await self._store.reading.mark(
            user.id,
            ids,
            now,
            read=None if read is None else read == "1",
            starred=None if star is None else star == "1",
        )
        if wants_json(request):
            return as_json({"marked": done})
        return back(request, form.get("to", "/"))

    async def all_read(self, request: Request) -> Response:
        """Everything of a stream that had arrived, and was stored, when its page was loaded."""
        user = await current(request, "write")
        form = await self._frame.forms.read(request)
        mine = await self._subscribed.of(user.id)
        place = await where(self._store, mine, form.get("kind", "all"), form.get("key", ""))
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
            up_to=integer(form.get("up_to")),
            also=_ids(form.get("beyond", "")),
        )
        more = {"marked": marked.count} | ({"undo": marked.undo} if marked.undo is not None else {})
        return back(request, f"{place.path}?{urlencode(more)}")

    async def undo(self, request: Request) -> Response:
        user = await current(request, "write")
        form = await self._frame.forms.read(request)
        numbers = _ids(form.get("undo", ""))
        if not numbers:
            raise InputError("The form does not say what is to be taken back: load the page again.")
        for number in numbers[::-1]:
            await self._store.reading.undo(user.id, number, self._frame.clock())
        return as_json({}) if wants_json(request) else back(request, form.get("to", "/"))

    async def waiting(self, request: Request) -> Response:
        """How many items have arrived in a stream since its page was loaded."""
        user = await current(request)
        mine = await self._subscribed.of(user.id)
        query = request.query_params
        place = await where(self._store, mine, query.get("kind", "all"), query.get("key", ""))
        try:
            since = float(query.get("since", ""))
        except ValueError as error:
            raise InputError("“since” is no time.") from error
        found = await self._store.reading.stream(user.id, place.stream, since=since, limit=WAITING)
        return as_json({"new": len(found.items), "more": found.next is not None})

    async def counts(self, request: Request) -> Response:
        """How much is unread in each stream, by its path, of feeds those asked for; who have nothing are left out."""
        user = await current(request)
        return as_json(await unread(self._store, user.id, _ids(request.query_params.get("feeds", ""))))

    def routes(self) -> list[Route]:
        return [
            Route("/", self.first),
            Route("/read/counts", self.counts),
            Route("/read/search", self.search),
            Route("/read/waiting", self.waiting),
            Route("/read/mark", self.mark, methods=["POST"]),
            Route("/read/all-read", self.all_read, methods=["POST"]),
            Route("/read/undo", self.undo, methods=["POST"]),
            Route("/read/item/{item_id}", self.item),
            Route("/read/{kind}", self.stream),
            Route("/read/{kind}/{key:path}", self.stream),
            *self.images.routes(),
        ]


async def because(store: Store, item: Item) -> tuple[Because, ...]:
    """The query feeds that show an item, with the words of theirs that stand in it."""
    if item.id is None:
        return ()
    emitted = (await store.queries.emitted([item.id])).get(item.id)
    if emitted is None:
        return ()
    texts = [item.title or "", strip(item.content or item.summary or ""), *item.categories, *item.authors]
    found = []
    for name in sorted(emitted.by):
        try:
            query = await store.queries.find(name)
        except NotFound:
            continue
        found.append(Because(query.name, present(texts, needles(definition(query.active or query.text).query))))
    return tuple(found)


def _ids(given: str) -> list[int]:
    """The numbers of a form's field, with commas between; what is none is passed over."""
    return [number for part in given.split(",")[:1000] if (number := integer(part, most=2**63 - 1))]


def _cursor(given: str | None) -> tuple[float, int] | None:
    """The place where a page begins, out of its address."""
    if not given:
        return None
    at, _, id = given.partition(",")
    number = integer(id, most=2**63 - 1)
    try:
        return None if number is None else (float(at), number)
    except ValueError:
        return None


def _view(request: Request, article: Article | None) -> str:
    if "side" in request.query_params:
        return "side"
    return "article" if article is not None else "list"


def routes(frame: Frame) -> list[Route]:
    return Reader(frame).routes()
