"""The query editor: the text with what is wrong with it, what it would have kept, and the feed that it makes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, InputError, NotFound, QueryError, StoreError
from headwater.language import EVERY, Message, parse
from headwater.language.ast import Create
from headwater.language.examples import GALLERY
from headwater.language.fmt import format_script
from headwater.language.highlight import highlight
from headwater.language.lexer import KEYWORDS
from headwater.model import QueryFeed
from headwater.node.query_explaining import preview
from headwater.query.marking import Piece, marked, needles
from headwater.query.tongues import detector
from headwater.query.words import strip
from headwater.store.people import Remover
from headwater.store.store import Store
from headwater.store.values import QueryStatistics
from headwater.web.frame import Frame, as_json, integer
from headwater.web.pages.notes import Note, said, then, wrong
from headwater.web.pages.writing import FIELDS, written
from headwater.web.session import current

DAYS = 7.0
LATEST = 12
SNIPPET = 160
LISTED = 200
LARGEST = 1 << 20  # of a form: a statement may have 64 KiB, which a browser writes threefold, and a script several
SAID = {
    "changed": "The script is carried out; what it dropped is removed.",
    "created": "The query is saved: it holds for what arrives from now on, and its feed is being filled from the past.",
    "dropped": "The query feed is removed; its sources stay.",
    "back": "The query feed is back, with all that it had published.",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """An item of a preview: the title with the words that were looked for, and a stretch of text around the first."""

    id: int
    feed: str
    published: float
    title: tuple[Piece, ...]
    text: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Previewed:
    """What one query would have kept of the last days."""

    name: str
    kept: int
    looked_at: int
    days: float
    per_day: float
    sources: tuple[tuple[str, int], ...]
    items: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """A query feed in the list."""

    query: QueryFeed
    items: int
    last: float | None


@dataclass(frozen=True, slots=True)
class EditorPage:
    text: str
    html: Markup
    messages: tuple[Message, ...] = ()
    query: QueryFeed | None = None
    statistics: QueryStatistics | None = None
    previews: tuple[Previewed, ...] | None = None
    addresses: tuple[tuple[str, str], ...] = ()
    form: dict[str, str] = field(default_factory=dict)


def coloured(text: str) -> Markup:
    """The text as HTML with its kinds of words as classes."""
    parts, at = [], 0
    for span in highlight(text):
        parts.append(escape(text[at : span.start]))
        parts.append(f'<span class="t-{span.kind}">{escape(text[span.start : span.end])}</span>')
        at = span.end
    return Markup("".join(parts) + escape(text[at:]))


async def checked(store: Store, text: str) -> tuple[Message, ...]:
    """Everything that is wrong with a text, warnings last; nothing if it can be saved."""
    try:
        script = parse(text, await store.queries.catalogue(), replacing=EVERY)
    except QueryError as error:
        return _messages(error.messages)
    if not script.statements:
        return (Message(1, 1, "There is no query yet.", "CREATE FEED Name AS RETURN ALL WHERE …"),)
    return _messages(script.warnings)


def _messages(told: tuple[object, ...]) -> tuple[Message, ...]:
    return tuple(one for one in told if isinstance(one, Message))


async def previewed(store: Store, text: str, now: float, days: float = DAYS) -> tuple[Previewed, ...]:
    """What the queries of a script would have kept; QueryError if it is not well written."""
    script = parse(text, await store.queries.catalogue(), replacing=EVERY)
    creates = [statement for statement in script.statements if isinstance(statement, Create)]
    wanted = {create.name.name: needles(create.query) for create in creates}
    found = await preview(store, creates, days, now, detector(), LATEST)
    feeds = await store.pages.by_ids({item.feed_id for one in found for item in one.latest})
    shown = []
    for one in found:
        items = []
        for item in one.latest:
            feed = feeds.get(item.feed_id)
            text = " ".join(strip(item.content or item.summary or "").split())[:20_000]
            title, pieces = marked(item.title or "Without a title", wanted[one.name]), marked(text, wanted[one.name])
            if not any(piece.found for piece in (*title, *pieces)):  # then it was for a category or an author
                beside = marked(", ".join((*item.categories, *item.authors)), wanted[one.name])
                pieces = beside if any(piece.found for piece in beside) else pieces
            items.append(
                Shown(
                    item.id or 0,
                    (feed.title or feed.url) if feed else "",
                    item.published,
                    title,
                    _around(pieces),
                )
            )
        sources = tuple([(await _title(store, label), number) for label, number in list(one.sources.items())[:8]])
        shown.append(Previewed(one.name, one.kept, one.looked_at, one.days, one.per_day, sources, tuple(items)))
    return tuple(shown)


async def _title(store: Store, label: str) -> str:
    """What people call the feed that queries know by its name or address."""
    try:
        return (await store.feed(label)).title or label
    except NotFound:
        return label


def _around(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The pieces near the first that was found; the beginning where none was."""
    first = next((k for k, piece in enumerate(pieces) if piece.found), None)
    if first is None:
        start = pieces[0].text[:SNIPPET] if pieces else ""
        return (Piece(start + ("…" if pieces and len(pieces[0].text) > SNIPPET else ""), False),)
    before = pieces[first - 1].text if first else ""
    cut = before if len(before) <= SNIPPET // 2 else "…" + before[-SNIPPET // 2 :]
    kept, room = [Piece(cut, False)], SNIPPET
    for piece in pieces[first:]:
        if room <= 0:
            break
        short = piece.text if piece.found or len(piece.text) <= room else piece.text[:room] + "…"
        kept.append(Piece(short, piece.found))
        room -= len(short)
    return tuple(kept)


async def listed(store: Store, after: int, limit: int) -> list[Listed]:
    """Query feeds beyond an id, in the order in which they were made."""
    found = await store.queries.some(after=after, limit=limit)
    counts = await store.queries.counts([query.id for query in found])
    return [Listed(query, *counts.get(query.id, (0, None))) for query in found]


async def save(store: Store, text: str, now: float, author: int) -> tuple[str, str | None]:
    """Carry the script out; the name of the query feed it created last, empty if none, and the numbers by which what it
    dropped is taken back. Who edits a query means the one that is there, so that no OR REPLACE is needed."""
    done = await store.queries.execute(text, now, subscriber=author, replacing=EVERY)
    made = [one.name for one in done.done if one.action in ("created", "replaced")]
    return made[-1] if made else "", ",".join(map(str, done.undo)) or None


def routes(frame: Frame) -> list[Route]:
    store = frame.store

    async def listing(request: Request) -> Response:
        await current(request)
        after = integer(request.query_params.get("after"), 0, 2**53) or 0
        rows = await listed(store, after, LISTED + 1)
        return frame.page(
            request,
            "queries.html",
            rows=rows[:LISTED],
            more=rows[LISTED - 1].query.id if len(rows) > LISTED else None,
            gallery=GALLERY,
            base=frame.base,
            note=said(request, SAID),
        )

    async def new(request: Request) -> Response:
        await current(request, "admin")
        example = integer(request.query_params.get("example"), None, len(GALLERY) - 1)
        text = request.query_params.get("text", "")[:10_000]
        if example is not None:
            text = format_script(parse(GALLERY[example].text)).strip()
        return await _page(request, text)

    async def edit(request: Request) -> Response:
        await current(request, "admin")
        query = await store.queries.find(request.path_params["name"])
        return await _page(request, query.text, query=query, note=said(request, SAID))

    async def work(request: Request) -> Response:
        user = await current(request, "admin")
        form = await frame.forms.read(request, LARGEST)
        text, what = form.get("text", ""), form.get("do", "check")
        part = request.headers.get("x-part", "")
        if part == "check":
            return as_json({"messages": [asdict(one) for one in await checked(store, text)]})
        if part == "build":
            return _built(form)
        if part == "preview":
            return await _fragment(text)
        try:
            if what == "build":
                return await _page(request, written(form), form=form)
            if what == "save":
                name, undo = await save(store, text, frame.clock(), user.id)
                done = "changed" if undo and name else "dropped" if undo else "created"
                return then(f"/queries/{name}" if name else "/queries", said=done, undo=undo)
        except StoreError:
            raise
        except QueryError as error:
            return await _page(request, text, messages=_messages(error.messages), status=400)
        except HeadwaterError as error:
            return await _page(request, text, form=form, note=wrong(error, form), status=400)
        return await _page(request, text, messages=await checked(store, text), look_back=what == "preview")

    async def drop(request: Request) -> Response:
        user = await current(request, "admin")
        form = await frame.forms.read(request)
        name = request.path_params["name"]
        try:
            by = Remover(user.id, frame.clock())
            gone = await store.queries.drop(name, cascade=bool(form.get("cascade")), by=by)
        except InputError as error:
            query = await store.queries.find(name)
            return await _page(request, query.text, query=query, note=wrong(error, form, "drop"), status=400)
        return then("/queries", said="dropped", undo=gone.undo)

    def _built(form: dict[str, str]) -> Response:
        try:
            return as_json({"text": written(form), "problem": None})
        except InputError as error:
            return as_json({"text": None, "problem": str(error), "field": error.field})

    async def _fragment(text: str) -> Response:
        try:
            found = await previewed(store, text, frame.clock())
        except QueryError:
            return frame.bare("preview.html", previews=None)
        return frame.bare("preview.html", previews=found)

    async def _page(
        request: Request,
        text: str,
        *,
        query: QueryFeed | None = None,
        messages: tuple[Message, ...] = (),
        form: dict[str, str] | None = None,
        note: Note | None = None,
        look_back: bool = True,
        status: int = 200,
    ) -> Response:
        now = frame.clock()
        previews = None
        if look_back and text.strip() and not messages:
            try:
                previews = await previewed(store, text, now)
            except QueryError as error:
                messages = _messages(error.messages)
        page = EditorPage(
            text=text,
            html=coloured(text),
            messages=messages,
            query=query,
            statistics=await store.queries.statistics(query, now) if query else None,
            previews=previews,
            addresses=tuple(_addresses(frame.base, query.name)) if query else (),
            form=form or {},
        )
        values: dict[str, Any] = {"gallery": GALLERY, "fields": FIELDS, "keywords": " ".join(sorted(KEYWORDS))}
        tags = [tag for tag, _ in (await store.tags())[:200]]
        return frame.page(request, "editor.html", status, page=page, note=note, tags=tags, **values)

    return [
        Route("/queries", listing),
        Route("/queries/new", new),
        Route("/queries/edit", work, methods=["POST"]),
        Route("/queries/{name}", edit),
        Route("/queries/{name}/drop", drop, methods=["POST"]),
    ]


def _addresses(base: str, name: str) -> list[tuple[str, str]]:
    kinds = (("RSS", "rss"), ("Atom", "atom"), ("JSON Feed", "json"), ("Page", "html"))
    return [(word, f"{base}/feeds/{name}.{suffix}") for word, suffix in kinds] + [
        ("Live stream", f"{base}/feeds/{name}/live")
    ]
