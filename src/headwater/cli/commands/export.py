"""`headwater export`: an archive of items, refreshes or a query feed for DuckDB, pandas and our own lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headwater.cli.console.command import add_command, current_settings, err, out, print_json, wants_json
from headwater.cli.console.resources import open_store, run_async
from headwater.errors import InputError
from headwater.formats.values.dates import parse_date
from headwater.publish.data_export import ExportState
from headwater.publish.data_export import export_rows as write
from headwater.store.content.feeds import find_feed
from headwater.store.publishing.data_slices import DataSlice

FORMATS = {"": "parquet", ".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}


def register(app: typer.Typer) -> None:
    examples = "Examples:  headwater export items.parquet  ·  headwater export --refreshes --since 2026-11-01 log.csv"
    add_command(app, "export", epilog=examples)(export_archive)


def export_archive(
    file: Annotated[str, typer.Argument(metavar="OUT", help="The file; run again, what is new is added.")],
    items: Annotated[bool, typer.Option("--items", help="Items (this is what is exported by default).")] = False,
    refreshes: Annotated[bool, typer.Option("--refreshes", help="The log of refreshes.")] = False,
    query: Annotated[str | None, typer.Option(help="What this query feed has let out.")] = None,
    since: Annotated[str | None, typer.Option(help="A date, like 2026-11-01.")] = None,
    until: Annotated[str | None, typer.Option(help="A date: before it.")] = None,
    feed: Annotated[str | None, typer.Option(help="Only this feed: number, name or address.")] = None,
    format: Annotated[str | None, typer.Option(help="parquet, csv or jsonl; else by the file's name.")] = None,
) -> None:
    """Write items, refreshes or a query feed to a file. Run again, it goes on where it ended or was stopped."""
    if items + refreshes + (query is not None) > 1:
        raise InputError("Give one of --items, --refreshes and --query.")
    chosen = format or _find_format(file)
    kept = run_async(
        _write_archive(
            file,
            "refreshes" if refreshes else "items",
            query,
            _parse_date_option(since),
            _parse_date_option(until),
            feed,
            chosen,
        )
    )
    if wants_json():
        print_json({"file": file, "format": chosen, "new": kept.new, "rows": kept.rows})
    else:
        out.print(f"{kept.new} rows added, {kept.rows} are in {file}.", markup=False)


def _find_format(file: str) -> str:
    if not file:
        raise InputError("A file is missing: name one that ends in .parquet, .csv or .jsonl.")
    suffix = Path(file).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"“{suffix}” says no format: name the file .parquet, .csv or .jsonl, or give --format.")
    return FORMATS[suffix]


async def _write_archive(
    file: str, what: str, query: str | None, since: float | None, until: float | None, feed: str | None, format: str
) -> ExportState:
    columns = (TextColumn("exporting"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    async with open_store(current_settings()) as store:
        part = DataSlice(since, until, None if feed is None else (await store.read(find_feed, feed)).id)
        with Progress(*columns, console=err, transient=True, disable=wants_json() or not err.is_terminal) as progress:
            bar = progress.add_task("exporting", total=None)

            def show(done: int, total: int) -> None:
                progress.update(bar, completed=done, total=total)

            return await write(store, what, part, file, format, query=query, progress=show)


def _parse_date_option(given: str | None) -> float | None:
    if given is None:
        return None
    found = parse_date(given)
    if found is None:
        raise InputError(f"“{given}” is no date; give one like 2026-11-01 or 2026-11-01T07:30:00Z.")
    return found
