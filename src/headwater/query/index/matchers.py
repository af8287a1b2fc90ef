"""Compiles a condition into a function of an item. A condition on a missing field is false, and its NOT is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import re2

from headwater.formats.values.links import normalise_url
from headwater.language import ast
from headwater.query.items.analysed_item import ITEM_FIELDS, AnalysedItem, to_comparable
from headwater.query.items.comparisons import COMPARE_FUNCTIONS
from headwater.query.items.origin import Origin
from headwater.query.items.similarity import WordFrequencies
from headwater.query.items.tokens import SEPARATOR, compile_symbols, search_key, split_words

Matcher = Callable[[AnalysedItem], bool]


def compile_matcher(condition: ast.Condition, frequencies: WordFrequencies) -> Matcher:
    """Compile a condition in normal form (without $v[…]). `frequencies` weigh the words of SIMILAR."""
    match condition:
        case ast.And(parts):
            tests = tuple(compile_matcher(part, frequencies) for part in parts)
            return lambda analysed: all(test(analysed) for test in tests)
        case ast.Or(parts):
            tests = tuple(compile_matcher(part, frequencies) for part in parts)
            return lambda analysed: any(test(analysed) for test in tests)
        case ast.Not(part):
            inner = compile_matcher(part, frequencies)
            return lambda analysed: not inner(analysed)
        case ast.Contains():
            return _match_contains(condition)
        case ast.Near():
            return _match_near(condition)
        case ast.Equals():
            return _match_equals(condition)
        case ast.Matches():
            return _match_pattern(condition)
        case ast.Similar():
            return _match_similar(condition, frequencies)
        case ast.DateIs():
            return _match_date(condition)
        case ast.DateIn(field, window):
            seconds = window.seconds or 0
            return lambda analysed: (
                (date := analysed.field_date(field)) is not None and date >= analysed.arrived - seconds
            )
        case ast.SizeIs(cmp, number):
            compare = COMPARE_FUNCTIONS[cmp]
            return lambda analysed: compare(analysed.size, number)
        case ast.Has(field):
            return lambda analysed: analysed.has_field(field)
        case ast.SourceIs():
            return _match_source(condition)
        case ast.Changed(field, cmp, percent):
            if cmp is None:
                return lambda analysed: analysed.has_changed(field)
            compare = COMPARE_FUNCTIONS[cmp]
            return lambda analysed: analysed.has_changed(field) and compare(analysed.changed_share(field), percent)
        case ast.StoryCount() | ast.FirstOfStory() | ast.StoryGrowing():
            raise TypeError("a story has several items, and a matcher sees one")
        case ast.Scoped(var):
            raise TypeError(f"${var}[…] remains in a condition that should be in normal form")


def _match_contains(condition: ast.Contains) -> Matcher:
    field = condition.field
    if any(compile_symbols(value, condition.exact) for value in condition.values):
        return _match_symbols(condition)
    read = AnalysedItem.exact_words if condition.exact else AnalysedItem.joined_words
    needles = tuple(search_key(value, condition.exact) for value in condition.values)
    if not all(needles):  # folding can remove a whole value; it then matches no text, while "" would match every text
        if condition.all:
            return lambda analysed: False
        needles = tuple(filter(None, needles))
    parts = ITEM_FIELDS if field is ast.Field.ITEM else (field,)

    def any_occurs(wanted: tuple[str, ...], analysed: AnalysedItem) -> bool:
        for part in parts:
            words = read(analysed, part)
            for each in wanted:
                if each in words:
                    return True
        return False

    if condition.all:
        return lambda analysed: all(any_occurs((wanted,), analysed) for wanted in needles)
    return partial(any_occurs, needles)


def _match_symbols(condition: ast.Contains) -> Matcher:
    """Match searched texts of which some have symbols, as C++ has."""
    tests = [_match_searched_text(condition.field, value, condition.exact) for value in condition.values]
    quantify = all if condition.all else any
    return lambda analysed: quantify(test(analysed) for test in tests)


def _match_searched_text(field: ast.Field, value: str, exact: bool) -> Matcher:
    words, pattern = ast.Contains(field, (value,), exact=exact), compile_symbols(value, exact)
    if pattern is None:
        return _match_contains(words)
    needle = search_key(value, exact)
    read = AnalysedItem.exact_words if exact else AnalysedItem.joined_words
    search = pattern.search

    def test(analysed: AnalysedItem) -> bool:
        return needle in read(analysed, field) and search(analysed.words_and_symbols(field, exact)) is not None

    return test


def _match_near(condition: ast.Near) -> Matcher:
    """Match items in which both phrases occur in one value of the field, at most `distance` words apart.

    The distance is from the last word of the earlier phrase to the first word of the later one, in either order, and
    never across two values, such as two authors or two categories. The field must also have the symbols of a phrase.
    """
    field, distance, values = condition.field, condition.distance, (condition.left, condition.right)
    left, right = map(search_key, values)
    if not (left and right):  # folding can remove a whole phrase; it then occurs in no text
        return lambda analysed: False
    symbols = [_match_searched_text(field, value, exact=False) for value in values if compile_symbols(value)]

    def test(analysed: AnalysedItem) -> bool:
        words = analysed.joined_words(field)
        near = _is_followed(words, left, right, distance) or _is_followed(words, right, left, distance)
        return near and all(search(analysed) for search in symbols)

    return test


def _is_followed(words: str, earlier: str, later: str, distance: int) -> bool:
    """Return whether in some value the second phrase starts at most `distance` words after the end of the first one.

    Only the last occurrence before each later phrase is looked at, so the time is linear in the length of the text.
    """
    at = words.find(earlier)
    while at >= 0:
        start = words.find(later, words.index(" ", at + len(earlier) - 1))
        if start < 0:
            return False
        at = words.rfind(earlier, at, start + 1)
        between = words[words.index(" ", at + len(earlier) - 1) : start + 1]
        if between.count(" ") <= distance and SEPARATOR not in between:
            return True
        at = words.find(earlier, at + 1)
    return False


def _match_equals(condition: ast.Equals) -> Matcher:
    field = condition.field
    values = frozenset(to_comparable(field, value) for value in condition.values)
    negated = condition.negated
    if condition.all:
        return lambda analysed: (values <= analysed.comparable_values(field)) is not negated
    return lambda analysed: values.isdisjoint(analysed.comparable_values(field)) is negated


def compile_pattern(condition: ast.Matches) -> Callable[[str], bool]:
    """Compile a search with RE2 that does not log. Lone surrogates are searched as question marks."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not condition.ignore_case
    pattern = re2.compile(condition.pattern, options)

    def search(text: str) -> bool:
        try:
            return pattern.search(text) is not None
        except UnicodeEncodeError:
            return pattern.search(text.encode(errors="replace").decode()) is not None

    return search


def _match_pattern(condition: ast.Matches) -> Matcher:
    search, field = compile_pattern(condition), condition.field
    return lambda analysed: any(map(search, analysed.field_texts(field)))


def _match_similar(condition: ast.Similar, frequencies: WordFrequencies) -> Matcher:
    field, at, bag = condition.field, condition.at, Counter(split_words(condition.text))
    frequencies.track_field(field)

    def test(analysed: AnalysedItem) -> bool:
        weights = frequencies.field_weights(field)
        return any(weights.weigh_bag(value).is_similar(bag, at) for value in analysed.word_bags(field))

    return test


def _match_date(condition: ast.DateIs) -> Matcher:
    field, when = condition.field, condition.when
    # x != v means NOT x = v, which is true without a date
    missing = condition.cmp is ast.ComparisonOperator.NE
    compare = COMPARE_FUNCTIONS[condition.cmp]

    def test(analysed: AnalysedItem) -> bool:
        date = analysed.field_date(field)
        if date is None:
            return missing
        return compare(date, analysed.arrived - when.seconds if isinstance(when, ast.RelativeInstant) else when.epoch)

    return test


def _match_source(condition: ast.SourceIs) -> Matcher:
    addresses = frozenset(
        normalise_url(source.url) for source in condition.sources if isinstance(source, ast.FeedAddress)
    )
    names = tuple(source.name for source in condition.sources if isinstance(source, ast.FeedName))

    def test(analysed: AnalysedItem) -> bool:
        found = analysed.source in addresses or _is_named(analysed.origin, names)
        return found is not condition.negated

    return test


def _is_named(origin: Origin, names: tuple[str, ...]) -> bool:
    return any(map(origin.has_name, names))
