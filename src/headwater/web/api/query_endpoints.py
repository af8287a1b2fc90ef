"""Endpoints of query feeds: check, format, preview, create, replace, drop and explain them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from headwater.errors import InputError, QueryError
from headwater.language import EVERY, parse
from headwater.language.ast import CreateFeed
from headwater.language.formatter import format_script
from headwater.model import Item, QueryFeed
from headwater.node.quality.promises import PromiseReport
from headwater.node.queries.preview import preview_queries
from headwater.node.queries.query_explanation import SourceShare, explain_query
from headwater.publish.delivery.delivery_check import check_deliveries
from headwater.query.index.access_path import AccessExplanation
from headwater.query.items.language_detection import make_language_detector
from headwater.store.content.articles import want_articles
from headwater.store.publishing.private_feeds import set_visibility
from headwater.store.queries import query_scripts
from headwater.store.queries.document_hits import load_item_origins
from headwater.store.queries.hits import StoredHit, compute_query_statistics, count_hits_by_query, list_latest_hits
from headwater.store.queries.query_access import (
    PRIVATE,
    change_description,
    find_readable_query,
    list_readable_queries,
    owns_query,
)
from headwater.store.queries.query_feeds import load_catalogue
from headwater.store.queries.query_scripts import StatementResult, drop_query_feed
from headwater.store.queries.selectivity import list_selectivity
from headwater.store.readers.accounts import User
from headwater.store.readers.reader_items import hide_foreign_addresses
from headwater.web.api.api_types import (
    Cursor,
    Id,
    Limit,
    ListPage,
    ListParameters,
    RemovedView,
    Script,
    ShortText,
    Time,
    decode_cursor,
    paginate,
)
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, Parameters, RequestBody, ResponseBody
from headwater.web.api.feed_endpoints import ArticleWish
from headwater.web.api.openapi import ErrorDetail, script_messages
from headwater.web.shared.reader_feeds import find_own_query

query_group = EndpointGroup(
    "queries",
    "Standing queries and their query feeds: yours with their definitions, and the results of those that others share.",
)


class QueryView(ResponseBody, frozen=True):
    """A query feed. Its text is empty unless it is yours."""

    id: int
    name: str
    description: str | None
    visibility: Literal["private", "shared", "public"]
    mine: bool
    text: str
    items: int
    last_match: float | None
    importance: float
    created: Time
    replaced: float | None
    live: bool
    problem: str | None


def view_query(query: QueryFeed, user: User, items: int, last: float | None) -> QueryView:
    """Show a query feed to a user: the definition and its problem only to the owner."""
    live, mine = not query.is_pending and query.problem is None, owns_query(user, query)
    hidden = {} if mine else {"text": "", "problem": None}
    shown = {"visibility": query.visibility or PRIVATE, "mine": mine, "items": items, "last_match": last, "live": live}
    return QueryView.from_row(query, **shown, **hidden)


def _reader_id(call: ApiCall) -> int | None:
    """Return the reader whose queries see their own feeds only; None for owners."""
    return None if call.user.is_owner else call.user.id


async def find_visible_query(call: ApiCall, name: str) -> QueryFeed:
    """Return a query feed whose result the caller may see. Raise NotFound."""
    return await call.store.read(find_readable_query, call.user, name)


@query_group.get("/queries")
async def list_queries(call: ApiCall, parameters: ListParameters) -> ListPage[QueryView]:
    """List the query feeds that you may read, in the order in which they were created."""
    after = decode_cursor(parameters.cursor, int)
    rows = await call.store.read(
        list_readable_queries, call.user, after=after[0] if after else 0, limit=parameters.limit + 1
    )
    counts = await call.store.read(count_hits_by_query, [query.id for query in rows])

    def counted(query: QueryFeed) -> QueryView:
        items, last = counts.get(query.id, (0, None))
        return view_query(query, call.user, items, last)

    return paginate(rows, parameters.limit, counted, lambda query: (query.id,))


class ScriptRequest(RequestBody, frozen=True):
    text: Script


class CheckedScriptView(ResponseBody, frozen=True):
    """Whether a script is valid, with its errors and warnings."""

    ok: bool
    statements: int
    queries: list[str]
    messages: list[ErrorDetail]


@query_group.post("/queries/check", "read")
async def check_script(call: ApiCall, body: ScriptRequest) -> CheckedScriptView:
    """Check a script: list its errors and warnings with their positions and hints."""
    catalogue = await call.store.read(load_catalogue, _reader_id(call))
    try:
        script = parse(body.text, catalogue)
    except QueryError as error:
        return CheckedScriptView(ok=False, statements=0, queries=[], messages=script_messages(error.messages))
    return CheckedScriptView(
        ok=True,
        statements=len(script.statements),
        queries=[create.name.name for create in script.queries],
        messages=script_messages(script.warnings),
    )


class FormattedScriptView(ResponseBody, frozen=True):
    text: str


@query_group.post("/queries/fmt", "read")
async def format_query(call: ApiCall, body: ScriptRequest) -> FormattedScriptView:
    """Format a script: keywords in capitals, one clause per line."""
    return FormattedScriptView(text=format_script(parse(body.text)))


class PreviewRequest(RequestBody, frozen=True):
    text: Script
    days: Annotated[float, Meta(ge=0.01, le=3650, description="how far to look back")] = 7.0
    items: Annotated[int, Meta(ge=0, le=100, description="how many of the latest items to show")] = 10


class MatchedItemView(ResponseBody, frozen=True):
    id: int | None
    feed: int
    title: str | None
    link: str | None
    published: Time


class QueryPreviewView(ResponseBody, frozen=True):
    """The result of a query over the past: it would have kept `kept` of `looked_at` items of its feeds."""

    name: str
    kept: int
    looked_at: int
    days: float
    per_day: float
    sources: dict[str, int]
    items: list[MatchedItemView]


def _view_matched_item(item: Item) -> MatchedItemView:
    return MatchedItemView.from_row(item, feed=item.feed_id)


@query_group.post("/queries/preview", "read")
async def preview_script(call: ApiCall, body: PreviewRequest) -> ListPage[QueryPreviewView]:
    """Run the queries of a script over stored items without creating anything."""
    reader_id = _reader_id(call)
    script = parse(body.text, await call.store.read(load_catalogue, reader_id), replacing=EVERY)
    creates = [statement for statement in script.statements if isinstance(statement, CreateFeed)]
    found = await preview_queries(
        call.store, creates, body.days, call.now, make_language_detector(), body.items, reader_id
    )
    views = []
    for one in found:
        latest = await call.store.read(hide_foreign_addresses, call.user, one.latest)
        views.append(QueryPreviewView.from_row(one, items=[_view_matched_item(item) for item in latest]))
    return ListPage(items=views, next=None)


class ScriptResultView(ResponseBody, frozen=True):
    """The result of each statement (created, replaced, dropped, registered), and the ids to undo the drops."""

    done: list[StatementResult]
    warnings: list[ErrorDetail]
    undo: list[int]


@query_group.post("/queries", status=201)
async def run_script(call: ApiCall, body: ScriptRequest) -> ScriptResultView:
    """Run a script that creates, replaces or drops query feeds or registers sources, in one transaction."""
    await asyncio.to_thread(check_deliveries, body.text, call.site.settings)
    limits = call.site.reader_quota.limits_for(call.user)
    done = await call.store.write(query_scripts.run_script, body.text, call.now, subscriber=call.user.id, limits=limits)
    return ScriptResultView(done=list(done.done), warnings=script_messages(done.warnings), undo=list(done.undo))


class QueryParameters(Parameters, frozen=True):
    name: ShortText


class QuerySourceView(ResponseBody, frozen=True):
    feed: int
    name: str
    kept: int
    offered: int


class FullQueryView(QueryView, frozen=True):
    """A query feed with its statistics and, if it is yours, the share of each source's items that it keeps."""

    recent: int
    days: float
    per_day: float
    sources: list[QuerySourceView]


@query_group.get("/queries/{name}")
async def show_query(call: ApiCall, parameters: QueryParameters) -> FullQueryView:
    """Show a query feed with its definition, statistics and sources."""
    query = await find_visible_query(call, parameters.name)
    statistics = await call.store.read(compute_query_statistics, query.id, call.now)
    base = view_query(query, call.user, statistics.hits, statistics.last)
    origins = await call.store.read(load_item_origins) if base.mine else {}
    sources = [
        QuerySourceView(
            feed=one.feed_id,
            name=origins[one.feed_id].label if one.feed_id in origins else f"feed {one.feed_id}",
            kept=one.kept,
            offered=one.offered,
        )
        for one in (await call.store.read(list_selectivity, query.id) if base.mine else ())
    ]
    return FullQueryView(
        **{name: getattr(base, name) for name in base.__struct_fields__},
        recent=statistics.recent,
        days=statistics.days,
        per_day=statistics.per_day,
        sources=sorted(sources, key=lambda one: -one.kept)[:1000],
    )


@query_group.put("/queries/{name}")
async def put_query(call: ApiCall, parameters: QueryParameters, body: ScriptRequest) -> ScriptResultView:
    """Create or replace this query feed; the script must define it and nothing else.

    The script does not need OR REPLACE.
    """
    mine = {parameters.name.casefold()}
    await asyncio.to_thread(check_deliveries, body.text, call.site.settings)
    script = parse(body.text, await call.store.read(load_catalogue, _reader_id(call)), replacing=mine)
    named = [statement.name.name for statement in script.statements if isinstance(statement, CreateFeed)]
    if len(script.statements) != 1 or [name.casefold() for name in named] != [parameters.name.casefold()]:
        raise InputError(f"The script must define {parameters.name} and nothing else.", "text")
    done = await call.store.write(
        query_scripts.run_script,
        body.text,
        call.now,
        subscriber=call.user.id,
        replacing=mine,
        limits=call.site.reader_quota.limits_for(call.user),
    )
    return ScriptResultView(done=list(done.done), warnings=script_messages(done.warnings), undo=list(done.undo))


class SharingRequest(RequestBody, frozen=True):
    """Fields that are left out keep their values; an empty description removes it."""

    visibility: Literal["private", "shared", "public"] | UnsetType = UNSET
    description: Annotated[str, Meta(max_length=1000)] | UnsetType = UNSET


@query_group.put("/queries/{name}/sharing")
async def share_query(call: ApiCall, parameters: QueryParameters, body: SharingRequest) -> None:
    """Set who may read the items of your query feed, and its description."""
    query = await find_own_query(call.store, call.user, parameters.name)
    if not isinstance(body.description, UnsetType):
        await call.store.write(change_description, query.id, body.description)
    if not isinstance(body.visibility, UnsetType):
        await call.store.write(set_visibility, f"/feeds/{query.name}", body.visibility)


class DropQueryParameters(Parameters, frozen=True):
    name: ShortText
    cascade: Annotated[bool, Meta(description="also drop the query feeds that read it")] = False


class DroppedQueryView(RemovedView, frozen=True):
    dropped: list[str]


@query_group.delete("/queries/{name}")
async def drop_query(call: ApiCall, parameters: DropQueryParameters) -> DroppedQueryView:
    """Drop a query feed and its results; its sources stay."""
    query = await find_own_query(call.store, call.user, parameters.name)
    gone = await call.store.write(drop_query_feed, query.name, parameters.cascade, by=call.remover)
    return DroppedQueryView(dropped=list(gone.names), undo=gone.undo)


@query_group.put("/queries/{name}/articles", ADMIN)
async def want_query_articles(call: ApiCall, parameters: QueryParameters, body: ArticleWish) -> None:
    """Turn fetching the full articles of a query feed on or off."""
    query = await find_own_query(call.store, call.user, parameters.name)
    await call.store.write(want_articles, "query", query.id, body.wanted)


class QueryExplanationView(ResponseBody, frozen=True):
    """The sources of a query feed, how their items are matched, and its cost and yield."""

    name: str
    reads: list[str]
    read_by: list[str]
    access: list[AccessExplanation]
    sources: list[SourceShare]
    expected_per_day: float
    per_day: float
    refreshes_per_day: float
    share_of_weight: float
    promise: PromiseReport | None


@query_group.get("/queries/{name}/explanation", ADMIN)
async def explain_query_feed(call: ApiCall, parameters: QueryParameters) -> QueryExplanationView:
    """Explain a query feed: its sources, its index access, its cost and yield."""
    query = await find_own_query(call.store, call.user, parameters.name)
    explanation = await explain_query(call.store, call.site.settings, query.name, call.now)
    return QueryExplanationView(
        name=explanation.query.name,
        reads=list(explanation.reads),
        read_by=list(explanation.read_by),
        access=list(explanation.ways),
        sources=sorted(explanation.sources, key=lambda source: -source.wanted_per_day)[:1000],
        expected_per_day=explanation.expected_per_day,
        per_day=explanation.statistics.per_day,
        refreshes_per_day=explanation.refreshes_per_day,
        share_of_weight=explanation.share_of_weight,
        promise=explanation.promise,
    )


class HitListParameters(Parameters, frozen=True):
    name: ShortText
    limit: Limit = 100
    cursor: Cursor | None = None


class HitView(ResponseBody, frozen=True):
    """A result of a query feed; `id` is its position in the stream, `related` the items that a join found."""

    id: int
    item: MatchedItemView
    arrived: Time
    delivered: bool
    related: list[Id] | None


def _view_hit(hit: StoredHit, item: Item) -> HitView:
    related = None if hit.related is None else [other.id for other in hit.related if other.id is not None]
    return HitView(id=hit.id, item=_view_matched_item(item), arrived=hit.arrived, delivered=hit.fresh, related=related)


@query_group.get("/queries/{name}/items")
async def list_hits(call: ApiCall, parameters: HitListParameters) -> ListPage[HitView]:
    """List the results of a query feed, the latest first."""
    query = await find_visible_query(call, parameters.name)
    before = decode_cursor(parameters.cursor, int)
    rows = await call.store.read(
        list_latest_hits, query.id, before=before[0] if before else None, limit=parameters.limit + 1
    )
    items = await call.store.read(hide_foreign_addresses, call.user, [hit.item for hit in rows])
    shown = dict(zip([hit.id for hit in rows], items, strict=True))
    return paginate(rows, parameters.limit, lambda hit: _view_hit(hit, shown[hit.id]), lambda hit: (hit.id,))
