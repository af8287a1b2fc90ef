"""Finds the words that every item of a query must have, so that a full-text index can leave out the rest."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.language.ast import And, Condition, Contains, Equals, Field, Near, Or, Query, Similar
from headwater.language.normal_form import list_conditions, list_sources, walk_condition
from headwater.query.items.required_words import AllWords, AnyWords, Narrowing, Words
from headwater.query.items.tokens import is_prefix, split_words

# The fields whose words the index has. It lacks a description that is shorter than the content.
INDEXED_FIELDS = (Field.ITEM, Field.TITLE, Field.CONTENT, Field.AUTHOR, Field.CATEGORY)


def narrow_query(query: Query) -> Narrowing | None:
    """Return what the items of a query have in common; None if the index cannot tell.

    >>> from headwater.language import parse
    >>> text = 'CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "ash cloud" AND NOT CATEGORY = "art" AND SIZE > 9'
    >>> narrow_query(parse(text).queries[0].query)
    Words(words=('ash', 'cloud'), prefix=False, title=True)
    """
    return _any([narrow_condition(source.condition) for source in list_sources(query)])


def narrow_condition(condition: Condition) -> Narrowing | None:
    match condition:
        case And(parts):
            found = tuple(part for each in parts if (part := narrow_condition(each)) is not None)
            return _all(found)
        case Or(parts):
            return _any([narrow_condition(part) for part in parts])
        case Contains(field, values, every, exact) if field in INDEXED_FIELDS:
            searched = [_narrow_text(field, value, exact) for value in values]
            return _all(tuple(part for part in searched if part is not None)) if every else _any(searched)
        case Near(field, left, _, right) if field in INDEXED_FIELDS:
            both = (_narrow_text(field, left), _narrow_text(field, right))
            return _all(tuple(part for part in both if part is not None))
        case Equals(field, values, False, False) if field in INDEXED_FIELDS:
            return _any([_narrow_text(field, value) for value in values])
        case _:
            return None


def _narrow_text(field: Field, text: str, exact: bool = False) -> Narrowing | None:
    if exact and not text.isascii():  # the index has folded words, whose borders may differ
        return None
    words = tuple(split_words(text))
    return Words(words, is_prefix(text), field is Field.TITLE) if words else None


def _all(parts: tuple[Narrowing, ...]) -> Narrowing | None:
    return parts[0] if len(parts) == 1 else AllWords(parts) if parts else None


def _any(parts: Iterable[Narrowing | None]) -> Narrowing | None:
    found = tuple(dict.fromkeys(parts))
    known = tuple(part for part in found if part is not None)
    if len(known) < len(found) or not known:
        return None
    return known[0] if len(known) == 1 else AnyWords(known)


def weighs_words(query: Query) -> bool:
    """Tell whether the query compares texts by the frequencies of words, which all items set."""
    compares = any(isinstance(part, Similar) for each in list_conditions(query) for part in walk_condition(each))
    return compares or any(part is not None and part.at is not None for part in (query.distinct, *query.joins))
