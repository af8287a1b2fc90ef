"""`headwater read`: parse a feed document and show the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.console.command import command
from headwater.cli.views.documents import render_document
from headwater.errors import InputError
from headwater.formats import read
from headwater.model import Document

_MAX_BYTES = 64 * 1024 * 1024

top = typer.Typer()


@command(top, "read", view=render_document, example="headwater read feed.xml --json")
def read_file(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A feed document; - reads standard input.")],
    url: Annotated[str | None, typer.Option(help="Its address, to resolve relative links.")] = None,
) -> Document:
    """Parse a feed document and show the result."""
    return read(_read_bytes(file), url=url)


def _read_bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read(_MAX_BYTES)
    try:
        with Path(file).open("rb") as opened:
            return opened.read(_MAX_BYTES)
    except IsADirectoryError as error:
        raise InputError(f"{file} is a folder. Name a feed document in it.") from error
    except (OSError, ValueError) as error:
        if file.startswith(("http://", "https://", "feed:")):
            raise InputError(
                f"{file} is an address, but read takes a file: use curl -sL ADDRESS | headwater read -, "
                "or headwater feeds add."
            ) from error
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{file} cannot be read: {reason}.") from error
