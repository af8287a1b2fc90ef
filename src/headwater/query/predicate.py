"""A condition as a function of an analysed item. Two-valued: looking at a missing field is FALSE, its NOT is TRUE."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

import re2

from headwater.formats.urls import normalise
from headwater.language import ast
from headwater.query.similar import Frequencies, alike
from headwater.query.text import Analysed, Origin, compared
from headwater.query.words import SEPARATOR, needle, words

Test = Callable[[Analysed], bool]

_COMPARE: dict[ast.Cmp, Callable[[float, float], bool]] = {
    ast.Cmp.EQ: operator.eq,
    ast.Cmp.NE: operator.ne,
    ast.Cmp.LT: operator.lt,
    ast.Cmp.LE: operator.le,
    ast.Cmp.GT: operator.gt,
    ast.Cmp.GE: operator.ge,
}


def compile_predicate(pred: ast.Pred, frequencies: Frequencies) -> Test:
    """The test for a condition in normal form (without $v[…]). `frequencies` weighs the words of SIMILAR."""
    match pred:
        case ast.And(parts):
            tests = tuple(compile_predicate(part, frequencies) for part in parts)
            return lambda seen: all(test(seen) for test in tests)
        case ast.Or(parts):
            tests = tuple(compile_predicate(part, frequencies) for part in parts)
            return lambda seen: any(test(seen) for test in tests)
        case ast.Not(part):
            inner = compile_predicate(part, frequencies)
            return lambda seen: not inner(seen)
        case ast.Contains():
            return _contains(pred)
        case ast.Near():
            return _near(pred)
        case ast.Equals():
            return _equals(pred)
        case ast.Matches():
            return _matches(pred)
        case ast.Similar():
            return _similar(pred, frequencies)
        case ast.DateIs():
            return _date_is(pred)
        case ast.DateIn(field, window):
            seconds = window.seconds or 0
            return lambda seen: (date := seen.date(field)) is not None and date >= seen.arrived - seconds
        case ast.SizeIs(cmp, number):
            compare = _COMPARE[cmp]
            return lambda seen: compare(seen.size, number)
        case ast.Has(field):
            return lambda seen: seen.has(field)
        case ast.SourceIs():
            return _source(pred)
        case ast.Scoped(var):
            raise TypeError(f"${var}[…] is left in a condition that should be in normal form")


def _contains(pred: ast.Contains) -> Test:
    field = pred.field
    read = Analysed.exact if pred.exact else Analysed.joined
    needles = tuple(needle(value, pred.exact) for value in pred.values)
    if not all(needles):  # folding can leave nothing of a value; it stands in no text, while "" would in every one
        if pred.all:
            return lambda seen: False
        needles = tuple(filter(None, needles))
    if len(needles) == 1:
        (only,) = needles
        return lambda seen: only in read(seen, field)
    quantify = all if pred.all else any

    def test(seen: Analysed) -> bool:
        text = read(seen, field)
        return quantify(wanted in text for wanted in needles)

    return test


def _near(pred: ast.Near) -> Test:
    left, right = needle(pred.left), needle(pred.right)

    def test(seen: Analysed) -> bool:
        text = seen.joined(pred.field)
        if not left or not right or left not in text or right not in text:
            return False
        return any(_close(value, left, right, pred.distance) for value in text.split(SEPARATOR))

    return test


def _close(value: str, left: str, right: str, distance: int) -> bool:
    """Whether both stand in the value with at most `distance` from the last word of one to the first of the other."""
    lefts, rights = _places(value, left), _places(value, right)
    return _follows(lefts, rights, distance) or _follows(rights, lefts, distance)


def _follows(ones: list[tuple[int, int]], others: list[tuple[int, int]], distance: int) -> bool:
    starts = [first for first, _ in others]
    for _, last in ones:
        at = bisect_right(starts, last)
        if at < len(starts) and starts[at] - last <= distance:
            return True
    return False


def _places(value: str, wanted: str) -> list[tuple[int, int]]:
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


def _equals(pred: ast.Equals) -> Test:
    field = pred.field
    values = frozenset(compared(field, value) for value in pred.values)
    if pred.all:
        found: Test = lambda seen: values <= seen.wholes(field)  # noqa: E731 - the two forms read best side by side
    else:
        found = lambda seen: not values.isdisjoint(seen.wholes(field))  # noqa: E731
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


def _matches(pred: ast.Matches) -> Test:
    search, field = compile_pattern(pred), pred.field
    return lambda seen: any(map(search, seen.texts(field)))


def _similar(pred: ast.Similar, frequencies: Frequencies) -> Test:
    field, at, bag = pred.field, pred.at, Counter(words(pred.text))
    frequencies.track(field)

    def test(seen: Analysed) -> bool:
        weight = frequencies.weight(field)
        return any(alike(bag, value, weight, at) for value in seen.bags(field))

    return test


def _date_is(pred: ast.DateIs) -> Test:
    field, when = pred.field, pred.when
    # x != v is NOT x = v, and so TRUE without a date
    missing = pred.cmp is ast.Cmp.NE
    compare = _COMPARE[pred.cmp]

    def test(seen: Analysed) -> bool:
        date = seen.date(field)
        if date is None:
            return missing
        return compare(date, seen.arrived - when.seconds if isinstance(when, ast.Ago) else when.epoch)

    return test


def _source(pred: ast.SourceIs) -> Test:
    addresses = frozenset(normalise(source.url) for source in pred.sources if isinstance(source, ast.Address))
    names = tuple(source.name for source in pred.sources if isinstance(source, ast.Name))

    def test(seen: Analysed) -> bool:
        found = seen.source in addresses or _called(seen.origin, names)
        return found is not pred.negated

    return test


def _called(origin: Origin, names: tuple[str, ...]) -> bool:
    return any(map(origin.called, names))
