"""`headwater query`: check, format and try out scripts of standing queries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid
from rich.text import Text

from headwater.cli.common import as_json, command, err, group, out, print_json
from headwater.cli.table import Row, Table, read_table
from headwater.errors import InputError, QueryError
from headwater.formats.urls import normalise
from headwater.language import Catalogue, Message, Script, parse
from headwater.language.fmt import format_script
from headwater.language.instants import write_instant
from headwater.query.document import Emission
from headwater.query.meaning import Meaning
from headwater.query.tongues import detector

LARGEST_SCRIPT = 64 * 1024 * 1024
LARGEST_TABLE = 1024 * 1024 * 1024
MALFORMED = 2  # the exit code of every command that was given a script with mistakes

app = group("Standing queries: feeds made of other feeds.")


def register(into: typer.Typer) -> None:
    into.add_typer(app, name="query")


ScriptFile = Annotated[str, typer.Argument(metavar="FILE|-", help="The script; - reads standard input.")]
ItemsFile = Annotated[
    str | None, typer.Option("--items", metavar="ITEMS.jsonl", help="A table whose feeds and tags count as registered.")
]


@command(app, "check", epilog="headwater query check news.hw")
def check_command(file: ScriptFile, items: ItemsFile = None) -> None:
    """Say what is wrong with a script: where, what was expected, and how to mend it."""
    with _mistakes_told(in_json=True):
        script = _script(file, _table(items).catalogue if items else None)
    _tell(script.warnings)
    if as_json():
        print_json({"ok": True, "statements": len(script.statements), "messages": [], "warnings": script.warnings})
    else:
        feeds = ", ".join(create.name.name for create in script.queries)
        made = f" Query feeds: {feeds}." if feeds else ""
        out.print(Text(f"{_count(len(script.statements), 'statement')}, all well.{made}"))


@command(app, "fmt", epilog="headwater query fmt news.hw --write")
def fmt_command(
    file: ScriptFile,
    write: Annotated[bool, typer.Option("--write", help="Change the file in place.")] = False,
) -> None:
    """Print a script in the one form: keywords in capitals, one part a line."""
    with _mistakes_told():
        text = format_script(_script(file, None))
    if write and file != "-":
        Path(file).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


@command(app, "eval", epilog="headwater query eval news.hw --items table.jsonl --json")
def eval_command(
    script: Annotated[str, typer.Argument(metavar="SCRIPT|-", help="The script; - reads standard input.")],
    items: Annotated[str, typer.Option("--items", metavar="ITEMS.jsonl", help="The items, in the order of arrival.")],
    detect: Annotated[
        bool, typer.Option("--detect-language", help="Detect languages the table does not give.")
    ] = False,
) -> None:
    """Run a script over a table of items and show the document of every query feed."""
    table = _table(items)
    with _mistakes_told():
        read = _script(script, table.catalogue)
    _tell(read.warnings)
    meaning = Meaning(detector() if detect else None)
    meaning.run(read)
    rows: dict[tuple[str, str], Row] = {}
    for row in table.rows:
        rows.setdefault((normalise(row.origin.url), row.item.identity), row)
        meaning.arrive(row.item, row.origin, row.item.first_seen)
    if as_json():
        print_json({name: _result(meaning.document(name), rows) for name in meaning.names()})
    else:
        for name in meaning.names():
            _show(name, meaning.document(name), rows)


Rows = dict[tuple[str, str], Row]


def _result(document: list[Emission], rows: Rows) -> dict[str, Any]:
    """Ids in document order; what joins found; titles that SET has changed."""
    return {
        "items": [rows[emission.key].id for emission in document],
        "annotations": {
            str(rows[emission.key].id): [rows[related.key].id for related in emission.related]
            for emission in document
            if emission.related is not None
        },
        "titles": {str(rows[emission.key].id): emission.seen.item.title for emission in document if emission.retitled},
    }


def _show(name: str, document: list[Emission], rows: Rows) -> None:
    out.print(Text.assemble((name, "bold"), f"  {_count(len(document), 'item')}"))
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(justify="right", style="dim")
    for emission in document:
        item, row = emission.seen.item, rows[emission.key]
        published = write_instant(item.published)[:16].replace("T", " ")
        related = ", ".join(str(rows[other.key].id) for other in emission.related or ())
        note = f"related: {related}" if related else ""
        cells = (published, emission.seen.origin.label, item.title or "–", note)
        grid.add_row(str(row.id), *map(Text, cells))
    out.print(grid)
    out.print()


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# reading


def _script(file: str, catalogue: Catalogue | None) -> Script:
    try:
        text = _bytes(file, LARGEST_SCRIPT).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text in UTF-8: byte {error.start} cannot be read.") from error
    return parse(text.removeprefix("\ufeff"), catalogue)


def _table(file: str) -> Table:
    return read_table(_bytes(file, LARGEST_TABLE), file)


def _bytes(file: str, largest: int) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(largest + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(largest + 1)
    except IsADirectoryError as error:
        raise InputError(f"{file} is a folder: name a file in it.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{file} cannot be read: {reason}.") from error
    if len(data) > largest:
        raise InputError(f"{file} is larger than {largest // 1024 // 1024} MiB.")
    return data


# telling


@contextmanager
def _mistakes_told(in_json: bool = False) -> Iterator[None]:
    """Mistakes of the script go to standard error, each with its line and hint, and end the command."""
    try:
        yield
    except QueryError as error:
        _tell(error.messages)
        if in_json and as_json():
            print_json({"ok": False, "messages": [asdict(m) for m in error.messages if isinstance(m, Message)]})
        raise SystemExit(MALFORMED) from None


def _tell(messages: tuple[object, ...]) -> None:
    for message in messages:
        if isinstance(message, Message):
            err.print(_styled(message), soft_wrap=True)


def _styled(message: Message) -> Text:
    text = Text(message.full())
    text.highlight_regex(r"^\d+:\d+:.*", "bold yellow" if message.warning else "bold red")
    text.highlight_regex(r"(?m)^ +\^$", "red")
    text.highlight_regex(r"(?m)^  (hint|note):.*$", "cyan")
    return text
