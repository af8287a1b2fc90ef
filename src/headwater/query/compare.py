"""Comparing a field of one item with a field of another, as DISTINCT and JOIN do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from headwater.language.ast import Field
from headwater.query.similar import Bag, Weight, alike
from headwater.query.text import Analysed, language_prefixes


def keys(seen: Analysed, field: Field) -> frozenset[Hashable]:
    """What must meet for two items to be equal in this field; empty where the field is missing, which equals nothing.

    A field of several values meets in one of them. ITEM is compared as a whole: sharing a category makes no copy.
    """
    if field is Field.ITEM:
        return frozenset(filter(None, (seen.joined(Field.ITEM),)))
    if field is Field.LANGUAGE:
        return frozenset(language_prefixes(tag)[-1] for tag in seen.texts(field))
    if field.is_text:
        return seen.wholes(field)
    if field.is_date:
        date = seen.date(field)
        return frozenset() if date is None else frozenset({date})
    if field is Field.SIZE:
        return frozenset({seen.size}) if seen.size else frozenset()
    return frozenset({seen.source})


def bags(seen: Analysed, field: Field) -> tuple[Bag, ...]:
    """The words to compare by similarity, per value; ITEM is one text."""
    if field is Field.ITEM:
        words = seen.joined(Field.ITEM).split()
        return (Counter(words),) if words else ()
    return seen.bags(field)


def meet(one: Analysed, field: Field, other: Analysed, other_field: Field, at: float | None, weight: Weight) -> bool:
    """Whether the fields are equal or, where `at` is given, alike to that degree."""
    if at is None:
        return not keys(one, field).isdisjoint(keys(other, other_field))
    return any(alike(mine, theirs, weight, at) for mine in bags(one, field) for theirs in bags(other, other_field))
