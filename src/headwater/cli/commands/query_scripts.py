"""`headwater query`: check, format and try out scripts of standing queries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid
from rich.text import Text

from headwater.cli.commands.known_names import KnownNames, load_known_names
from headwater.cli.console.command import (
    add_command,
    current_settings,
    err,
    format_count,
    make_group,
    out,
    print_json,
    wants_json,
)
from headwater.cli.console.inputs import print_messages, read_bytes, read_script, read_script_text, report_mistakes
from headwater.cli.console.item_table import ItemRow, ItemTable, read_item_table
from headwater.formats.values.links import normalise_url
from headwater.language import EVERY, Catalogue, Message, Script, parse
from headwater.language.ast import DropFeed
from headwater.language.formatter import format_script
from headwater.query.dry_run import DryRun
from headwater.query.items.language_detection import make_language_detector
from headwater.query.query_document import Emission
from headwater.times import format_instant

MAX_TABLE_BYTES = 1024 * 1024 * 1024

app = make_group("Standing queries: feeds made of other feeds.")


def register(into: typer.Typer) -> None:
    into.add_typer(app, name="query")


ScriptFile = Annotated[str, typer.Argument(metavar="FILE|-", help="The script; - reads standard input.")]
ItemsFile = Annotated[
    str | None, typer.Option("--items", metavar="ITEMS.jsonl", help="A table whose feeds and tags count as registered.")
]


@add_command(app, "check", epilog="headwater query check news.hw")
def check_script(file: ScriptFile, items: ItemsFile = None) -> None:
    """Say what is wrong with a script: where, what was expected, and how to mend it.

    Feeds that it names must be in the store, or in the table of --items.
    """
    text = read_script_text(file)
    against = KnownNames("items", _read_items(items).catalogue) if items else load_known_names(current_settings())
    with report_mistakes(in_json=True):
        script = parse(text, against.catalogue, replacing=EVERY)
    warnings = (*script.warnings, *_find_existing(script, against.catalogue))
    print_messages(warnings)
    if wants_json():
        told = {"ok": True, "statements": len(script.statements), "messages": [], "warnings": warnings}
        print_json(told | {"names": against.by, "note": against.note})
    else:
        feeds = ", ".join(create.name.name for create in script.queries)
        made = f" Query feeds: {feeds}." if feeds else ""
        out.print(Text(f"{format_count(len(script.statements), 'statement')}, all well.{made}"))
        if against.note is not None:
            err.print(Text(against.note))


def _find_existing(script: Script, catalogue: Catalogue | None) -> Iterator[Message]:
    """Of query feeds that the script means to create, those that are there and that it does not drop before."""
    dropped = {statement.name.key for statement in script.statements if isinstance(statement, DropFeed)}
    there = catalogue.definitions.keys() - dropped if catalogue is not None else set()
    for create in script.queries:
        if create.name.key in there and not create.replace:
            hint = f"query create changes it by CREATE OR REPLACE FEED {create.name.name} only"
            yield Message(*create.name.pos, f"feed {create.name.name} exists already", hint, warning=True)


@add_command(app, "fmt", epilog="headwater query fmt news.hw --write")
def format_file(
    file: ScriptFile,
    write: Annotated[bool, typer.Option("--write", help="Change the file in place.")] = False,
) -> None:
    """Print a script in the one form: keywords in capitals, one part a line."""
    with report_mistakes():
        text = format_script(read_script(file, None))
    if write and file != "-":
        Path(file).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


@add_command(app, "eval", epilog="headwater query eval news.hw --items table.jsonl --json")
def evaluate_script(
    script: Annotated[str, typer.Argument(metavar="SCRIPT|-", help="The script; - reads standard input.")],
    items: Annotated[str, typer.Option("--items", metavar="ITEMS.jsonl", help="The items, in the order of arrival.")],
    detect: Annotated[
        bool, typer.Option("--detect-language", help="Detect languages the table does not give.")
    ] = False,
) -> None:
    """Run a script over a table of items and show the document of every query feed."""
    table = _read_items(items)
    with report_mistakes():
        read = read_script(script, table.catalogue)
    print_messages(read.warnings)
    trial = DryRun(read, len(table.rows), make_language_detector() if detect else None)
    rows: dict[tuple[str, str], ItemRow] = {}
    for row in table.rows:
        rows.setdefault((normalise_url(row.origin.url), row.item.identity), row)
        trial.add_arrival(row.item, row.origin, row.item.first_seen)
    if wants_json():
        print_json({name: _result_as_json(trial.select_items(name), rows) for name in trial.query_names()})
    else:
        for name in trial.query_names():
            _print_result(name, trial.select_items(name), rows)


RowsByKey = dict[tuple[str, str], ItemRow]


def _result_as_json(document: list[Emission], rows: RowsByKey) -> dict[str, Any]:
    """Ids in document order; what joins found; titles that SET has changed."""
    return {
        "items": [rows[emission.key].id for emission in document],
        "annotations": {
            str(rows[emission.key].id): [rows[related.key].id for related in emission.related]
            for emission in document
            if emission.related is not None
        },
        "titles": {
            str(rows[emission.key].id): emission.analysed.item.title for emission in document if emission.is_retitled
        },
    }


def _print_result(name: str, document: list[Emission], rows: RowsByKey) -> None:
    out.print(Text.assemble((name, "bold"), f"  {format_count(len(document), 'item')}"))
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim")
    for emission in document:
        item, row = emission.analysed.item, rows[emission.key]
        published = format_instant(item.published)[:16].replace("T", " ")
        related = ", ".join(str(rows[other.key].id) for other in emission.related or ())
        note = f"related: {related}" if related else ""
        cells = (published, emission.analysed.origin.label, item.title or "–", note)
        grid.add_row(str(row.id), *map(Text, cells))
    out.print(grid)
    out.print()


def _read_items(file: str) -> ItemTable:
    return read_item_table(read_bytes(file, MAX_TABLE_BYTES), file)
