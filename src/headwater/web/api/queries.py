"""Standing queries: check, format, preview, create, replace, drop, explain. Owners make them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.errors import InputError, NotFound, QueryError
from headwater.language import EVERY, parse
from headwater.language.ast import Create
from headwater.language.fmt import format_script
from headwater.model import Item, QueryFeed
from headwater.node.query_explaining import Read, explain_query, preview
from headwater.query.access import Way
from headwater.query.tongues import detector
from headwater.store.values import Done, StoredHit
from headwater.web.api.endpoint import ADMIN, Answer, Asked, Call, Given, Noun
from headwater.web.api.feeds import Wanted
from headwater.web.api.openapi import Detail, details
from headwater.web.api.values import (
    Cursor,
    Id,
    Limit,
    Line,
    Listed,
    Page,
    Removed,
    Script,
    Time,
    page,
    place,
)

noun = Noun("queries", "Standing queries, and the feeds they make. Readers see the query feeds they subscribe to.")


class QueryView(Answer, frozen=True):
    """A query feed."""

    id: int
    name: str
    text: str
    items: int
    last_match: float | None
    importance: float
    created: Time
    replaced: float | None
    live: bool
    problem: str | None


def view(query: QueryFeed, items: int, last: float | None) -> QueryView:
    return QueryView(
        id=query.id,
        name=query.name,
        text=query.text,
        items=items,
        last_match=last,
        importance=query.importance,
        created=query.created,
        replaced=query.replaced,
        live=not query.pending and query.problem is None,
        problem=query.problem,
    )


async def find_query(call: Call, name: str) -> QueryFeed:
    """A query feed that this person may see; for readers what others have is as if it were not there."""
    if call.user.is_owner:
        return await call.store.queries.find(name)
    try:
        query = await call.store.queries.find(name)
        await call.store.reading.require_query(call.user.id, query.id)
    except NotFound as error:  # its words would name what is not for everybody
        raise NotFound(f"There is no query feed “{name}” that you subscribe to.") from error
    return query


@noun.get("/queries")
async def list_queries(call: Call, asked: Listed) -> Page[QueryView]:
    """List the query feeds, in the order in which they were made."""
    after = place(asked.cursor, int)
    rows = await call.store.queries.some(
        after=after[0] if after else 0,
        limit=asked.limit + 1,
        subscriber=None if call.user.is_owner else call.user.id,
    )
    counts = await call.store.queries.counts([query.id for query in rows])

    def counted(query: QueryFeed) -> QueryView:
        items, last = counts.get(query.id, (0, None))
        return view(query, items, last)

    return page(rows, asked.limit, counted, lambda query: (query.id,))


class Text(Given, frozen=True):
    text: Script


class Checked(Answer, frozen=True):
    """Whether the script can be taken; what is wrong with it, and what its writer should know."""

    ok: bool
    statements: int
    queries: list[str]
    messages: list[Detail]


@noun.post("/queries/check", "read")
async def check_script(call: Call, given: Text) -> Checked:
    """Say what is wrong with a script: where, what was expected, and how to mend it."""
    catalogue = await call.store.queries.catalogue() if call.user.is_owner else None
    try:
        script = parse(given.text, catalogue)
    except QueryError as error:
        return Checked(ok=False, statements=0, queries=[], messages=details(error.messages))
    return Checked(
        ok=True,
        statements=len(script.statements),
        queries=[create.name.name for create in script.queries],
        messages=details(script.warnings),
    )


class Formatted(Answer, frozen=True):
    text: str


@noun.post("/queries/fmt", "read")
async def format_query(call: Call, given: Text) -> Formatted:
    """Give a script its one form: keywords in capitals, one part a line."""
    return Formatted(text=format_script(parse(given.text)))


class Past(Given, frozen=True):
    text: Script
    days: Annotated[float, Meta(ge=0.01, le=3650, description="how far to look back")] = 7.0
    items: Annotated[int, Meta(ge=0, le=100, description="how many of the latest to show")] = 10


class Kept(Answer, frozen=True):
    id: int | None
    feed: int
    title: str | None
    link: str | None
    published: Time


class Previewed(Answer, frozen=True):
    """What a query would have kept: `kept` of `looked_at` items of its feeds."""

    name: str
    kept: int
    looked_at: int
    days: float
    per_day: float
    sources: dict[str, int]
    items: list[Kept]


def _kept(item: Item) -> Kept:
    return Kept(id=item.id, feed=item.feed_id, title=item.title, link=item.link, published=item.published)


@noun.post("/queries/preview", ADMIN)
async def preview_script(call: Call, given: Past) -> Page[Previewed]:
    """Say what the query feeds of a script would have returned over the stored past; nothing is created."""
    script = parse(given.text, await call.store.queries.catalogue(), replacing=EVERY)
    creates = [statement for statement in script.statements if isinstance(statement, Create)]
    found = await preview(call.store, creates, given.days, call.now, detector(), given.items)
    told = [
        Previewed(
            name=one.name,
            kept=one.kept,
            looked_at=one.looked_at,
            days=one.days,
            per_day=one.per_day,
            sources=one.sources,
            items=[_kept(item) for item in one.latest],
        )
        for one in found
    ]
    return Page(items=told, next=None)


class ScriptDone(Answer, frozen=True):
    """What each statement did: created, replaced, dropped or registered; and the numbers by which what was dropped is
    taken back."""

    done: list[Done]
    warnings: list[Detail]
    undo: list[int]


@noun.post("/queries", ADMIN, status=201)
async def run_script(call: Call, given: Text) -> ScriptDone:
    """Carry out a script: create, replace and drop query feeds, register sources. All of it, or nothing."""
    done = await call.store.queries.execute(given.text, call.now, subscriber=call.user.id)
    return ScriptDone(done=list(done.done), warnings=details(done.warnings), undo=list(done.undo))


class OneQuery(Asked, frozen=True):
    name: Line


class SourceView(Answer, frozen=True):
    feed: int
    name: str
    kept: int
    offered: int


class WholeQuery(QueryView, frozen=True):
    """A query feed with its liveliness and what it keeps of which feeds."""

    recent: int
    days: float
    per_day: float
    sources: list[SourceView]


@noun.get("/queries/{name}")
async def show_query(call: Call, asked: OneQuery) -> WholeQuery:
    """Show a query feed: its definition, its statistics, its sources."""
    query = await find_query(call, asked.name)
    statistics = await call.store.queries.statistics(query, call.now)
    origins = await call.store.queries.origins()
    base = view(query, statistics.hits, statistics.last)
    sources = [
        SourceView(
            feed=one.feed_id,
            name=origins[one.feed_id].label if one.feed_id in origins else f"feed {one.feed_id}",
            kept=one.kept,
            offered=one.offered,
        )
        for one in await call.store.queries.sources(query.id)
    ]
    return WholeQuery(
        **{name: getattr(base, name) for name in base.__struct_fields__},
        recent=statistics.recent,
        days=statistics.days,
        per_day=statistics.per_day,
        sources=sorted(sources, key=lambda one: -one.kept)[:1000],
    )


@noun.put("/queries/{name}", ADMIN)
async def put_query(call: Call, asked: OneQuery, given: Text) -> ScriptDone:
    """Create or replace this query feed; the script must define it and nothing else.

    It needs no OR REPLACE.
    """
    mine = {asked.name.casefold()}
    script = parse(given.text, await call.store.queries.catalogue(), replacing=mine)
    named = [statement.name.name for statement in script.statements if isinstance(statement, Create)]
    if len(script.statements) != 1 or [name.casefold() for name in named] != [asked.name.casefold()]:
        raise InputError(f"The script must define {asked.name} and nothing else.", "text")
    done = await call.store.queries.execute(given.text, call.now, subscriber=call.user.id, replacing=mine)
    return ScriptDone(done=list(done.done), warnings=details(done.warnings), undo=list(done.undo))


class DropAsked(Asked, frozen=True):
    name: Line
    cascade: Annotated[bool, Meta(description="drop the query feeds that read it too")] = False


class Dropped(Removed, frozen=True):
    dropped: list[str]


@noun.delete("/queries/{name}", ADMIN)
async def drop_query(call: Call, asked: DropAsked) -> Dropped:
    """Drop a query feed and what came of it; its sources stay."""
    gone = await call.store.queries.drop(asked.name, asked.cascade, by=call.remover)
    return Dropped(dropped=list(gone.names), undo=gone.undo)


@noun.put("/queries/{name}/articles", ADMIN)
async def want_query_articles(call: Call, asked: OneQuery, given: Wanted) -> None:
    """Fetch the pages behind the items of a query feed from now on, or no longer."""
    query = await call.store.queries.find(asked.name)
    await call.store.articles.wish("query", query.id, given.wanted)


class QueryExplained(Answer, frozen=True):
    """Where the items of a query feed come from, how they are found, what it costs and brings."""

    name: str
    reads: list[str]
    read_by: list[str]
    access: list[Way]
    sources: list[Read]
    expected_per_day: float
    per_day: float
    refreshes_per_day: float
    share_of_weight: float


@noun.get("/queries/{name}/explanation", ADMIN)
async def explain_query_feed(call: Call, asked: OneQuery) -> QueryExplained:
    """Explain a query feed."""
    told = await explain_query(call.store, call.frame.settings, asked.name, call.now)
    return QueryExplained(
        name=told.query.name,
        reads=list(told.reads),
        read_by=list(told.read_by),
        access=list(told.ways),
        sources=sorted(told.sources, key=lambda source: -source.wanted_per_day)[:1000],
        expected_per_day=told.expected_per_day,
        per_day=told.statistics.per_day,
        refreshes_per_day=told.refreshes_per_day,
        share_of_weight=told.share_of_weight,
    )


class HitsAsked(Asked, frozen=True):
    name: Line
    limit: Limit = 100
    cursor: Cursor | None = None


class HitView(Answer, frozen=True):
    """An item that came out of a query feed; `id` is its place in the stream, `related` what a join found."""

    id: int
    item: Kept
    arrived: Time
    delivered: bool
    related: list[Id] | None


def _hit(hit: StoredHit) -> HitView:
    related = None if hit.related is None else [other.id for other in hit.related if other.id is not None]
    return HitView(id=hit.id, item=_kept(hit.item), arrived=hit.arrived, delivered=hit.fresh, related=related)


@noun.get("/queries/{name}/items")
async def list_hits(call: Call, asked: HitsAsked) -> Page[HitView]:
    """List what a query feed has let out, the latest first."""
    query = await find_query(call, asked.name)
    before = place(asked.cursor, int)
    rows = await call.store.queries.latest(query.id, before=before[0] if before else None, limit=asked.limit + 1)
    return page(rows, asked.limit, _hit, lambda hit: (hit.id,))
