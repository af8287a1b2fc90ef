"""`headwater query create, list, show, drop, explain, preview`: the standing queries of a store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headwater.cli.commands.article_switch import ArticleSwitch, report_switch
from headwater.cli.commands.query_scripts import ScriptFile, app, register
from headwater.cli.commands.trash import print_undo_hint
from headwater.cli.console.command import add_command, current_settings, fail, format_count, out, print_json, wants_json
from headwater.cli.console.inputs import EXIT_MALFORMED, print_messages, read_script_text, report_mistakes
from headwater.cli.console.resources import open_store, run_async
from headwater.errors import InputError, NotFound, QueryError
from headwater.language import EVERY, parse
from headwater.language.ast import CreateFeed
from headwater.model import QueryFeed
from headwater.node.live_settings import load_effective_settings
from headwater.node.queries.query_explanation import QueryExplanation, QueryPreview, explain_query, preview_queries
from headwater.query.items.language_detection import make_language_detector
from headwater.query.items.origin import Origin
from headwater.store.content.articles import want_articles
from headwater.store.maintenance.trash_rows import Remover
from headwater.store.queries.document_hits import list_document_hits, load_item_origins
from headwater.store.queries.hits import StoredHit, compute_query_statistics, count_hits_by_query
from headwater.store.queries.query_feeds import find_query_feed, list_all_query_feeds, load_catalogue
from headwater.store.queries.query_scripts import DroppedQueries, ScriptResult, drop_query_feed, run_script
from headwater.store.queries.selectivity import list_selectivity
from headwater.times import format_relative, format_time

__all__ = ["register"]

MAX_SOURCES = 50  # feeds that `explain` shows
MAX_NAMED_SOURCES = 5  # of the feeds that a previewed query draws from

QueryName = Annotated[str, typer.Argument(metavar="NAME", help="The name of a query feed.")]


@contextmanager
def _report_wrong_names() -> Iterator[None]:
    """A name that is not there, or that others need, ends the command like a mistake of a script."""
    try:
        yield
    except QueryError:
        raise
    except (NotFound, InputError) as error:
        fail(str(error), EXIT_MALFORMED)


@add_command(app, "create", epilog="headwater query create news.hw")
def create_queries(file: ScriptFile) -> None:
    """Carry out a script: create, replace and drop query feeds, register sources. All of it, or nothing."""

    async def work(text: str) -> ScriptResult:
        async with open_store(current_settings()) as store:
            return await store.write(run_script, text, time.time())

    text = read_script_text(file)
    with report_mistakes(in_json=True):
        done = run_async(work(text))
    print_messages(done.warnings)
    if wants_json():
        shown = {"ok": True, "done": done.done, "messages": [], "warnings": done.warnings, "undo": done.undo}
        print_json(shown)
        return
    for one in done.done:
        out.print(Text(f"{one.name}: {one.action}."))
    print_undo_hint(done.undo)
    if not done.done:
        out.print("The script has no statement; nothing was changed.")


@add_command(app, "list", epilog="headwater query list --json | jq '.[].name'")
def list_queries() -> None:
    """List the query feeds: how many items each has, and when the last came."""

    async def work() -> tuple[list[QueryFeed], dict[int, tuple[int, float]]]:
        async with open_store(current_settings()) as store:
            return await store.read(list_all_query_feeds), await store.read(count_hits_by_query)

    queries, counts = run_async(work())
    rows = [_query_as_json(query, *counts.get(query.id, (0, None))) for query in queries]
    if wants_json():
        print_json(rows)
        return
    if not rows:
        out.print("No query feeds yet. Make one: headwater query create FILE")
        return
    table = Table("Name", "Items", "Last match", "Importance", "State", box=None, header_style="bold")
    now = time.time()
    for row in rows:
        cells = (
            row["name"],
            f"{row['items']:,}",
            format_relative(row["last_match"], now),
            f"{row['importance']:g}",
            row["state"],
        )
        table.add_row(*map(escape, cells))
    out.print(table)


def _query_as_json(query: QueryFeed, items: int, last: float | None) -> dict[str, Any]:
    return {
        "name": query.name,
        "items": items,
        "last_match": last,
        "importance": query.importance,
        "created": query.created,
        "replaced": query.replaced,
        "state": _describe_state(query),
        "problem": query.problem,
    }


def _describe_state(query: QueryFeed) -> str:
    if query.problem is not None:
        running = "live, but not well" if query.active is not None and not query.is_pending else "cannot be run"
        return f"{running}: {query.problem.splitlines()[0]}"
    return "waiting for the server" if query.is_pending else "live"


@add_command(app, "show", epilog="headwater query show IcelandVolcano --items 20")
def show_query(
    name: QueryName, items: Annotated[int, typer.Option(min=0, max=1000, help="How many items to show.")] = 10
) -> None:
    """Show a query feed: its definition, its statistics, its latest items."""

    async def work() -> dict[str, Any]:
        async with open_store(current_settings()) as store:
            now, query = time.time(), await store.read(find_query_feed, name)
            origins = await store.read(load_item_origins)
            statistics = await store.read(compute_query_statistics, query.id, now)
            return {
                **_query_as_json(query, statistics.hits, statistics.last),
                "text": query.text,
                "statistics": {
                    "items": statistics.hits,
                    "days": statistics.days,
                    "recent": statistics.recent,
                    "items_per_day": statistics.per_day,
                    "last_match": statistics.last,
                },
                "sources": [
                    {
                        "feed": source.feed_id,
                        "name": _source_label(origins, source.feed_id),
                        "kept": source.kept,
                        "offered": source.offered,
                        "selectivity": source.kept / source.offered if source.offered else None,
                    }
                    for source in await store.read(list_selectivity, query.id)
                ],
                "latest": [
                    _hit_as_json(hit, origins) for hit in (await store.read(list_document_hits, query, now))[:items]
                ],
            }

    with _report_wrong_names():
        shown = run_async(work())
    if wants_json():
        print_json(shown)
        return
    now, statistics = time.time(), shown["statistics"]
    out.print(Text(shown["text"]))
    out.print()
    out.print(
        f"{shown['state']}; {format_count(shown['items'], 'item')}, {statistics['items_per_day']:.1f} a day over the last "
        f"{format_count(round(statistics['days']), 'day')}; last match {format_relative(shown['last_match'], now)}; created "
        f"{format_time(shown['created'])}",
        markup=False,
    )
    for source in sorted(shown["sources"], key=lambda source: -source["kept"])[:20]:
        out.print(Text(f"  {source['name']}: kept {source['kept']:,} of {source['offered']:,}"))
    out.print()
    for item in shown["latest"]:
        out.print(Text(f"{format_time(item['published'])}  {item['source']}  {item['title'] or item['link'] or '–'}"))


def _source_label(origins: dict[int, Origin], feed_id: int) -> str:
    return origins[feed_id].label if feed_id in origins else f"feed {feed_id}"


def _hit_as_json(hit: StoredHit, origins: dict[int, Origin]) -> dict[str, Any]:
    item = hit.item
    return {
        "id": item.id,
        "title": item.title,
        "link": item.link,
        "published": item.published,
        "arrived": hit.arrived,
        "source": _source_label(origins, item.feed_id),
        "delivered": hit.fresh,
        "related": None if hit.related is None else [other.id for other in hit.related],
    }


@add_command(app, "articles", epilog="headwater query articles IcelandVolcano on")
def switch_query_articles(name: QueryName, switch: Annotated[ArticleSwitch, typer.Argument(help="on or off.")]) -> None:
    """Fetch the pages behind what a query feed publishes, or no longer."""

    async def work() -> None:
        async with open_store(current_settings()) as store:
            await store.write(
                want_articles, "query", (await store.read(find_query_feed, name)).id, switch is ArticleSwitch.on
            )

    with _report_wrong_names():
        run_async(work())
    report_switch(name, switch)


@add_command(app, "drop", epilog="headwater query drop IcelandVolcano --cascade")
def drop_query(
    name: QueryName,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop the query feeds that read it too.")] = False,
) -> None:
    """Drop a query feed and what came of it; its sources stay. For a day it can be brought back (headwater removed)."""

    async def work() -> DroppedQueries:
        async with open_store(current_settings()) as store:
            return await store.write(drop_query_feed, name, cascade, by=Remover(None, time.time()))

    with _report_wrong_names():
        gone = run_async(work())
    if wants_json():
        print_json({"dropped": gone.names, "undo": gone.undo})
    else:
        out.print(Text(f"Dropped: {', '.join(gone.names)}."))
        print_undo_hint([gone.undo])


@add_command(app, "explain", epilog="headwater query explain IcelandVolcano")
def explain_query_feed(name: QueryName) -> None:
    """Explain a query feed: where its items come from, how they are found, what it costs and brings."""

    async def work() -> QueryExplanation:
        given = current_settings()
        async with open_store(given) as store:
            return await explain_query(store, await load_effective_settings(store, given), name, time.time())

    with _report_wrong_names():
        told = run_async(work())
    if wants_json():
        print_json(_explanation_as_json(told))
        return
    out.print(Text.assemble((told.query.name, "bold"), f"  {_describe_state(told.query)}"))
    if told.reads:
        out.print(Text(f"reads {', '.join(told.reads)}"))
    if told.read_by:
        out.print(Text(f"read by {', '.join(told.read_by)}"))
    for way in told.ways:
        found = f"items with {' or '.join(way.terms)} ({way.share:.2%} of all)" if way.terms else "every item"
        out.print(Text(f"from {way.source}: looks at {found}"))
    table = Table("Source", box=None, header_style="bold", pad_edge=False)
    for heading in ("Kept", "Share", "Items", "Wanted", "Polls", "Weight", "Of it"):
        table.add_column(heading, justify="right", no_wrap=True)
    for source in sorted(told.sources, key=lambda source: -source.wanted_per_day)[:MAX_SOURCES]:
        table.add_row(
            escape(source.name.removeprefix("https://").removeprefix("http://")),
            f"{source.kept:,}/{source.offered:,}",
            f"{source.selectivity:.3f}",
            f"{source.items_per_day:.1f}",
            f"{source.wanted_per_day:.2f}",
            f"{source.refreshes_per_day:.1f}",
            f"{source.weight:.3g}",
            f"{source.due_to_query:.3g}",
        )
    if told.sources:
        out.print()
        out.print(table)
        if len(told.sources) > MAX_SOURCES:
            out.print(f"… and {format_count(len(told.sources) - MAX_SOURCES, 'other feed')}; --json lists all.")
        out.print("Items, wanted items and polls are per day; of the weight is due to the query: “of it”.\n")
    out.print(
        f"It should bring {told.expected_per_day:.1f} items a day. Its {format_count(len(told.sources), 'feed')} cost "
        f"{told.refreshes_per_day:.1f} refreshes a day; {told.share_of_weight:.0%} of their weight is due to it."
    )
    if told.target is not None:
        out.print(Text(f"TARGET: {told.target.message}"))
    elif told.asks:
        out.print("TARGET: the server has not looked at it yet; it does once a minute.")


def _explanation_as_json(told: QueryExplanation) -> dict[str, Any]:
    return {
        "name": told.query.name,
        "state": _describe_state(told.query),
        "text": told.query.text,
        "importance": told.query.importance,
        "reads": told.reads,
        "read_by": told.read_by,
        "access": told.ways,
        "sources": told.sources,
        "expected_items_per_day": told.expected_per_day,
        "items_per_day": told.statistics.per_day,
        "refreshes_per_day": told.refreshes_per_day,
        "share_of_weight": told.share_of_weight,
        "target": told.target,
    }


@add_command(app, "preview", epilog="headwater query preview news.hw --days 30")
def preview_script(
    file: ScriptFile,
    days: Annotated[float, typer.Option(min=0.01, max=36_500, help="How far to look back.")] = 7.0,
) -> None:
    """Say what the query feeds of a script would have returned over the stored past; nothing is created."""

    async def work(text: str) -> tuple[list[QueryPreview], tuple[object, ...]]:
        async with open_store(current_settings()) as store:
            script = parse(text, await store.read(load_catalogue), replacing=EVERY)
            creates = [statement for statement in script.statements if isinstance(statement, CreateFeed)]
            return await preview_queries(store, creates, days, time.time(), make_language_detector()), script.warnings

    text = read_script_text(file)
    with report_mistakes(in_json=True):
        found, warnings = run_async(work(text))
    print_messages(warnings)
    if wants_json():
        print_json({one.name: _preview_as_json(one) for one in found})
        return
    for one in found:
        said = f": keeps {one.kept:,} of {format_count(one.looked_at, 'item')} in {one.days:g} days; {one.per_day:.1f} a day"
        out.print(Text.assemble((one.name, "bold"), said, _describe_sources(one.sources)))
        for item in one.latest:
            out.print(Text(f"  {format_time(item.published)}  {item.title or item.link or '–'}"))
    if not found:
        out.print("The script creates no query feed; there is nothing to preview.")


def _describe_sources(sources: dict[str, int]) -> str:
    """“; from A 15, B 12 and 3 other feeds”: those that bring most."""
    told = ", ".join(f"{name} {number:,}" for name, number in list(sources.items())[:MAX_NAMED_SOURCES])
    others = len(sources) - MAX_NAMED_SOURCES
    return (f"; from {told}" if told else "") + (f" and {format_count(others, 'other feed')}" if others > 0 else "")


def _preview_as_json(one: QueryPreview) -> dict[str, Any]:
    return {
        "kept": one.kept,
        "looked_at": one.looked_at,
        "days": one.days,
        "per_day": one.per_day,
        "sources": one.sources,
        "items": [
            {"id": item.id, "title": item.title, "link": item.link, "published": item.published} for item in one.latest
        ],
    }
