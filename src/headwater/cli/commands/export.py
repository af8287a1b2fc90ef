"""`headwater export`: write items, refreshes or a query feed to a file for DuckDB, pandas or the lab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.console.command import command
from headwater.cli.console.output import out, show_progress
from headwater.errors import InputError
from headwater.formats.values.dates import parse_date
from headwater.publish.data_export import export_rows
from headwater.store.content.feeds import find_feed
from headwater.store.content.items import DataSlice

if TYPE_CHECKING:
    from headwater.store.store import Store

FORMATS = {"": "parquet", ".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}

top = typer.Typer()


@dataclass(frozen=True, slots=True)
class ExportedFile:
    file: str
    format: str
    new: int
    rows: int


@command(
    top,
    "export",
    view=lambda done: out.print(f"{done.new} rows added, {done.rows} are in {done.file}.", markup=False),
    example="headwater export items.parquet  ·  headwater export --refreshes --since 2026-11-01 log.csv",
)
async def export_archive(
    store: Store,
    file: Annotated[str, typer.Argument(metavar="OUT", help="The file; run again, new rows are appended.")],
    items: Annotated[bool, typer.Option("--items", help="Items (the default).")] = False,
    refreshes: Annotated[bool, typer.Option("--refreshes", help="The log of refreshes.")] = False,
    query: Annotated[str | None, typer.Option(help="The results of this query feed.")] = None,
    since: Annotated[str | None, typer.Option(help="From this date on, such as 2026-11-01.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this date.")] = None,
    feed: Annotated[str | None, typer.Option(help="Only this feed: id, name or address.")] = None,
    format: Annotated[str | None, typer.Option(help="parquet, csv or jsonl; default: by the file's name.")] = None,
) -> ExportedFile:
    """Write items, refreshes or a query feed to a file. Run again, it continues where it ended or was stopped."""
    if items + refreshes + (query is not None) > 1:
        raise InputError("Give only one of --items, --refreshes and --query.")
    chosen = format or _find_format(file)
    feed_id = None if feed is None else (await store.read(find_feed, feed)).id
    part = DataSlice(_parse_date_option(since), _parse_date_option(until), feed_id)
    kind = "refreshes" if refreshes else "items"
    with show_progress("exporting") as progress:
        done = await export_rows(store, kind, part, file, chosen, query=query, progress=progress)
    return ExportedFile(file, chosen, done.new, done.rows)


def _find_format(file: str) -> str:
    if not file:
        raise InputError("Missing file: name one that ends in .parquet, .csv or .jsonl.")
    suffix = Path(file).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"“{suffix}” is not a known format. Use .parquet, .csv or .jsonl, or give --format.")
    return FORMATS[suffix]


def _parse_date_option(text: str | None) -> float | None:
    if text is None:
        return None
    date = parse_date(text)
    if date is None:
        raise InputError(f"“{text}” is not a date. Write one as 2026-11-01 or 2026-11-01T07:30:00Z.")
    return date
