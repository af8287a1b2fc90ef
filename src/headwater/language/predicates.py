"""Conditions: the part of the grammar between WHERE or [ and what follows them."""

from __future__ import annotations

import re

import re2

from headwater.language.ast import (
    TRUE,
    Address,
    Ago,
    And,
    Cmp,
    Contains,
    DateIn,
    DateIs,
    Equals,
    Field,
    Has,
    Instant,
    Matches,
    Name,
    Near,
    Not,
    Or,
    Position,
    Pred,
    Scoped,
    Similar,
    SizeIs,
    SourceIs,
    Unit,
    Window,
)
from headwater.language.cursor import CLAUSES, JOINS, Cursor, Mistake
from headwater.language.instants import read_instant
from headwater.language.lexer import KEYWORDS, Kind, Token

REGEX_CHARACTERS = 1_000
COMPARISONS = tuple(map(str, Cmp))
UNITS = {name: unit for unit in Unit for name in (str(unit), f"{unit}S")}
_AFTER_ATOM = ("AND", "OR", "WHERE", *JOINS, *CLAUSES)
_WORD = re.compile(r"[^\W_]")


def predicate(cursor: Cursor) -> Pred:
    """conj { OR conj }"""
    start = cursor.position()
    parts = [_conjunction(cursor)]
    while cursor.take_if("OR"):
        parts.append(_conjunction(cursor))
    return parts[0] if len(parts) == 1 else Or(tuple(_flat(parts, Or)), start)


def _conjunction(cursor: Cursor) -> Pred:
    start = cursor.position()
    parts = [_negation(cursor)]
    while cursor.take_if("AND"):
        parts.append(_negation(cursor))
    return parts[0] if len(parts) == 1 else And(tuple(_flat(parts, And)), start)


def _flat(parts: list[Pred], kind: type[And | Or]) -> list[Pred]:
    return [inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))]


def _negation(cursor: Cursor) -> Pred:
    start = cursor.position()
    try:
        if cursor.take_if("NOT"):
            with cursor.nested():
                return Not(_negation(cursor), start)
        if cursor.take_sign("("):
            with cursor.nested():
                inner = predicate(cursor)
            cursor.close(")", "(")
            return inner
        if cursor.at_kind(Kind.VAR):
            name = cursor.take().value
            cursor.expect_sign("[", f'the conditions on ${name} stand in brackets: ${name}[TITLE CONTAINS "…"]')
            with cursor.nested():
                inner = predicate(cursor)
            cursor.close("]", "[")
            return Scoped(name, inner, start)
        return _atom(cursor)
    except Mistake as mistake:
        if mistake.lost:
            raise
        cursor.skip(*_AFTER_ATOM, signs=(")", "]", "|"))
        return TRUE


def _atom(cursor: Cursor) -> Pred:
    start = cursor.position()
    if cursor.take_if("HAS"):
        return Has(cursor.field(), start)
    field = cursor.field()
    if field.is_text:
        return _text_atom(cursor, field)
    if field.is_date:
        return _date_atom(cursor, field)
    if field is Field.SIZE:
        _compare(cursor, field, COMPARISONS)
        return SizeIs(Cmp(cursor.take().value), cursor.number(0, None, "SIZE", "SIZE > 500"), start)
    return _source_atom(cursor)


_TEXT_OPERATORS = ("CONTAINS", "=", "!=", "IN", "MATCHES")
_OTHER_LANGUAGES = {
    "LIKE": 'use CONTAINS "…" for words or MATCHES /…/ for patterns',
    "IS": "use = for a value, HAS to ask whether there is one",
    "HAS": "HAS stands before the field: HAS LINK",
    "NOT": "NOT stands before the field: NOT TITLE CONTAINS …",
}


def _text_atom(cursor: Cursor, field: Field) -> Pred:
    start = cursor.report.position(cursor.before.offset)
    if cursor.take_if("CONTAINS"):
        return _contains(cursor, field, start)
    if negation := cursor.take_sign("=", "!="):
        values, everyone, _ = _values(cursor, field, str(negation.value), "a text in quotes")
        return Equals(field, values, everyone, negation.value == "!=", start)
    if cursor.take_if("IN"):
        return Equals(field, tuple(token.value for token in strings(cursor)), pos=start, listed=True)
    if cursor.take_if("MATCHES"):
        token = cursor.expect_kind(
            Kind.REGEX, "a regular expression between slashes", "for example MATCHES /CVE-\\d+/i"
        )
        return _matches(cursor, field, token)
    if cursor.take_if("SIMILAR"):
        cursor.expect("TO")
        token = _searched(cursor, "a text in quotes")
        at = similarity(cursor) if cursor.take_if("AT") else 0.5
        return Similar(field, token.value, at, start)
    if cursor.at_sign("<", "<=", ">", ">="):
        cursor.wrong(
            cursor.token,
            f"{field} is text and cannot be compared with {cursor.token.value}",
            "use CONTAINS, =, !=, IN or MATCHES",
        )
        raise Mistake
    hint = _OTHER_LANGUAGES.get(cursor.token.text.upper()) or cursor.meant(("CONTAINS", "MATCHES", "SIMILAR"))
    if cursor.at_kind(Kind.STRING):
        hint = f"for example {field} CONTAINS {cursor.token.text[:40]}"
    raise cursor.fail(f"an operator after {field} ({', '.join(_TEXT_OPERATORS)})", hint)


def similarity(cursor: Cursor) -> float:
    return cursor.number(0.01, 1, "AT", "AT 0.7")


def _contains(cursor: Cursor, field: Field, start: Position) -> Pred:
    exact = cursor.take_if("EXACT") is not None
    if listed := cursor.take_if("ANY", "ALL"):
        tokens = strings(cursor)
        for token in tokens:
            _check_words(cursor, token)
        values = tuple(token.value for token in tokens)
        everyone = listed.value == "ALL" and len(values) > 1
        return Contains(field, values, everyone, exact, start, listed=True)
    expected = "the searched text in quotes, or ANY (…), ALL (…)"
    if not exact and cursor.at_kind(Kind.STRING) and cursor.after().keyword == "NEAR":
        left = _searched(cursor, expected)
        cursor.take()
        distance = cursor.integer("how many words apart", 'for example CONTAINS "ash" NEAR 5 "cloud"')
        return Near(field, left.value, distance, _searched(cursor, "the second text in quotes").value, start)
    values, everyone, tokens = _values(cursor, field, "CONTAINS", expected)
    for token in tokens:
        _check_words(cursor, token)
    return Contains(field, values, everyone, exact, start)


def _searched(cursor: Cursor, expected: str) -> Token:
    token = cursor.expect_kind(Kind.STRING, expected, "put it in double quotes")
    _check_words(cursor, token)
    return token


def _check_words(cursor: Cursor, token: Token) -> None:
    if not _WORD.search(token.value):
        cursor.wrong(token, "the searched text has no word", "CONTAINS needs at least one letter or digit")


def _values(cursor: Cursor, field: Field, operator: str, expected: str) -> tuple[tuple[str, ...], bool, list[Token]]:
    """STRING { OR STRING } | STRING { AND STRING }: the values, whether all are wanted, and their tokens."""
    tokens = [cursor.expect_kind(Kind.STRING, expected, "put it in double quotes")]
    connective: str | None = None
    while cursor.at("AND", "OR") and cursor.after().kind is Kind.STRING:
        word = cursor.take()
        if connective is not None and word.value != connective:
            inside = f"{field} CONTAINS ANY (…) AND {field} CONTAINS ALL (…)"
            instead = inside if operator == "CONTAINS" else f"{field} IN (…)"
            cursor.wrong(word, "AND and OR are mixed in a list of values", f"write {instead}, or repeat the field")
        connective = connective or word.value
        tokens.append(cursor.take())
    return tuple(token.value for token in tokens), connective == "AND", tokens


def strings(cursor: Cursor) -> list[Token]:
    """( STRING { , STRING } )"""
    cursor.expect_sign("(", 'a list stands in parentheses: ("a", "b")')
    tokens = [cursor.expect_kind(Kind.STRING, "a text in quotes", "a list has at least one value in double quotes")]
    while cursor.at_sign(",") or cursor.at("AND", "OR"):
        if not cursor.at_sign(","):
            cursor.miss("“,” or “)”", "values of a list are separated by commas")
        cursor.take()
        tokens.append(cursor.expect_kind(Kind.STRING, "a text in quotes", "put it in double quotes"))
    cursor.close(")", "(")
    return tokens


def _matches(cursor: Cursor, field: Field, token: Token) -> Pred:
    """Compiled here once, so that a pattern which RE2 refuses is refused when the query is made."""
    ignore_case = token.text.endswith("i")
    body = token.text[1:-2] if ignore_case else token.text[1:-1]
    pattern = re.sub(r"\\(.)", lambda escape: "/" if escape[1] == "/" else escape[0], body)
    if not pattern:
        cursor.wrong(token, "the regular expression is empty", "a comment begins with --")
    elif len(pattern) > REGEX_CHARACTERS:
        cursor.wrong(
            token,
            f"the regular expression has {len(pattern):,} characters",
            f"at most {REGEX_CHARACTERS:,} are allowed",
        )
    elif problem := regex_problem(pattern):
        cursor.wrong(
            token,
            f"bad regular expression: {problem}",
            "RE2 syntax: no back-references and no look-around",
        )
    return Matches(field, pattern, ignore_case, cursor.position(token))


def regex_problem(pattern: str) -> str | None:
    """Why RE2 refuses the pattern, with its backslashes doubled as in a string; None if it takes it."""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else "unknown error"
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return text.replace("\\", "\\\\")
    return None


def _compare(cursor: Cursor, field: Field, operators: tuple[str, ...]) -> None:
    if not cursor.at_sign(*COMPARISONS):
        hint = f"{field} is {'a date' if field.is_date else 'a number'}: compare it with < or >"
        raise cursor.fail(f"an operator after {field} ({', '.join(operators)})", cursor.meant(operators, hint))


def _date_atom(cursor: Cursor, field: Field) -> Pred:
    start = cursor.report.position(cursor.before.offset)
    if cursor.take_if("IN"):
        window = last(cursor)
        if window.unit is None:
            cursor.wrong(
                cursor.before, f"{field} is a date and needs a span of time", f"for example {field} IN LAST 3 DAYS"
            )
        return DateIn(field, window, start)
    _compare(cursor, field, (*COMPARISONS, "IN"))
    cmp = Cmp(cursor.take().value)
    if cursor.take_if("NOW"):
        if not cursor.take_sign("-"):
            return DateIs(field, cmp, Ago(), start)
        count = cursor.integer("a number", "for example NOW - 3 DAYS")
        return DateIs(field, cmp, Ago(count, unit(cursor, "NOW - 3 DAYS")), start)
    token = cursor.expect_kind(
        Kind.STRING, "a date in quotes or NOW", f'for example {field} > "2024-03-01" or {field} > NOW - 3 DAYS'
    )
    epoch = read_instant(token.value)
    if epoch is None:
        cursor.wrong(token, f"“{token.value}” is not a date", 'write "2024-03-01" or "2024-03-01T08:00Z"')
    return DateIs(field, cmp, Instant(token.value, epoch or 0.0), start)


def unit(cursor: Cursor, example: str) -> Unit:
    if cursor.token.kind is Kind.WORD and cursor.token.value in UNITS:
        return UNITS[cursor.take().value]
    raise cursor.fail("a time unit (MINUTES, HOURS, DAYS, WEEKS)", cursor.meant(UNITS, f"for example {example}"))


def last(cursor: Cursor, expected: str = "LAST …") -> Window:
    """LAST [INT] ( ITEMS | unit )"""
    cursor.expect("LAST", "for example LAST 3 HOURS or LAST 100 ITEMS", expected)
    count = 1
    if cursor.at_kind(Kind.NUMBER):
        count = cursor.integer("a number", "for example LAST 3 HOURS or LAST 100 ITEMS")
    if cursor.take_if("ITEMS", "ITEM"):
        return Window(count)
    if cursor.token.kind is Kind.WORD and cursor.token.value in UNITS:
        return Window(count, UNITS[cursor.take().value])
    raise cursor.fail(
        "ITEMS or a time unit (MINUTES, HOURS, DAYS, WEEKS)",
        cursor.meant((*UNITS, "ITEMS"), "for example LAST 3 HOURS or LAST 100 ITEMS"),
    )


def _source_atom(cursor: Cursor) -> Pred:
    start = cursor.report.position(cursor.before.offset)
    if cursor.take_if("IN"):
        cursor.expect_sign("(", "a list stands in parentheses: (guardian, iris)")
        sources = [_source(cursor)]
        while cursor.take_sign(","):
            sources.append(_source(cursor))
        cursor.close(")", "(")
        return SourceIs(tuple(sources), pos=start, listed=True)
    if not cursor.at_sign("=", "!="):
        raise cursor.fail("an operator after SOURCE (=, !=, IN)", "for example SOURCE = guardian")
    negated = cursor.take().value == "!="
    return SourceIs((_source(cursor),), negated, start)


def _source(cursor: Cursor) -> Name | Address:
    start = cursor.position()
    if cursor.at_kind(Kind.STRING):
        token = cursor.take()
        if is_address(token.value):
            return Address(token.value, start)
        not_an_address(cursor, token)
        return Address(token.value, start)
    if cursor.at_kind(Kind.WORD) and cursor.token.value not in KEYWORDS:
        return Name(cursor.take().value, start)
    raise cursor.fail("a feed name, or an address in quotes", reserved(cursor))


def is_address(text: str) -> bool:
    return re.match(r"https?://[^\s/?#]", text, re.IGNORECASE) is not None and not re.search(r"[\x00-\x20\x7f]", text)


def not_an_address(cursor: Cursor, token: Token) -> None:
    cursor.wrong(
        token,
        f"“{token.value[:60]}” is not a feed address",
        'an address starts with http:// or https://; a feed you named is written without quotes, a group as TAG "…"',
    )


def reserved(cursor: Cursor, otherwise: str | None = None) -> str | None:
    """The hint for a keyword where a name should stand."""
    keyword = cursor.token.keyword
    return f"{keyword} is a reserved word; choose another name" if keyword else otherwise
