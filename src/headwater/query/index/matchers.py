"""A condition as a function of an analysed item. Two-valued: looking at a missing field is FALSE, its NOT is TRUE."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

import re2

from headwater.formats.values.links import normalise_url
from headwater.language import ast
from headwater.query.items.analysed_item import AnalysedItem, to_comparable
from headwater.query.items.origin import Origin
from headwater.query.items.similarity import WordFrequencies, is_similar
from headwater.query.items.tokens import SEPARATOR, search_key, split_words

Matcher = Callable[[AnalysedItem], bool]

_COMPARE_FUNCTIONS: dict[ast.ComparisonOperator, Callable[[float, float], bool]] = {
    ast.ComparisonOperator.EQ: operator.eq,
    ast.ComparisonOperator.NE: operator.ne,
    ast.ComparisonOperator.LT: operator.lt,
    ast.ComparisonOperator.LE: operator.le,
    ast.ComparisonOperator.GT: operator.gt,
    ast.ComparisonOperator.GE: operator.ge,
}


def compile_matcher(pred: ast.Condition, frequencies: WordFrequencies) -> Matcher:
    """The test for a condition in normal form (without $v[…]). `frequencies` weighs the words of SIMILAR."""
    match pred:
        case ast.And(parts):
            tests = tuple(compile_matcher(part, frequencies) for part in parts)
            return lambda seen: all(test(seen) for test in tests)
        case ast.Or(parts):
            tests = tuple(compile_matcher(part, frequencies) for part in parts)
            return lambda seen: any(test(seen) for test in tests)
        case ast.Not(part):
            inner = compile_matcher(part, frequencies)
            return lambda seen: not inner(seen)
        case ast.Contains():
            return _match_contains(pred)
        case ast.Near():
            return _match_near(pred)
        case ast.Equals():
            return _match_equals(pred)
        case ast.Matches():
            return _match_pattern(pred)
        case ast.Similar():
            return _match_similar(pred, frequencies)
        case ast.DateIs():
            return _match_date(pred)
        case ast.DateIn(field, window):
            seconds = window.seconds or 0
            return lambda seen: (date := seen.field_date(field)) is not None and date >= seen.arrived - seconds
        case ast.SizeIs(cmp, number):
            compare = _COMPARE_FUNCTIONS[cmp]
            return lambda seen: compare(seen.size, number)
        case ast.Has(field):
            return lambda seen: seen.has_field(field)
        case ast.SourceIs():
            return _match_source(pred)
        case ast.Scoped(var):
            raise TypeError(f"${var}[…] is left in a condition that should be in normal form")


def _match_contains(pred: ast.Contains) -> Matcher:
    field = pred.field
    read = AnalysedItem.exact_words if pred.exact else AnalysedItem.joined_words
    needles = tuple(search_key(value, pred.exact) for value in pred.values)
    if not all(needles):  # folding can leave nothing of a value; it stands in no text, while "" would in every one
        if pred.all:
            return lambda seen: False
        needles = tuple(filter(None, needles))
    if len(needles) == 1:
        (only,) = needles
        return lambda seen: only in read(seen, field)
    quantify = all if pred.all else any

    def test(seen: AnalysedItem) -> bool:
        text = read(seen, field)
        return quantify(wanted in text for wanted in needles)

    return test


def _match_near(pred: ast.Near) -> Matcher:
    left, right = search_key(pred.left), search_key(pred.right)

    def test(seen: AnalysedItem) -> bool:
        text = seen.joined_words(pred.field)
        if not left or not right or left not in text or right not in text:
            return False
        return any(_is_near(value, left, right, pred.distance) for value in text.split(SEPARATOR))

    return test


def _is_near(value: str, left: str, right: str, distance: int) -> bool:
    """Whether both stand in the value with at most `distance` from the last word of one to the first of the other."""
    lefts, rights = _find_word_positions(value, left), _find_word_positions(value, right)
    return _is_followed(lefts, rights, distance) or _is_followed(rights, lefts, distance)


def _is_followed(ones: list[tuple[int, int]], others: list[tuple[int, int]], distance: int) -> bool:
    starts = [first for first, _ in others]
    for _, last in ones:
        at = bisect_right(starts, last)
        if at < len(starts) and starts[at] - last <= distance:
            return True
    return False


def _find_word_positions(value: str, wanted: str) -> list[tuple[int, int]]:
    """First and last word position of each occurrence, in order."""
    places: list[tuple[int, int]] = []
    more_words = wanted.count(" ", 1) - wanted.endswith(" ")
    padded = f" {value.strip()} "
    first = before = 0
    at = padded.find(wanted)
    while at >= 0:
        first += padded.count(" ", before, at)
        places.append((first, first + more_words))
        before, at = at, padded.find(wanted, at + 1)
    return places


def _match_equals(pred: ast.Equals) -> Matcher:
    field = pred.field
    values = frozenset(to_comparable(field, value) for value in pred.values)
    if pred.all:
        found: Matcher = lambda seen: values <= seen.comparable_values(field)  # noqa: E731 - the two forms read best side by side
    else:
        found = lambda seen: not values.isdisjoint(seen.comparable_values(field))  # noqa: E731
    return (lambda seen: not found(seen)) if pred.negated else found


def compile_pattern(pred: ast.Matches) -> Callable[[str], bool]:
    """RE2's search, quiet; half characters, which UTF-8 cannot hold, are looked at as question marks."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not pred.ignore_case
    pattern = re2.compile(pred.pattern, options)

    def search(text: str) -> bool:
        try:
            return pattern.search(text) is not None
        except UnicodeEncodeError:
            return pattern.search(text.encode(errors="replace").decode()) is not None

    return search


def _match_pattern(pred: ast.Matches) -> Matcher:
    search, field = compile_pattern(pred), pred.field
    return lambda seen: any(map(search, seen.field_texts(field)))


def _match_similar(pred: ast.Similar, frequencies: WordFrequencies) -> Matcher:
    field, at, bag = pred.field, pred.at, Counter(split_words(pred.text))
    frequencies.track_field(field)

    def test(seen: AnalysedItem) -> bool:
        weight = frequencies.field_weights(field)
        return any(is_similar(bag, value, weight, at) for value in seen.word_bags(field))

    return test


def _match_date(pred: ast.DateIs) -> Matcher:
    field, when = pred.field, pred.when
    # x != v is NOT x = v, and so TRUE without a date
    missing = pred.cmp is ast.ComparisonOperator.NE
    compare = _COMPARE_FUNCTIONS[pred.cmp]

    def test(seen: AnalysedItem) -> bool:
        date = seen.field_date(field)
        if date is None:
            return missing
        return compare(date, seen.arrived - when.seconds if isinstance(when, ast.RelativeInstant) else when.epoch)

    return test


def _match_source(pred: ast.SourceIs) -> Matcher:
    addresses = frozenset(normalise_url(source.url) for source in pred.sources if isinstance(source, ast.FeedAddress))
    names = tuple(source.name for source in pred.sources if isinstance(source, ast.FeedName))

    def test(seen: AnalysedItem) -> bool:
        found = seen.source in addresses or _is_named(seen.origin, names)
        return found is not pred.negated

    return test


def _is_named(origin: Origin, names: tuple[str, ...]) -> bool:
    return any(map(origin.has_name, names))
