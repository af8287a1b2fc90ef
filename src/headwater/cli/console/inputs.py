"""Reads files and standard input, and reports mistakes in query scripts with line and caret."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from headwater.cli.console.options import wants_json
from headwater.cli.console.output import err, print_json
from headwater.errors import InputError, QueryError
from headwater.language import Catalogue, Message, Script, parse

MAX_SCRIPT_BYTES = 64 * 1024 * 1024
EXIT_MALFORMED = 2  # the exit code for a script with mistakes


def read_script_text(file: str) -> str:
    """Read a script as text."""
    try:
        return read_bytes(file, MAX_SCRIPT_BYTES).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not valid UTF-8: byte {error.start} cannot be decoded.") from error


def read_script(file: str, catalogue: Catalogue | None) -> Script:
    return parse(read_script_text(file), catalogue)


def read_bytes(file: str, largest: int) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(largest + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(largest + 1)
    except IsADirectoryError as error:
        raise InputError(f"{file} is a folder. Name a file in it.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{file} cannot be read: {reason}.") from error
    if len(data) > largest:
        raise InputError(f"{file} is larger than {largest // 1024 // 1024} MiB.")
    return data


@contextmanager
def report_mistakes(in_json: bool = False) -> Iterator[None]:
    """Print the mistakes of a script on standard error, each with its line and hint, and end the command."""
    try:
        yield
    except QueryError as error:
        print_messages(error.messages)
        if in_json and wants_json():
            print_json({"ok": False, "messages": [asdict(m) for m in error.messages if isinstance(m, Message)]})
        raise SystemExit(EXIT_MALFORMED) from None


def print_messages(messages: tuple[object, ...]) -> None:
    for message in messages:
        if isinstance(message, Message):
            err.print(_style_message(message), soft_wrap=True)


def _style_message(message: Message) -> Text:
    text = Text(message.render())
    text.highlight_regex(r"^\d+:\d+:.*", "bold yellow" if message.warning else "bold red")
    text.highlight_regex(r"(?m)^ +\^$", "red")
    text.highlight_regex(r"(?m)^  (hint|note):.*$", "cyan")
    return text
