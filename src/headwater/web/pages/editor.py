"""The query editor: the text with what is wrong with it, what it would have kept, and the feed that it makes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, InputError, QueryError, StoreError
from headwater.language import EVERY, Message, parse
from headwater.language.examples import GALLERY
from headwater.language.fmt import format_script
from headwater.language.highlight import highlight
from headwater.language.lexer import KEYWORDS
from headwater.model import QueryFeed
from headwater.store.people import Remover
from headwater.store.store import Store
from headwater.store.values import QueryStatistics
from headwater.web.frame import Frame, as_json, integer
from headwater.web.pages.notes import Note, said, then, wrong
from headwater.web.pages.previewing import Previewed, previewed
from headwater.web.pages.writing import FIELDS, written
from headwater.web.session import current

LISTED = 200
LARGEST = 1 << 20  # of a form: a statement may have 64 KiB, which a browser writes threefold, and a script several
SAID = {
    "changed": "The script is carried out; what it dropped is removed.",
    "created": "The query is saved: it holds for what arrives from now on, and its feed is being filled from the past.",
    "dropped": "The query feed is removed; its sources stay.",
    "back": "The query feed is back, with all that it had published.",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """A query feed in the list."""

    query: QueryFeed
    items: int
    last: float | None


@dataclass(frozen=True, slots=True)
class Edited:
    """A text in the editor, of which query feed it is, what is known to be wrong with it, and the fields of the form it
    was made by. `look_back`: what it would have kept is shown too, where nothing is wrong."""

    text: str
    query: QueryFeed | None = None
    messages: tuple[Message, ...] = ()
    form: dict[str, str] = field(default_factory=dict)
    look_back: bool = True


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


class Editor:
    """The pages of query feeds."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._store = frame.store

    async def listing(self, request: Request) -> Response:
        await current(request)
        after = integer(request.query_params.get("after"), 0, 2**53) or 0
        rows = await listed(self._store, after, LISTED + 1)
        return self._frame.page(
            request,
            "queries.html",
            rows=rows[:LISTED],
            more=rows[LISTED - 1].query.id if len(rows) > LISTED else None,
            gallery=GALLERY,
            base=self._frame.base,
            note=said(request, SAID),
        )

    async def new(self, request: Request) -> Response:
        await current(request, "admin")
        example = integer(request.query_params.get("example"), None, len(GALLERY) - 1)
        text = request.query_params.get("text", "")[:10_000]
        if example is not None:
            text = format_script(parse(GALLERY[example].text)).strip()
        return await self._page(request, Edited(text))

    async def edit(self, request: Request) -> Response:
        await current(request, "admin")
        query = await self._store.queries.find(request.path_params["name"])
        return await self._page(request, Edited(query.text, query), said(request, SAID))

    async def work(self, request: Request) -> Response:
        user = await current(request, "admin")
        form = await self._frame.forms.read(request, LARGEST)
        text, what = form.get("text", ""), form.get("do", "check")
        part = request.headers.get("x-part", "")
        if part:
            return await self._part(part, text, form)
        try:
            if what == "build":
                return await self._page(request, Edited(written(form), form=form))
            if what == "save":
                name, undo = await save(self._store, text, self._frame.clock(), user.id)
                done = "changed" if undo and name else "dropped" if undo else "created"
                return then(f"/queries/{name}" if name else "/queries", said=done, undo=undo)
        except StoreError:
            raise
        except QueryError as error:
            return await self._page(request, Edited(text, messages=_messages(error.messages)), status=400)
        except HeadwaterError as error:
            return await self._page(request, Edited(text, form=form), wrong(error, form), status=400)
        messages = await checked(self._store, text)
        return await self._page(request, Edited(text, messages=messages, look_back=what == "preview"))

    async def _part(self, part: str, text: str, form: dict[str, str]) -> Response:
        """What the page's script asks for while one writes."""
        if part == "check":
            return as_json({"messages": [asdict(one) for one in await checked(self._store, text)]})
        if part == "build":
            try:
                return as_json({"text": written(form), "problem": None})
            except InputError as error:
                return as_json({"text": None, "problem": str(error), "field": error.field})
        try:
            found = await previewed(self._store, text, self._frame.clock())
        except QueryError:
            found = None
        return self._frame.bare("preview.html", previews=found)

    async def drop(self, request: Request) -> Response:
        user = await current(request, "admin")
        form = await self._frame.forms.read(request)
        name = request.path_params["name"]
        try:
            by = Remover(user.id, self._frame.clock())
            gone = await self._store.queries.drop(name, cascade=bool(form.get("cascade")), by=by)
        except InputError as error:
            query = await self._store.queries.find(name)
            return await self._page(request, Edited(query.text, query), wrong(error, form, "drop"), status=400)
        return then("/queries", said="dropped", undo=gone.undo)

    async def _page(self, request: Request, edited: Edited, note: Note | None = None, status: int = 200) -> Response:
        now, store, query, messages = self._frame.clock(), self._store, edited.query, edited.messages
        previews = None
        if edited.look_back and edited.text.strip() and not messages:
            try:
                previews = await previewed(store, edited.text, now)
            except QueryError as error:
                messages = _messages(error.messages)
        page = EditorPage(
            text=edited.text,
            html=coloured(edited.text),
            messages=messages,
            query=query,
            statistics=await store.queries.statistics(query, now) if query else None,
            previews=previews,
            addresses=tuple(_addresses(self._frame.base, query.name)) if query else (),
            form=edited.form,
        )
        values: dict[str, Any] = {"gallery": GALLERY, "fields": FIELDS, "keywords": " ".join(sorted(KEYWORDS))}
        tags = [tag for tag, _ in (await store.tags())[:200]]
        return self._frame.page(request, "editor.html", status, page=page, note=note, tags=tags, **values)

    def routes(self) -> list[Route]:
        return [
            Route("/queries", self.listing),
            Route("/queries/new", self.new),
            Route("/queries/edit", self.work, methods=["POST"]),
            Route("/queries/{name}", self.edit),
            Route("/queries/{name}/drop", self.drop, methods=["POST"]),
        ]


def _addresses(base: str, name: str) -> list[tuple[str, str]]:
    kinds = (("RSS", "rss"), ("Atom", "atom"), ("JSON Feed", "json"), ("Page", "html"))
    return [(word, f"{base}/feeds/{name}.{suffix}") for word, suffix in kinds] + [
        ("Live stream", f"{base}/feeds/{name}/live")
    ]


def routes(frame: Frame) -> list[Route]:
    return Editor(frame).routes()
