"""Conditions of the query language as predicates over the items of a trace, by the query engine's own code."""

from __future__ import annotations

from headwater.errors import TraceError
from headwater.lab.topics import ItemTest
from headwater.language import parse
from headwater.language.ast import CreateFeed
from headwater.model import Item
from headwater.query.predicate import compile_matcher
from headwater.query.similar import WordFrequencies
from headwater.query.text import AnalysedItem, Origin

TRACE_ORIGIN = Origin(None, "https://trace.invalid/feed")


def compile_condition(text: str) -> ItemTest:
    """What follows WHERE in a query, as a test of title and categories (separated by semicolons).

    >>> wanted = compile_condition('TITLE CONTAINS "volcano" OR CATEGORY = "geology"')
    >>> wanted("A volcano in Iceland", ""), wanted("Rocks", "geology;travel"), wanted("Rocks", "travel")
    (True, True, False)
    """
    (statement,) = parse(f"CREATE FEED Wanted AS RETURN ALL WHERE {text}").statements[:1]
    if not isinstance(statement, CreateFeed) or statement.query.where is None:
        raise TraceError('--query takes a condition, what follows WHERE in a query: ITEM CONTAINS "volcano".')
    test = compile_matcher(statement.query.where, WordFrequencies())

    def wanted(title: str, categories: str) -> bool:
        named = tuple(each.strip() for each in categories.split(";") if each.strip())
        item = Item(0, title, "", title or None, None, 0.0, True, None, 0.0, categories=named)
        return bool(test(AnalysedItem(item, TRACE_ORIGIN)))

    return wanted
