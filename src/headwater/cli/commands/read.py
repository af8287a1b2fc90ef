"""`headwater read`: parse a feed document and show the result."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.console.command import command
from headwater.cli.console.inputs import read_bytes
from headwater.cli.views.documents import render_reading
from headwater.errors import InputError
from headwater.formats import read
from headwater.formats.comparison import ReaderComparison, compare_readers
from headwater.model import Document

top = typer.Typer()


@command(top, "read", view=render_reading, example="headwater read feed.xml --json")
def read_file(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A feed document; - reads standard input.")],
    url: Annotated[str | None, typer.Option(help="Its address, to resolve relative links.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Show where other readers read something else.")] = False,
) -> Document | ReaderComparison:
    """Parse a feed document and show the result."""
    if file.startswith(("http://", "https://", "feed:")):
        raise InputError(
            f"{file} is an address, but read takes a file: use curl -sL ADDRESS | headwater read -, "
            "or headwater feeds add."
        )
    body = read_bytes(file)
    return compare_readers(body, url) if compare else read(body, url=url)
