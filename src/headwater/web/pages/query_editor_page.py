"""The query pages: list, edit, check, preview and save queries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any
from urllib.parse import quote

import orjson
from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from headwater.errors import InputError, QueryError
from headwater.language import EVERY, Message, parse
from headwater.language.checker import complete_title
from headwater.language.examples import GALLERY
from headwater.language.formatter import format_script
from headwater.language.highlighter import highlight_script
from headwater.language.parsing.lexer import KEYWORDS, MAX_STATEMENT_BYTES
from headwater.model import QueryFeed
from headwater.node.quality.promises import PromiseReport, find_promise
from headwater.publish.delivery.delivery_check import check_deliveries
from headwater.store.content.feeds import count_feed_tags
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.publishing.private_feeds import set_visibility
from headwater.store.queries.hits import QueryStatistics, compute_query_statistics, count_hits_by_query
from headwater.store.queries.query_access import (
    change_description,
    find_readable_query,
    list_readable_queries,
    owns_query,
)
from headwater.store.queries.query_feeds import load_catalogue
from headwater.store.queries.query_ownership import ReaderLimits
from headwater.store.queries.query_scripts import drop_query_feed, run_script
from headwater.store.queries.source_references import find_empty_tags
from headwater.store.readers.accounts import READ, WRITE, User
from headwater.store.readers.subscriptions import (
    count_subscription_tags,
    find_subscription,
    subscribe_to_query_feed,
)
from headwater.store.store import Store
from headwater.web.page import PageGroup, Visit
from headwater.web.pages.query_builder import FIELDS, build_query, read_form
from headwater.web.pages.query_preview import ShownPreview, preview_script, stream_script_previews
from headwater.web.pages.sidebar import query_path
from headwater.web.shared.reader_feeds import find_own_query
from headwater.web.site import json_response, parse_integer

LIST_SIZE = 200
MAX_SCRIPT_BYTES = 1 << 20  # a statement may have 64 KiB, of which a form makes up to three times as much
FLASH = {
    "changed": "Script executed; dropped query feeds are removed.",
    "shared": "Description and visibility saved.",
    "created": "Query saved. Its feed is being filled with past items.",
    "dropped": "Query feed removed. Its sources stay.",
    "back": "Query feed restored, with its items.",
}


pages = PageGroup(FLASH)


@dataclass(frozen=True, slots=True)
class ListedQuery:
    """A query feed in the list."""

    query: QueryFeed
    items: int
    last: float | None
    mine: bool


@dataclass(frozen=True, slots=True)
class EditedQuery:
    """A text in the editor, with its query feed, its messages, and the builder's fields. With `look_back`, a valid text
    is previewed."""

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
    note: str | None = None
    statistics: QueryStatistics | None = None
    previews: tuple[ShownPreview, ...] | None = None
    addresses: tuple[tuple[str, str], ...] = ()
    form: dict[str, str] = field(default_factory=dict)
    beyond_form: bool = False  # the text says more than the form can
    promise: PromiseReport | None = None
    subscribed: bool = False


def highlight_query(text: str) -> Markup:
    """Return the text as HTML, each token with its kind as a class."""
    parts, at = [], 0
    for span in highlight_script(text):
        parts.append(escape(text[at : span.start]))
        parts.append(f'<span class="t-{span.kind}">{escape(text[span.start : span.end])}</span>')
        at = span.end
    return Markup("".join(parts) + escape(text[at:]))


async def check_query(store: Store, text: str, reader_id: int | None = None) -> tuple[Message, ...]:
    """Return the errors and warnings of a text; an empty tuple if it can be saved."""
    try:
        script = parse(text, await store.read(load_catalogue, reader_id), replacing=EVERY)
    except QueryError as error:
        return _collect_messages(error.messages)
    if not script.statements:
        return (Message(1, 1, "The script is empty.", "CREATE FEED Name AS RETURN ALL WHERE …"),)
    return _collect_messages(script.warnings)


def _collect_messages(details: tuple[object, ...]) -> tuple[Message, ...]:
    return tuple(one for one in details if isinstance(one, Message))


async def list_queries(store: Store, user: User, after: int, limit: int) -> list[ListedQuery]:
    """List the query feeds that a user may read, in the order of creation, from those after an id on."""
    found = await store.read(list_readable_queries, user, after=after, limit=limit)
    counts = await store.read(count_hits_by_query, [query.id for query in found])
    rows = []
    for query in found:
        items, last = counts.get(query.id, (0, None))
        rows.append(ListedQuery(query, items, last, owns_query(user, query)))
    return rows


async def save_query(
    store: Store, text: str, now: float, author: int, limits: ReaderLimits | None = None
) -> tuple[str, str | None]:
    """Run the script. Return the name of the last created query feed (empty: none) and the ids that undo drops.

    Saving replaces a query of the same name, also without OR REPLACE: the editor shows the one that exists.
    InputError if the script has no statement.
    """
    done = await store.write(run_script, text, now, subscriber=author, replacing=EVERY, limits=limits)
    if not done.done:
        raise InputError("The text contains no statement. Write a query: CREATE FEED name AS RETURN …;", "text")
    made = [one.name for one in done.done if one.action in ("created", "replaced")]
    return made[-1] if made else "", ",".join(map(str, done.undo)) or None


@pages.get("/queries", READ)
async def show_queries(visit: Visit) -> Response:
    after = parse_integer(visit.query("after"), 0, 2**53) or 0
    rows = await list_queries(visit.store, visit.user, after, LIST_SIZE + 1)
    return visit.render(
        "query_list_page.html",
        rows=rows[:LIST_SIZE],
        notes=await visit.store.read(find_empty_tags, [row.query for row in rows if row.mine]),
        more=rows[LIST_SIZE - 1].query.id if len(rows) > LIST_SIZE else None,
        gallery=GALLERY,
        base=visit.site.base_url,
    )


@pages.get("/queries/new", WRITE)
async def show_new_query(visit: Visit) -> Response:
    example = parse_integer(visit.query("example"), None, len(GALLERY) - 1)
    text = visit.query("text")[:10_000]
    if example is not None:
        text = format_script(parse(GALLERY[example].text)).strip()
    return await _render_editor(visit, EditedQuery(text))


@pages.get("/queries/{name}", READ)
async def show_query(visit: Visit) -> Response:
    """Show the editor to the owner of a query feed, and its description to others."""
    query = await visit.store.read(find_readable_query, visit.user, visit.path("name"))
    if owns_query(visit.user, query):
        return await _render_editor(visit, EditedQuery(query.text, query))
    statistics = await visit.store.read(compute_query_statistics, query.id, visit.now)
    subscribed = await _subscribes(visit, query)
    addresses = _published_addresses(visit.site.base_url, query.name)
    return visit.render(
        "shared_query_page.html", query=query, statistics=statistics, subscribed=subscribed, addresses=addresses
    )


async def _subscribes(visit: Visit, query: QueryFeed) -> bool:
    return await visit.store.read(find_subscription, visit.user.id, query_id=query.id) is not None


@pages.post("/queries/{name}/subscribe", WRITE)
async def subscribe_to_query(visit: Visit) -> Response:
    query = await visit.store.read(find_readable_query, visit.user, visit.path("name"))
    await visit.store.write(subscribe_to_query_feed, visit.user.id, query.id, visit.now)
    return visit.redirect(query_path(query.name))


@pages.post("/queries/{name}/share", WRITE, error_page=show_query, error_field="visibility")
async def share_query(visit: Visit) -> Response:
    """Set the description of a query feed and who may read it."""
    query = await find_own_query(visit.store, visit.user, visit.path("name"))
    await visit.store.write(change_description, query.id, visit.field("description"))
    await visit.store.write(set_visibility, f"/feeds/{query.name}", visit.field("visibility"))
    return visit.redirect(f"/queries/{quote(query.name, safe='')}", flash="shared")


async def _show_rejected_query(visit: Visit) -> Response:
    """Show the editor again: messages of the language stand in the text, other errors at their field."""
    text, form = visit.form.get("text", ""), dict(visit.form)
    if isinstance(visit.error, QueryError):
        return await _render_editor(
            replace(visit, flash=None), EditedQuery(text, messages=_collect_messages(visit.error.messages))
        )
    return await _render_editor(visit, EditedQuery(text, form=form))


@pages.post("/queries/edit", WRITE, error_page=_show_rejected_query, form_limit=MAX_SCRIPT_BYTES)
async def submit_query(visit: Visit) -> Response:
    """Build, check, preview or save the text of the editor."""
    form = dict(visit.form)
    text, action = form.get("text", ""), form.get("do", "check")
    if visit.part:
        return await _answer_script(visit, text, form)
    if action == "build":
        return await _render_editor(visit, EditedQuery(build_query(form, await _list_names(visit)), form=form))
    if action == "save":
        await asyncio.to_thread(check_deliveries, text, visit.site.settings)
        name, undo = await save_query(
            visit.store, text, visit.now, visit.user.id, visit.site.reader_quota.limits_for(visit.user)
        )
        flash = "changed" if undo and name else "dropped" if undo else "created"
        return visit.redirect(f"/queries/{name}" if name else "/queries", flash=flash, undo=undo)
    messages = await check_query(visit.store, text, _reader_id(visit))
    return await _render_editor(visit, EditedQuery(text, messages=messages, look_back=action == "preview"))


async def _answer_script(visit: Visit, text: str, form: dict[str, str]) -> Response:
    """Answer the page's script, which asks while one types."""
    if visit.part == "check":
        return json_response(
            {"messages": [asdict(one) for one in await check_query(visit.store, text, _reader_id(visit))]}
        )
    if visit.part == "complete":
        known = await visit.store.read(load_catalogue, _reader_id(visit))
        names = known.tags if form.get("kind") == "TAG" else [title for title, _ in known.titles]
        return json_response({"found": complete_title(form.get("typed", ""), names)})
    if visit.part == "build":
        try:
            return json_response({"text": build_query(form, await _list_names(visit)), "problem": None})
        except InputError as error:
            return json_response({"text": None, "problem": str(error), "field": error.field})
    return StreamingResponse(_stream_preview(visit, text), media_type="application/x-ndjson")


async def _stream_preview(visit: Visit, text: str) -> AsyncIterator[bytes]:
    """Yield the preview as a line of JSON after each step: the share that is done, and the HTML so far."""
    try:
        async for previews in stream_script_previews(visit.store, text, visit.now, visit.user):
            html = bytes(visit.site.render_part("_preview.html", previews=previews).body).decode()
            yield orjson.dumps({"done": min((one.done for one in previews), default=1.0), "html": html}) + b"\n"
    except QueryError:
        html = bytes(visit.site.render_part("_preview.html", previews=None).body).decode()
        yield orjson.dumps({"done": 1.0, "html": html}) + b"\n"


@pages.post("/queries/{name}/drop", WRITE, error_page=show_query, error_field="drop")
async def drop_query(visit: Visit) -> Response:
    by = Remover(visit.user.id, visit.now)
    query = await find_own_query(visit.store, visit.user, visit.path("name"))
    dropped = await visit.store.write(drop_query_feed, query.name, cascade=bool(visit.form.get("cascade")), by=by)
    return visit.redirect("/queries", flash="dropped", undo=dropped.undo)


async def _render_editor(visit: Visit, edited: EditedQuery) -> Response:
    store, query, messages = visit.store, edited.query, edited.messages
    previews = None
    if edited.look_back and edited.text.strip() and not messages:
        try:
            first = query is not None  # the page is not kept waiting; its script asks for the rest
            previews = await preview_script(store, edited.text, visit.now, visit.user, first_step=first)
        except QueryError as error:
            messages = _collect_messages(error.messages)
    form = read_form(edited.text)
    page = EditorPage(
        text=edited.text,
        html=highlight_query(edited.text),
        messages=messages,
        query=query,
        note=(await store.read(find_empty_tags, [query])).get(query.id) if query else None,
        statistics=await store.read(compute_query_statistics, query.id, visit.now) if query else None,
        previews=previews,
        addresses=tuple(_published_addresses(visit.site.base_url, query.name)) if query else (),
        form=edited.form or form or {},
        beyond_form=bool(edited.text.strip()) and not edited.form and form is None,
        promise=await find_promise(store, query.name, visit.now) if query else None,
        subscribed=query is not None and await _subscribes(visit, query),
    )
    values: dict[str, Any] = {"gallery": GALLERY, "fields": FIELDS, "keywords": " ".join(sorted(KEYWORDS))}
    values["longest"] = MAX_STATEMENT_BYTES
    if visit.user.is_owner:
        tags = [tag for tag, _ in (await store.read(count_feed_tags))[:200]]
    else:
        tags = sorted(await store.read(count_subscription_tags, visit.user.id))[:200]
    return visit.render("query_editor_page.html", page=page, tags=tags, **values)


async def _list_names(visit: Visit) -> Collection[str]:
    """Return the folded names of the feeds and queries that the user may name."""
    return (await visit.store.read(load_catalogue, _reader_id(visit))).names


def _reader_id(visit: Visit) -> int | None:
    """Return the reader whose queries see their own feeds only; None for owners."""
    return None if visit.user.is_owner else visit.user.id


def _published_addresses(base: str, name: str) -> list[tuple[str, str]]:
    kinds = (("RSS", "rss"), ("Atom", "atom"), ("JSON Feed", "json"), ("Page", "html"))
    return [(word, f"{base}/feeds/{name}.{suffix}") for word, suffix in kinds] + [
        ("Live stream", f"{base}/feeds/{name}/live")
    ]
