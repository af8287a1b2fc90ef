"""`headwater query`: check, create, list, show, drop, explain and preview standing queries."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.commands.feeds import ArticleSwitch
from headwater.cli.console.command import command, make_group
from headwater.cli.console.inputs import read_bytes, write_bytes
from headwater.cli.console.output import EXIT_MALFORMED, fail, show_progress
from headwater.cli.console.scripts import print_messages, read_script, read_script_text, report_mistakes
from headwater.cli.views.feeds import render_article_switch
from headwater.cli.views.queries import (
    CheckedScript,
    QueryDetails,
    QueryRow,
    explanation_as_json,
    hit_as_json,
    preview_as_json,
    render_checked_script,
    render_dropped,
    render_evaluation,
    render_previews,
    render_query,
    render_query_explanation,
    render_query_list,
    render_script_result,
    render_verification,
    result_as_json,
    verification_as_json,
)
from headwater.errors import InputError, NotFound, QueryError, StoreError
from headwater.formats.values.links import normalise_url
from headwater.language import EVERY, Catalogue, Message, Script, parse
from headwater.language.ast import CreateFeed, DropFeed
from headwater.language.formatter import format_script

if TYPE_CHECKING:
    from headwater.cli.console.item_table import ItemRow, ItemTable
    from headwater.node.queries.preview import QueryPreview
    from headwater.node.queries.query_explanation import QueryExplanation
    from headwater.node.queries.verification import Verification
    from headwater.query.dry_run import DryRun
    from headwater.settings import Settings
    from headwater.store.queries.query_scripts import DroppedQueries, ScriptResult
    from headwater.store.store import Store

MAX_TABLE_BYTES = 1024 * 1024 * 1024

ScriptFile = Annotated[str, typer.Argument(metavar="FILE|-", help="The script; - reads standard input.")]
ItemsFile = Annotated[
    str | None, typer.Option("--items", metavar="ITEMS.jsonl", help="A table whose feeds and tags count as registered.")
]
QueryName = Annotated[str, typer.Argument(metavar="NAME", help="The name of a query feed.")]

top = typer.Typer()
query = make_group("Write, check and manage standing queries: feeds made of other feeds.")
top.add_typer(query, name="query")


@contextmanager
def _report_wrong_names() -> Iterator[None]:
    """Exit as for a mistake in a script if a name is unknown or others depend on it."""
    try:
        yield
    except QueryError:
        raise
    except (NotFound, InputError) as error:
        fail(str(error), EXIT_MALFORMED)


# scripts


@command(
    query,
    "check",
    view=render_checked_script,
    as_json=lambda checked: checked.as_json(),
    example="headwater query check news.hw",
)
async def check_script(settings: Settings, file: ScriptFile, items: ItemsFile = None) -> CheckedScript:
    """Check a script: report each mistake with its place, the expected words and a hint.

    Feeds that the script names must be in the store, or in the table of --items.
    """
    text = read_script_text(file)
    names = KnownNames("items", _read_items(items).catalogue) if items else await _load_known_names(settings)
    with report_mistakes(in_json=True):
        script = parse(text, names.catalogue, replacing=EVERY)
    warnings = (*script.warnings, *_find_existing(script, names.catalogue))
    print_messages(warnings)
    return CheckedScript(script, warnings, names.source, names.note)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names that a script may use, and their `source` (store or items); else None and a `note` why."""

    source: str | None
    catalogue: Catalogue | None
    note: str | None = None


async def _load_known_names(settings: Settings) -> KnownNames:
    """Load the names of feeds in the store; without a store, names are not checked."""
    unchecked = "the names of feeds were not checked."
    if settings.database is None and not (settings.data / "headwater.sqlite").exists():
        return KnownNames(None, None, f"There is no store in {settings.data} yet: {unchecked}")
    from headwater.store.opening import open_store
    from headwater.store.queries.query_feeds import load_catalogue

    try:
        async with await open_store(settings.database_url, create=False) as store:
            return KnownNames("store", await store.read(load_catalogue))
    except StoreError as error:
        return KnownNames(None, None, f"{str(error).rstrip('.')}: {unchecked}")


def _find_existing(script: Script, catalogue: Catalogue | None) -> Iterator[Message]:
    """Warn about query feeds that the script creates although they exist and it does not drop them before."""
    dropped = {statement.name.key for statement in script.statements if isinstance(statement, DropFeed)}
    existing = catalogue.definitions.keys() - dropped if catalogue is not None else set()
    for create in script.queries:
        if create.name.key in existing and not create.replace:
            hint = f"query create changes it by CREATE OR REPLACE FEED {create.name.name} only"
            yield Message(*create.name.pos, f"feed {create.name.name} exists already", hint, warning=True)


@command(query, "fmt", example="headwater query fmt news.hw --write")
def format_file(
    file: ScriptFile,
    write: Annotated[bool, typer.Option("--write", help="Change the file in place.")] = False,
) -> None:
    """Print a script in its standard form: keywords in capitals, one part per line."""
    with report_mistakes():
        text = format_script(read_script(file, None))
    if write and file != "-":
        write_bytes(file, text.encode())
    else:
        sys.stdout.write(text)


@command(
    query,
    "eval",
    view=render_evaluation,
    as_json=lambda result: {
        name: result_as_json(result[0].select_items(name), result[1]) for name in result[0].query_names()
    },
    example="headwater query eval news.hw --items table.jsonl --json",
)
def evaluate_script(
    script: Annotated[str, typer.Argument(metavar="SCRIPT|-", help="The script; - reads standard input.")],
    items: Annotated[str, typer.Option("--items", metavar="ITEMS.jsonl", help="The items, in the order of arrival.")],
    detect: Annotated[
        bool, typer.Option("--detect-language", help="Detect languages the table does not give.")
    ] = False,
) -> tuple[DryRun, dict[tuple[str, str], ItemRow]]:
    """Run a script over a table of items and show the document of every query feed."""
    from headwater.query.dry_run import DryRun
    from headwater.query.items.language_detection import make_language_detector

    table = _read_items(items)
    with report_mistakes():
        parsed = read_script(script, table.catalogue)
    print_messages(parsed.warnings)
    run = DryRun(parsed, len(table.rows), make_language_detector() if detect else None)
    rows: dict[tuple[str, str], ItemRow] = {}
    for row in table.rows:
        rows.setdefault((normalise_url(row.origin.url), row.item.identity), row)
        run.add_arrival(row.item, row.origin, row.arrived)
    return run, rows


def _read_items(file: str) -> ItemTable:
    from headwater.cli.console.item_table import read_item_table  # loads the parsers

    return read_item_table(read_bytes(file, MAX_TABLE_BYTES), file)


@command(query, "stories", example="headwater query stories titles.jsonl > stories.jsonl")
def group_stories(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="A trace (Parquet, CSV) or JSON lines with id, source, published_at, title and perhaps link.",
        ),
    ],
) -> None:
    """Group items about one event into stories, as the server would, and print one JSON line per item.

    `story` is the id of the story's first item. An item that joined a story has the item it `joined` and the `score`.
    """
    from headwater.cli.console.item_table import read_story_items
    from headwater.query.stories.story_grouper import StoryGrouper

    items, grouper = read_story_items(file), StoryGrouper()
    with show_progress("Grouping", unit="items") as show:
        for number, item in enumerate(items, 1):
            placement = grouper.place_item(item)
            score = None if placement.score is None else round(placement.score, 4)
            line = {"item": item.id, "story": placement.story, "joined": placement.joined, "score": score}
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
            if number % 1_000 == 0:
                show(number, len(items))


# query feeds of a store


@command(
    query,
    "create",
    view=render_script_result,
    as_json=lambda result: {
        "ok": True,
        "done": result.done,
        "messages": [],
        "warnings": result.warnings,
        "undo": result.undo,
    },
    example="headwater query create news.hw",
)
async def create_queries(settings: Settings, store: Store, file: ScriptFile) -> ScriptResult:
    """Run a script: create, replace and drop query feeds, register sources. All of it, or nothing."""
    from headwater.publish.delivery.delivery_check import check_deliveries
    from headwater.store.queries.query_scripts import run_script

    text = read_script_text(file)
    if "EMAIL" in text.upper():
        from headwater.node.live_settings import load_effective_settings  # loads the scheduler

        settings = await load_effective_settings(store, settings)  # the mail server may have been set on a page
    with report_mistakes(in_json=True):
        check_deliveries(text, settings, by_command=True)
        result = await store.write(run_script, text, time.time())
    print_messages(result.warnings)
    return result


@command(
    query,
    "list",
    view=render_query_list,
    as_json=lambda rows: [row.as_json() for row in rows],
    example="headwater query list --json | jq '.[].name'",
)
async def list_queries(store: Store) -> list[QueryRow]:
    """List the query feeds with their number of items and the last match."""
    from headwater.store.queries.hits import count_hits_by_query
    from headwater.store.queries.query_feeds import list_all_query_feeds
    from headwater.store.queries.source_references import find_empty_tags

    counts, found = await store.read(count_hits_by_query), await store.read(list_all_query_feeds)
    notes = await store.read(find_empty_tags, found)
    none: tuple[int, float | None] = (0, None)
    return [QueryRow(one, *counts.get(one.id, none), note=notes.get(one.id)) for one in found]


@command(
    query,
    "show",
    view=render_query,
    as_json=lambda details: details.as_json(),
    example="headwater query show IcelandVolcano --items 20",
)
async def show_query(
    store: Store,
    name: QueryName,
    items: Annotated[int, typer.Option(min=0, max=1000, help="How many items to show.")] = 10,
) -> QueryDetails:
    """Show a query feed: its definition, its statistics, its latest items."""
    from headwater.store.queries.document_hits import list_document_hits, load_item_origins
    from headwater.store.queries.hits import compute_query_statistics
    from headwater.store.queries.query_feeds import find_query_feed
    from headwater.store.queries.selectivity import list_selectivity
    from headwater.store.queries.source_references import find_empty_tags

    with _report_wrong_names():
        now, found = time.time(), await store.read(find_query_feed, name)
    notes = await store.read(find_empty_tags, [found])
    origins = await store.read(load_item_origins)
    statistics = await store.read(compute_query_statistics, found.id, now)
    hits = await store.read(list_document_hits, found, now)
    return QueryDetails(
        QueryRow(found, statistics.hits, statistics.last, notes.get(found.id)),
        statistics,
        await store.read(list_selectivity, found.id),
        [hit_as_json(hit, origins) for hit in hits[:items]],
        origins,
    )


@command(
    query,
    "articles",
    view=render_article_switch,
    as_json=lambda result: {"name": result[0], "articles": result[1]},
    example="headwater query articles IcelandVolcano on",
)
async def switch_query_articles(
    store: Store, name: QueryName, switch: Annotated[ArticleSwitch, typer.Argument(help="on or off.")]
) -> tuple[str, bool]:
    """Fetch the pages behind a query feed's results, or stop that."""
    from headwater.store.content.articles import want_articles
    from headwater.store.queries.query_feeds import find_query_feed

    with _report_wrong_names():
        found = await store.read(find_query_feed, name)
    await store.write(want_articles, "query", found.id, switch is ArticleSwitch.on)
    return name, switch is ArticleSwitch.on


@command(
    query,
    "drop",
    view=render_dropped,
    as_json=lambda dropped: {"dropped": dropped.names, "undo": dropped.undo},
    example="headwater query drop IcelandVolcano --cascade",
)
async def drop_query(
    store: Store,
    name: QueryName,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also drop the query feeds that read it.")] = False,
) -> DroppedQueries:
    """Drop a query feed and its results; its sources stay. It can be restored for a day (headwater removed)."""
    from headwater.store.maintenance.trash_entries import Remover
    from headwater.store.queries.query_scripts import drop_query_feed

    with _report_wrong_names():
        return await store.write(drop_query_feed, name, cascade, by=Remover(None, time.time()))


@command(
    query,
    "explain",
    view=render_query_explanation,
    as_json=explanation_as_json,
    example="headwater query explain IcelandVolcano",
)
async def explain_query_feed(settings: Settings, store: Store, name: QueryName) -> QueryExplanation:
    """Explain a query feed: its sources, how their items are found, its costs and its results."""
    from headwater.node.live_settings import load_effective_settings
    from headwater.node.queries.query_explanation import explain_query

    with _report_wrong_names():
        return await explain_query(store, await load_effective_settings(store, settings), name, time.time())


@command(
    query,
    "verify",
    view=render_verification,
    as_json=verification_as_json,
    exit_code=lambda found: 1 if found.differences else 0,
    example="headwater query verify IcelandVolcano",
)
async def verify_query_feed(store: Store, name: QueryName) -> Verification:
    """Replay the stored items through a query feed and report each difference from its published document.

    The exit status is 1 if there are differences.
    """
    from headwater.node.queries.verification import verify_query
    from headwater.query.items.language_detection import make_language_detector

    with _report_wrong_names():
        return await verify_query(store, name, time.time(), make_language_detector())


@command(
    query,
    "preview",
    view=render_previews,
    as_json=lambda previews: {one.name: preview_as_json(one) for one in previews},
    example="headwater query preview news.hw --days 30",
)
async def preview_script(
    store: Store,
    file: ScriptFile,
    days: Annotated[float, typer.Option(min=0.01, max=36_500, help="How far to look back.")] = 7.0,
) -> list[QueryPreview]:
    """Run the query feeds of a script over stored items and show the results; nothing is created."""
    from headwater.node.queries.preview import preview_queries
    from headwater.query.items.language_detection import make_language_detector
    from headwater.store.queries.query_feeds import load_catalogue

    text = read_script_text(file)
    with report_mistakes(in_json=True):
        script = parse(text, await store.read(load_catalogue), replacing=EVERY)
    creates = [statement for statement in script.statements if isinstance(statement, CreateFeed)]
    print_messages(script.warnings)
    return await preview_queries(store, creates, days, time.time(), make_language_detector())
