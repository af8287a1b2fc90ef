"""Comparing a field of one item with a field of another, as DISTINCT and JOIN do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from headwater.language.ast import Field
from headwater.query.similar import TermWeight, WordBag, is_similar
from headwater.query.text import AnalysedItem, list_language_prefixes


def equality_keys(seen: AnalysedItem, field: Field) -> frozenset[Hashable]:
    """What must meet for two items to be equal in this field; empty where the field is missing, which equals nothing.

    A field of several values meets in one of them. ITEM is compared as a whole: sharing a category makes no copy.
    """
    if field is Field.ITEM:
        return frozenset(filter(None, (seen.joined_words(Field.ITEM),)))
    if field is Field.LANGUAGE:
        return frozenset(list_language_prefixes(tag)[-1] for tag in seen.field_texts(field))
    if field.is_text:
        return seen.comparable_values(field)
    if field.is_date:
        date = seen.field_date(field)
        return frozenset() if date is None else frozenset({date})
    if field is Field.SIZE:
        return frozenset({seen.size}) if seen.size else frozenset()
    return frozenset({seen.source})


def list_word_bags(seen: AnalysedItem, field: Field) -> tuple[WordBag, ...]:
    """The words to compare by similarity, per value; ITEM is one text."""
    if field is Field.ITEM:
        words = seen.joined_words(Field.ITEM).split()
        return (Counter(words),) if words else ()
    return seen.word_bags(field)


def fields_match(
    one: AnalysedItem, field: Field, other: AnalysedItem, other_field: Field, at: float | None, weight: TermWeight
) -> bool:
    """Whether the fields are equal or, where `at` is given, alike to that degree."""
    if at is None:
        return not equality_keys(one, field).isdisjoint(equality_keys(other, other_field))
    return any(
        is_similar(mine, theirs, weight, at)
        for mine in list_word_bags(one, field)
        for theirs in list_word_bags(other, other_field)
    )
