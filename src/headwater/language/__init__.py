"""Parses and checks the query language."""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import pairwise

from headwater.language.ast import CreateFeed, FeedAddress, Position, Script
from headwater.language.checker import EVERY, Catalogue, Checker
from headwater.language.diagnostics import Diagnostics, Message
from headwater.language.formatter import format_source
from headwater.language.parsing.lexer import tokenize_script
from headwater.language.parsing.statements import parse_statements

__all__ = ["EVERY", "Catalogue", "Message", "Script", "parse", "reread"]


def parse(text: str, catalogue: Catalogue | None = None, *, replacing: Container[str] = ()) -> Script:
    """Parse and check a script. Raises QueryError; its `messages` hold all mistakes.

    With a catalogue, every named feed must be in it or be created earlier in the script. Without one, names are not
    checked. `replacing` are the folded names of query feeds that a plain CREATE may replace, for callers that replace
    implicitly: the page of a query, PUT to its address, a preview. `EVERY` allows all of them. FEED "title" becomes the
    feed's address in the text of the statement: publishers change titles.
    """
    diagnostics = Diagnostics(text)
    checker = Checker(diagnostics, catalogue, replacing)
    found = parse_statements(text, diagnostics)
    checker.note_created_names([statement for statement, _ in found.statements])
    for statement, clean in found.statements:
        checker.check_statement(statement, clean)
    diagnostics.raise_errors()
    if checker.addresses:
        return parse(_write_addresses(text, checker.addresses), catalogue, replacing=replacing)
    return Script(tuple(statement for statement, _ in found.statements), diagnostics.warnings, found.comments)


def _write_addresses(text: str, addresses: Mapping[Position, str]) -> str:
    """Write the addresses in the place of FEED "title" at these positions."""
    diagnostics = Diagnostics(text)
    tokens = tokenize_script(text, diagnostics)
    for feed, title in reversed(list(pairwise(tokens))):
        url = addresses.get(diagnostics.position_at(feed.offset))
        if url is not None:
            text = text[: feed.offset] + format_source(FeedAddress(url)) + text[title.end :]
    return text


def reread(text: str) -> CreateFeed:
    """Parse the CREATE statement of a text that `parse` has accepted before.

    Names, quotas and scopes are not checked again, because a server may start with a hundred thousand queries.
    """
    diagnostics = Diagnostics(text)
    found = parse_statements(text, diagnostics)
    diagnostics.raise_errors()
    (create,) = (statement for statement, _ in found.statements if isinstance(statement, CreateFeed))
    return create
