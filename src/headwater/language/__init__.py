"""Text to query: positions, messages, hints. `parse` is the way in."""

from __future__ import annotations

from collections.abc import Container

from headwater.language.ast import Create, Script
from headwater.language.check import EVERY, Catalogue, Checker
from headwater.language.messages import Message, Report
from headwater.language.parser import read

__all__ = ["EVERY", "Catalogue", "Message", "Script", "parse", "reread"]


def parse(text: str, catalogue: Catalogue | None = None, *, replacing: Container[str] = ()) -> Script:
    """Read and check a script; `QueryError.messages` holds everything that is wrong with it.

    With a catalogue every feed that is named must be in it or made by the script before; without one, names are
    taken on trust. `replacing` are folded names of query feeds that a plain CREATE may replace, for those who say so
    in another way: the page of a query, PUT to its address, a preview. `EVERY` is all of them.
    """
    report = Report(text)
    checker = Checker(report, catalogue, replacing)
    found = read(text, report)
    checker.foresee([statement for statement, _ in found.statements])
    for statement, clean in found.statements:
        checker.check(statement, clean)
    report.settle()
    return Script(tuple(statement for statement, _ in found.statements), report.warnings, found.comments)


def reread(text: str) -> Create:
    """The one CREATE statement of a text that `parse` has accepted before: names, quotas and scopes are not checked
    again, which is what makes a start with a hundred thousand queries bearable."""
    report = Report(text)
    found = read(text, report)
    report.settle()
    (create,) = (statement for statement, _ in found.statements if isinstance(statement, Create))
    return create
