"""`headwater read`: parse a feed document and show the result."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.console.command import command
from headwater.cli.console.inputs import read_bytes
from headwater.cli.views.documents import render_document
from headwater.errors import InputError
from headwater.formats import read
from headwater.model import Document

top = typer.Typer()


@command(top, "read", view=render_document, example="headwater read feed.xml --json")
def read_file(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A feed document; - reads standard input.")],
    url: Annotated[str | None, typer.Option(help="Its address, to resolve relative links.")] = None,
) -> Document:
    """Parse a feed document and show the result."""
    if file.startswith(("http://", "https://", "feed:")):
        raise InputError(
            f"{file} is an address, but read takes a file: use curl -sL ADDRESS | headwater read -, "
            "or headwater feeds add."
        )
    return read(read_bytes(file), url=url)
