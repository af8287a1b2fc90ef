"""Parses and checks the query language."""

from __future__ import annotations

from collections.abc import Container

from headwater.language.ast import CreateFeed, Script
from headwater.language.checker import EVERY, Catalogue, Checker
from headwater.language.diagnostics import Diagnostics, Message
from headwater.language.parsing.statements import parse_statements

__all__ = ["EVERY", "Catalogue", "Message", "Script", "parse", "reread"]


def parse(text: str, catalogue: Catalogue | None = None, *, replacing: Container[str] = ()) -> Script:
    """Read and check a script; `QueryError.messages` holds everything that is wrong with it.

    With a catalogue every feed that is named must be in it or made by the script before; without one, names are
    taken on trust. `replacing` are folded names of query feeds that a plain CREATE may replace, for those who say so
    in another way: the page of a query, PUT to its address, a preview. `EVERY` is all of them.
    """
    report = Diagnostics(text)
    checker = Checker(report, catalogue, replacing)
    found = parse_statements(text, report)
    checker.note_created_names([statement for statement, _ in found.statements])
    for statement, clean in found.statements:
        checker.check_statement(statement, clean)
    report.raise_errors()
    return Script(tuple(statement for statement, _ in found.statements), report.warnings, found.comments)


def reread(text: str) -> CreateFeed:
    """The one CREATE statement of a text that `parse` has accepted before: names, quotas and scopes are not checked
    again, which is what makes a start with a hundred thousand queries bearable."""
    report = Diagnostics(text)
    found = parse_statements(text, report)
    report.raise_errors()
    (create,) = (statement for statement, _ in found.statements if isinstance(statement, CreateFeed))
    return create
