"""Conditions of the query language as predicates over the items of a trace, by the query engine's own code."""

from __future__ import annotations

from headwater.errors import TraceError
from headwater.lab.topics import Predicate
from headwater.language import parse
from headwater.language.ast import Create
from headwater.model import Item
from headwater.query.predicate import compile_predicate
from headwater.query.similar import Frequencies
from headwater.query.text import Analysed, Origin

ORIGIN = Origin(None, "https://trace.invalid/feed")


def condition(text: str) -> Predicate:
    """What follows WHERE in a query, as a test of title and categories (separated by semicolons).

    >>> wanted = condition('TITLE CONTAINS "volcano" OR CATEGORY = "geology"')
    >>> wanted("A volcano in Iceland", ""), wanted("Rocks", "geology;travel"), wanted("Rocks", "travel")
    (True, True, False)
    """
    (statement,) = parse(f"CREATE FEED Wanted AS RETURN ALL WHERE {text}").statements[:1]
    if not isinstance(statement, Create) or statement.query.where is None:
        raise TraceError('--query takes a condition, what follows WHERE in a query: ITEM CONTAINS "volcano".')
    test = compile_predicate(statement.query.where, Frequencies())

    def wanted(title: str, categories: str) -> bool:
        named = tuple(each.strip() for each in categories.split(";") if each.strip())
        item = Item(0, title, "", title or None, None, 0.0, True, None, 0.0, categories=named)
        return bool(test(Analysed(item, ORIGIN)))

    return wanted
