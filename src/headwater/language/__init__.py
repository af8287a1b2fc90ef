"""Text to query: positions, messages, hints. `parse` is the way in."""

from __future__ import annotations

from headwater.language.ast import Create, Script
from headwater.language.check import Catalogue, Checker
from headwater.language.messages import Message, Report
from headwater.language.parser import read

__all__ = ["Catalogue", "Message", "Script", "parse", "reread"]


def parse(text: str, catalogue: Catalogue | None = None) -> Script:
    """Read and check a script; `QueryError.messages` holds everything that is wrong with it.

    With a catalogue every feed that is named must be in it or made by the script before; without one, names are
    taken on trust.
    """
    report = Report(text)
    checker = Checker(report, catalogue)
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
