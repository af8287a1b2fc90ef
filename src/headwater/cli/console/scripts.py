"""Reads query scripts and reports their mistakes with line and caret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from rich.text import Text

from headwater.cli.console.inputs import NotText, read_text
from headwater.cli.console.options import wants_json
from headwater.cli.console.output import EXIT_MALFORMED, err, fail, print_json
from headwater.errors import QueryError
from headwater.language import Catalogue, Message, Script, parse


def read_script_text(file: str) -> str:
    """Read a script; a file that holds no statement or no text ends the command as a mistake does."""
    try:
        text = read_text(file)
    except NotText as error:
        fail(str(error), EXIT_MALFORMED)
    if not any(line.strip(" \t\r;") and not line.lstrip(" \t;").startswith("--") for line in text.splitlines()):
        fail(
            f"{file} contains no statement. A script has statements like CREATE FEED name AS RETURN …;", EXIT_MALFORMED
        )
    return text


def read_script(file: str, catalogue: Catalogue | None) -> Script:
    return parse(read_script_text(file), catalogue)


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
