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
from headwater.language.formatter import format_script
from headwater.language.highlighter import highlight_script
from headwater.language.parsing.lexer import KEYWORDS
from headwater.model import QueryFeed
from headwater.store.people import Remover
from headwater.store.store import Store
from headwater.store.values import QueryStatistics
from headwater.web.auth.authentication import require_user
from headwater.web.page import FlashMessage, make_field_error, read_flash, redirect_with_flash
from headwater.web.pages.query_builder import FIELDS, build_query
from headwater.web.pages.query_preview import ShownPreview, preview_script
from headwater.web.site import Site, json_response, parse_integer

LIST_SIZE = 200
LARGEST_SCRIPT = (
    1 << 20
)  # of a form: a statement may have 64 KiB, which a browser writes threefold, and a script several
FLASH = {
    "changed": "The script is carried out; what it dropped is removed.",
    "created": "The query is saved: it holds for what arrives from now on, and its feed is being filled from the past.",
    "dropped": "The query feed is removed; its sources stay.",
    "back": "The query feed is back, with all that it had published.",
}


@dataclass(frozen=True, slots=True)
class ListedQuery:
    """A query feed in the list."""

    query: QueryFeed
    items: int
    last: float | None


@dataclass(frozen=True, slots=True)
class EditedQuery:
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
    previews: tuple[ShownPreview, ...] | None = None
    addresses: tuple[tuple[str, str], ...] = ()
    form: dict[str, str] = field(default_factory=dict)


def highlight_query(text: str) -> Markup:
    """The text as HTML with its kinds of words as classes."""
    parts, at = [], 0
    for span in highlight_script(text):
        parts.append(escape(text[at : span.start]))
        parts.append(f'<span class="t-{span.kind}">{escape(text[span.start : span.end])}</span>')
        at = span.end
    return Markup("".join(parts) + escape(text[at:]))


async def check_query(store: Store, text: str) -> tuple[Message, ...]:
    """Everything that is wrong with a text, warnings last; nothing if it can be saved."""
    try:
        script = parse(text, await store.queries.catalogue(), replacing=EVERY)
    except QueryError as error:
        return _collect_messages(error.messages)
    if not script.statements:
        return (Message(1, 1, "There is no query yet.", "CREATE FEED Name AS RETURN ALL WHERE …"),)
    return _collect_messages(script.warnings)


def _collect_messages(told: tuple[object, ...]) -> tuple[Message, ...]:
    return tuple(one for one in told if isinstance(one, Message))


async def list_queries(store: Store, after: int, limit: int) -> list[ListedQuery]:
    """Query feeds beyond an id, in the order in which they were made."""
    found = await store.queries.some(after=after, limit=limit)
    counts = await store.queries.counts([query.id for query in found])
    return [ListedQuery(query, *counts.get(query.id, (0, None))) for query in found]


async def save_query(store: Store, text: str, now: float, author: int) -> tuple[str, str | None]:
    """Carry the script out; the name of the query feed it created last, empty if none, and the numbers by which what it
    dropped is taken back. Who edits a query means the one that is there, so that no OR REPLACE is needed."""
    done = await store.queries.execute(text, now, subscriber=author, replacing=EVERY)
    made = [one.name for one in done.done if one.action in ("created", "replaced")]
    return made[-1] if made else "", ",".join(map(str, done.undo)) or None


class QueryEditorPages:
    """The pages of query feeds."""

    def __init__(self, frame: Site) -> None:
        self._frame = frame
        self._store = frame.store

    async def show_queries(self, request: Request) -> Response:
        await require_user(request)
        after = parse_integer(request.query_params.get("after"), 0, 2**53) or 0
        rows = await list_queries(self._store, after, LIST_SIZE + 1)
        return self._frame.render_page(
            request,
            "queries.html",
            rows=rows[:LIST_SIZE],
            more=rows[LIST_SIZE - 1].query.id if len(rows) > LIST_SIZE else None,
            gallery=GALLERY,
            base=self._frame.base_url,
            note=read_flash(request, FLASH),
        )

    async def show_new_query(self, request: Request) -> Response:
        await require_user(request, "admin")
        example = parse_integer(request.query_params.get("example"), None, len(GALLERY) - 1)
        text = request.query_params.get("text", "")[:10_000]
        if example is not None:
            text = format_script(parse(GALLERY[example].text)).strip()
        return await self._render_editor(request, EditedQuery(text))

    async def show_query(self, request: Request) -> Response:
        await require_user(request, "admin")
        query = await self._store.queries.find(request.path_params["name"])
        return await self._render_editor(request, EditedQuery(query.text, query), read_flash(request, FLASH))

    async def submit_query(self, request: Request) -> Response:
        user = await require_user(request, "admin")
        form = await self._frame.forms.read_form(request, LARGEST_SCRIPT)
        text, what = form.get("text", ""), form.get("do", "check")
        part = request.headers.get("x-part", "")
        if part:
            return await self._render_part(part, text, form)
        try:
            if what == "build":
                return await self._render_editor(request, EditedQuery(build_query(form), form=form))
            if what == "save":
                name, undo = await save_query(self._store, text, self._frame.clock(), user.id)
                done = "changed" if undo and name else "dropped" if undo else "created"
                return redirect_with_flash(f"/queries/{name}" if name else "/queries", said=done, undo=undo)
        except StoreError:
            raise
        except QueryError as error:
            return await self._render_editor(
                request, EditedQuery(text, messages=_collect_messages(error.messages)), status=400
            )
        except HeadwaterError as error:
            return await self._render_editor(
                request, EditedQuery(text, form=form), make_field_error(error, form), status=400
            )
        messages = await check_query(self._store, text)
        return await self._render_editor(request, EditedQuery(text, messages=messages, look_back=what == "preview"))

    async def _render_part(self, part: str, text: str, form: dict[str, str]) -> Response:
        """What the page's script asks for while one writes."""
        if part == "check":
            return json_response({"messages": [asdict(one) for one in await check_query(self._store, text)]})
        if part == "build":
            try:
                return json_response({"text": build_query(form), "problem": None})
            except InputError as error:
                return json_response({"text": None, "problem": str(error), "field": error.field})
        try:
            found = await preview_script(self._store, text, self._frame.clock())
        except QueryError:
            found = None
        return self._frame.render_part("preview.html", previews=found)

    async def drop_query(self, request: Request) -> Response:
        user = await require_user(request, "admin")
        form = await self._frame.forms.read_form(request)
        name = request.path_params["name"]
        try:
            by = Remover(user.id, self._frame.clock())
            gone = await self._store.queries.drop(name, cascade=bool(form.get("cascade")), by=by)
        except InputError as error:
            query = await self._store.queries.find(name)
            return await self._render_editor(
                request, EditedQuery(query.text, query), make_field_error(error, form, "drop"), status=400
            )
        return redirect_with_flash("/queries", said="dropped", undo=gone.undo)

    async def _render_editor(
        self, request: Request, edited: EditedQuery, note: FlashMessage | None = None, status: int = 200
    ) -> Response:
        now, store, query, messages = self._frame.clock(), self._store, edited.query, edited.messages
        previews = None
        if edited.look_back and edited.text.strip() and not messages:
            try:
                previews = await preview_script(store, edited.text, now)
            except QueryError as error:
                messages = _collect_messages(error.messages)
        page = EditorPage(
            text=edited.text,
            html=highlight_query(edited.text),
            messages=messages,
            query=query,
            statistics=await store.queries.statistics(query, now) if query else None,
            previews=previews,
            addresses=tuple(_published_addresses(self._frame.base_url, query.name)) if query else (),
            form=edited.form,
        )
        values: dict[str, Any] = {"gallery": GALLERY, "fields": FIELDS, "keywords": " ".join(sorted(KEYWORDS))}
        tags = [tag for tag, _ in (await store.tags())[:200]]
        return self._frame.render_page(request, "editor.html", status, page=page, note=note, tags=tags, **values)

    def routes(self) -> list[Route]:
        return [
            Route("/queries", self.show_queries),
            Route("/queries/new", self.show_new_query),
            Route("/queries/edit", self.submit_query, methods=["POST"]),
            Route("/queries/{name}", self.show_query),
            Route("/queries/{name}/drop", self.drop_query, methods=["POST"]),
        ]


def _published_addresses(base: str, name: str) -> list[tuple[str, str]]:
    kinds = (("RSS", "rss"), ("Atom", "atom"), ("JSON Feed", "json"), ("Page", "html"))
    return [(word, f"{base}/feeds/{name}.{suffix}") for word, suffix in kinds] + [
        ("Live stream", f"{base}/feeds/{name}/live")
    ]


def routes(frame: Site) -> list[Route]:
    return QueryEditorPages(frame).routes()
