"""Parses conditions: the part of the grammar after WHERE or [."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import re2

from headwater.language.ast import (
    TRUE,
    And,
    Changed,
    ComparisonOperator,
    Condition,
    Contains,
    DateIn,
    DateIs,
    Equals,
    FeedAddress,
    FeedName,
    Field,
    FirstOfStory,
    Has,
    Instant,
    LastWindow,
    Matches,
    Near,
    Not,
    Or,
    Position,
    RelativeInstant,
    Scoped,
    Similar,
    SizeIs,
    SourceIs,
    StoryCount,
    StoryGrowing,
    StoryMeasure,
    TimeUnit,
)
from headwater.language.parsing.cursor import CLAUSE_KEYWORDS, JOIN_KEYWORDS, Cursor, ParseError
from headwater.language.parsing.lexer import KEYWORDS, Token, TokenKind
from headwater.times import parse_instant

MAX_REGEX_CHARACTERS = 1_000
CHANGEABLE_FIELDS = ("TITLE", "CONTENT", "DESCRIPTION", "AUTHOR", "CATEGORY", "LINK")
COMPARISONS = tuple(map(str, ComparisonOperator))
UNITS = {name: unit for unit in TimeUnit for name in (str(unit), f"{unit}S")}
_AFTER_ATOM = ("AND", "OR", "WHERE", *JOIN_KEYWORDS, *CLAUSE_KEYWORDS)
_WORD = re.compile(r"[^\W_]")
_NOT_IN_ADDRESS = re.compile(r"[\x00-\x20\x7f]")
_LOOSE_STAR = re.compile(r"[\s!-/:-@\[-`{-~]\*\s*$")


def parse_condition(cursor: Cursor) -> Condition:
    """Parse conjunction { OR conjunction }."""
    start = cursor.position()
    parts = [_parse_conjunction(cursor)]
    while cursor.take_keyword("OR"):
        parts.append(_parse_conjunction(cursor))
    return parts[0] if len(parts) == 1 else Or(tuple(_flatten_parts(parts, Or)), start)


def _parse_conjunction(cursor: Cursor) -> Condition:
    start = cursor.position()
    parts = [_parse_negation(cursor)]
    while cursor.take_keyword("AND"):
        parts.append(_parse_negation(cursor))
    return parts[0] if len(parts) == 1 else And(tuple(_flatten_parts(parts, And)), start)


def _flatten_parts(parts: list[Condition], kind: type[And | Or]) -> list[Condition]:
    return [inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))]


def _parse_negation(cursor: Cursor) -> Condition:
    start = cursor.position()
    try:
        if cursor.take_keyword("NOT"):
            with cursor.nested_level():
                return Not(_parse_negation(cursor), start)
        if cursor.take_sign("("):
            with cursor.nested_level():
                inner = parse_condition(cursor)
            cursor.expect_closing(")", "(")
            return inner
        if cursor.at_kind(TokenKind.VAR):
            name = cursor.take().value
            cursor.expect_sign("[", f'the conditions on ${name} stand in brackets: ${name}[TITLE CONTAINS "…"]')
            with cursor.nested_level():
                inner = parse_condition(cursor)
            cursor.expect_closing("]", "[")
            return Scoped(name, inner, start)
        return _parse_atom(cursor)
    except ParseError as error:
        if error.lost:
            raise
        cursor.skip_to(*_AFTER_ATOM, signs=(")", "]", "|"))
        return TRUE


def _parse_atom(cursor: Cursor) -> Condition:
    start = cursor.position()
    if cursor.take_keyword("HAS"):
        if cursor.at_keyword("NOT"):
            raise cursor.missing_error("a field", "NOT stands before HAS: NOT HAS AUTHOR")
        return Has(cursor.parse_field(example="HAS ENCLOSURE"), start)
    if cursor.take_word("STORY"):
        return _parse_story(cursor, start)
    if cursor.take_word("FIRST"):
        cursor.expect_word("OF", "FIRST OF STORY is the item that began its story")
        cursor.expect_word("STORY", "FIRST OF STORY is the item that began its story")
        return FirstOfStory(start)
    if cursor.take_word("CHANGED"):
        return _parse_changed(cursor, start)
    field = cursor.parse_field()
    if field.is_text:
        return _parse_text_atom(cursor, field)
    if field.is_date:
        return _parse_date_atom(cursor, field)
    if field is Field.SIZE:
        _expect_comparison(cursor, field, COMPARISONS)
        return SizeIs(
            ComparisonOperator(cursor.take().value), cursor.parse_number(0, None, "SIZE", "SIZE > 500"), start
        )
    return _parse_source_atom(cursor)


def _parse_changed(cursor: Cursor, start: Position) -> Condition:
    """Parse what follows CHANGED: (field) [BY > n %]."""
    cursor.expect_sign("(", "for example CHANGED(TITLE)")
    if not cursor.at_keyword(*CHANGEABLE_FIELDS):
        cursor.report_missing(f"a field that may change ({', '.join(CHANGEABLE_FIELDS)})", "for example CHANGED(TITLE)")
        cursor.skip_to(signs=(")",))
        cursor.take_sign(")")
        raise ParseError
    field = cursor.parse_field()
    cursor.expect_closing(")", "(")
    if not cursor.take_keyword("BY"):
        return Changed(field, pos=start)
    example = f"CHANGED({field}) BY > 20 %"
    if not cursor.at_sign(">", ">="):
        raise cursor.missing_error("> or >= after BY", f"for example {example}")
    cmp = ComparisonOperator(cursor.take().value)
    percent = cursor.parse_number(0, 100, "BY", example)
    if not cursor.take_sign("%"):
        cursor.report_missing("“%”", f"the share of the words is in percent: {example}")
    return Changed(field, cmp, percent, start)


_STORY_EXAMPLE = "STORY SOURCES >= 3 WITHIN LAST 6 HOURS"


def _parse_story(cursor: Cursor, start: Position) -> Condition:
    """Parse what follows STORY: SOURCES or ITEMS with a comparison, or GROWING."""
    if cursor.take_word("GROWING"):
        usual = StoryGrowing()
        example = "for example STORY GROWING BY 3 WITHIN LAST 1 HOUR"
        number = cursor.parse_integer("a number of publishers", example) if cursor.take_keyword("BY") else usual.number
        within = _parse_story_window(cursor) or usual.within
        return StoryGrowing(number, within, start)
    measures = tuple(map(str, StoryMeasure))
    if not cursor.at_word(*measures):
        hint = cursor.suggest_keyword((*measures, "GROWING"), f"for example {_STORY_EXAMPLE}")
        raise cursor.missing_error("SOURCES, ITEMS or GROWING after STORY", hint)
    measure = StoryMeasure(cursor.take().text.upper())
    if not cursor.at_sign(*COMPARISONS):
        operators = ", ".join(COMPARISONS)
        hint = f"for example STORY {measure} >= 3"
        raise cursor.missing_error(f"an operator after STORY {measure} ({operators})", hint)
    cmp = ComparisonOperator(cursor.take().value)
    number = cursor.parse_integer("a number", f"for example STORY {measure} >= 3")
    return StoryCount(measure, cmp, number, _parse_story_window(cursor), start)


def _parse_story_window(cursor: Cursor) -> LastWindow | None:
    if not cursor.take_keyword("WITHIN"):
        return None
    window = parse_window(cursor)
    if window.unit is None:
        cursor.report_error(cursor.previous, "a story grows in time, not in items", "for example WITHIN LAST 6 HOURS")
        return None
    return window


_TEXT_OPERATORS = ("CONTAINS", "=", "!=", "IN", "MATCHES")
_OTHER_LANGUAGES = {
    "LIKE": 'use CONTAINS "…" for words or MATCHES /…/ for patterns',
    "IS": "use = for a value, HAS to ask whether there is one",
    "HAS": "HAS stands before the field: HAS LINK",
    "NOT": "NOT stands before the field: NOT TITLE CONTAINS …",
    "CHANGED": "CHANGED stands before the field: CHANGED(TITLE)",
    "STARTS": 'TITLE CONTAINS "volcan*" finds the start of a word, TITLE MATCHES /^volcan/i that of the text',
    "BEGINS": 'TITLE CONTAINS "volcan*" finds the start of a word, TITLE MATCHES /^volcan/i that of the text',
    "ENDS": "TITLE MATCHES /erupts$/i finds the end of the text",
}


def _parse_text_atom(cursor: Cursor, field: Field) -> Condition:
    start = cursor.diagnostics.position_at(cursor.previous.offset)
    if cursor.take_keyword("CONTAINS"):
        return _parse_contains(cursor, field, start)
    if negation := cursor.take_sign("=", "!="):
        values, require_all, _ = _parse_values(cursor, field, str(negation.value), "a text in quotes")
        return Equals(field, values, require_all, negation.value == "!=", start)
    if cursor.take_keyword("IN"):
        return Equals(field, tuple(token.value for token in parse_strings(cursor)), pos=start, listed=True)
    if cursor.take_keyword("MATCHES"):
        token = cursor.expect_kind(TokenKind.REGEX, "a regular expression between slashes", _hint_pattern(cursor))
        return _parse_matches(cursor, field, token)
    if cursor.take_keyword("SIMILAR"):
        cursor.expect_keyword("TO", f'for example {field} SIMILAR TO "ash cloud"')
        token = _parse_searched_text(cursor, "a text in quotes")
        at = parse_similarity(cursor) if cursor.take_keyword("AT") else 0.5
        return Similar(field, token.value, at, start)
    if cursor.at_sign("<", "<=", ">", ">="):
        cursor.report_error(
            cursor.token,
            f"{field} is text and cannot be compared with {cursor.token.value}",
            "use CONTAINS, =, !=, IN or MATCHES",
        )
        raise ParseError
    hint = _OTHER_LANGUAGES.get(cursor.token.text.upper()) or cursor.suggest_keyword(
        ("CONTAINS", "MATCHES", "SIMILAR"), f'for example {field} CONTAINS "volcano"'
    )
    if cursor.at_kind(TokenKind.STRING):
        hint = f"for example {field} CONTAINS {cursor.token.text[:40]}"
    elif cursor.at_sign(",") or cursor.at_keyword("AND", "OR"):
        hint = f'each field has its own condition: {field} CONTAINS "a" OR CONTENT CONTAINS "a"'
    raise cursor.missing_error(f"an operator after {field} ({', '.join(_TEXT_OPERATORS)})", hint)


def _hint_pattern(cursor: Cursor) -> str:
    return "add a closing /" if cursor.token.text.startswith("/") else "for example MATCHES /CVE-\\d+/i"


def parse_similarity(cursor: Cursor) -> float:
    return cursor.parse_number(0.01, 1, "AT", "AT 0.7")


def _parse_contains(cursor: Cursor, field: Field, start: Position) -> Condition:
    exact = cursor.take_keyword("EXACT") is not None
    if listed := cursor.take_keyword("ANY", "ALL"):
        tokens = parse_strings(cursor)
        for token in tokens:
            _check_searched_text(cursor, token)
        values = tuple(token.value for token in tokens)
        require_all = listed.value == "ALL" and len(values) > 1
        return Contains(field, values, require_all, exact, start, listed=True)
    expected = "the searched text in quotes, or ANY (…), ALL (…)"
    if not exact and cursor.at_kind(TokenKind.STRING) and cursor.peek().keyword == "NEAR":
        left = _parse_searched_text(cursor, expected)
        cursor.take()
        distance = cursor.parse_integer("how many words apart", 'for example CONTAINS "ash" NEAR 5 "cloud"')
        return Near(field, left.value, distance, _parse_searched_text(cursor, "the second text in quotes").value, start)
    values, require_all, tokens = _parse_values(cursor, field, "CONTAINS", expected)
    for token in tokens:
        _check_searched_text(cursor, token)
    return Contains(field, values, require_all, exact, start)


def _parse_searched_text(cursor: Cursor, expected: str) -> Token:
    token = cursor.expect_kind(TokenKind.STRING, expected, "put it in double quotes")
    _check_searched_text(cursor, token)
    return token


def _check_searched_text(cursor: Cursor, token: Token) -> None:
    if not _WORD.search(token.value):
        cursor.report_error(token, "the searched text has no word", "CONTAINS needs at least one letter or digit")
    elif "*" in token.value.rstrip().removesuffix("*"):
        hint = 'a * stands at the end of the text: "volcan*"; MATCHES /vol.*no/i finds letters in the middle'
        cursor.report_error(token, "the searched text has a * that is not at its end", hint)
    elif _LOOSE_STAR.search(token.value):
        hint = 'a * stands directly after a letter or digit: "volcan*"'
        cursor.report_error(token, "the * is not at the end of a word", hint)


def _parse_values(
    cursor: Cursor, field: Field, operator: str, expected: str
) -> tuple[tuple[str, ...], bool, list[Token]]:
    """Parse STRING { OR STRING } or STRING { AND STRING }. Return values, whether all are required, and tokens."""
    hint = "put it in double quotes"
    if cursor.at_sign("("):
        hint = f'several values: {field} {"CONTAINS ANY" if operator == "CONTAINS" else "IN"} ("a", "b")'
    elif cursor.at_keyword("NOT"):
        hint = f"NOT stands before the field: NOT {field} {operator} …"
    elif cursor.at_kind(TokenKind.VAR):
        hint = f"items are compared in a join: JOIN … ON {field} = {cursor.token.text[:40]}.{field}"
    tokens = [cursor.expect_kind(TokenKind.STRING, expected, hint)]
    connective: str | None = None
    while cursor.at_keyword("AND", "OR") and cursor.peek().kind is TokenKind.STRING:
        word = cursor.take()
        if connective is not None and word.value != connective:
            inside = f"{field} CONTAINS ANY (…) AND {field} CONTAINS ALL (…)"
            instead = inside if operator == "CONTAINS" else f"{field} IN (…)"
            cursor.report_error(
                word, "AND and OR are mixed in a list of values", f"write {instead}, or repeat the field"
            )
        connective = connective or word.value
        tokens.append(cursor.take())
    return tuple(token.value for token in tokens), connective == "AND", tokens


def parse_strings(cursor: Cursor) -> list[Token]:
    """Parse ( STRING { , STRING } )."""
    cursor.expect_sign("(", 'a list stands in parentheses: ("a", "b")')
    tokens = [
        cursor.expect_kind(TokenKind.STRING, "a text in quotes", "a list has at least one value in double quotes")
    ]
    while cursor.at_sign(",") or cursor.at_keyword("AND", "OR") or cursor.at_kind(TokenKind.STRING):
        if not cursor.at_sign(","):
            cursor.report_missing("“,” or “)”", "values of a list are separated by commas")
        if not cursor.at_kind(TokenKind.STRING):
            cursor.take()
        hint = "a comma stands between two values" if cursor.at_sign(")", ",") else "put it in double quotes"
        tokens.append(cursor.expect_kind(TokenKind.STRING, "a text in quotes", hint))
    if cursor.at_sign("|"):
        raise cursor.missing_error("“,” or “)”", "values of a list are separated by commas")
    cursor.expect_closing(")", "(")
    return tokens


def _parse_matches(cursor: Cursor, field: Field, token: Token) -> Condition:
    """Parse a pattern and compile it, so that an invalid pattern is an error of the script."""
    ignore_case = token.text.endswith("i")
    body = token.text[1:-2] if ignore_case else token.text[1:-1]
    pattern = re.sub(r"\\(.)", lambda escape: "/" if escape[1] == "/" else escape[0], body)
    if not pattern:
        cursor.report_error(token, "the regular expression is empty", "a comment begins with --")
    elif len(pattern) > MAX_REGEX_CHARACTERS:
        cursor.report_error(
            token,
            f"the regular expression has {len(pattern):,} characters",
            f"at most {MAX_REGEX_CHARACTERS:,} are allowed",
        )
    elif problem := find_regex_problem(pattern):
        cursor.report_error(
            token,
            f"bad regular expression: {problem}",
            _hint_regex_problem(problem),
        )
    return Matches(field, pattern, ignore_case, cursor.position(token))


def _hint_regex_problem(problem: str) -> str:
    if problem.startswith(("missing", "unexpected", "no argument", "bad repetition")):
        return "write a bracket, *, + or ? that is meant as such with a backslash: \\( or [(]"
    if problem.startswith("invalid character class range"):
        return "known are \\w, \\d, \\s, \\p{L}, \\p{Greek} and [a-z]"
    if problem.startswith("invalid repetition"):
        return "a repetition is {2,5}, and at most {1000}"
    return "RE2 syntax: no back-references and no look-around"


def find_regex_problem(pattern: str) -> str | None:
    """Return RE2's error for the pattern, with backslashes doubled as in a string; None if it is valid."""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "unknown error"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        return text.replace("\\", "\\\\")
    return None


def _expect_comparison(cursor: Cursor, field: Field, operators: tuple[str, ...]) -> None:
    if not cursor.at_sign(*COMPARISONS):
        hint = f"{field} is {'a date' if field.is_date else 'a number'}: compare it with < or >"
        if field.is_date and cursor.at_keyword("LAST"):
            hint = f"for example {field} IN LAST 3 DAYS"
        raise cursor.missing_error(
            f"an operator after {field} ({', '.join(operators)})", cursor.suggest_keyword(operators, hint)
        )


def _parse_date_atom(cursor: Cursor, field: Field) -> Condition:
    start = cursor.diagnostics.position_at(cursor.previous.offset)
    if cursor.take_keyword("IN"):
        window = parse_window(cursor)
        if window.unit is None:
            cursor.report_error(
                cursor.previous, f"{field} is a date and needs a span of time", f"for example {field} IN LAST 3 DAYS"
            )
        return DateIn(field, window, start)
    _expect_comparison(cursor, field, (*COMPARISONS, "IN"))
    cmp = ComparisonOperator(cursor.take().value)
    if cursor.take_keyword("NOW"):
        if not cursor.take_sign("-"):
            return DateIs(field, cmp, RelativeInstant(), start)
        count = cursor.parse_integer("a number", "for example NOW - 3 DAYS")
        return DateIs(field, cmp, RelativeInstant(count, parse_unit(cursor, "NOW - 3 DAYS")), start)
    token = cursor.expect_kind(
        TokenKind.STRING, "a date in quotes or NOW", f'for example {field} > "2024-03-01" or {field} > NOW - 3 DAYS'
    )
    epoch = parse_instant(token.value)
    if epoch is None:
        cursor.report_error(token, f"“{token.value}” is not a date", 'write "2024-03-01" or "2024-03-01T08:00Z"')
    return DateIs(field, cmp, Instant(token.value, epoch or 0.0), start)


def parse_unit(cursor: Cursor, example: str) -> TimeUnit:
    if cursor.token.kind is TokenKind.WORD and cursor.token.value in UNITS:
        return UNITS[cursor.take().value]
    raise cursor.missing_error(
        "a time unit (MINUTES, HOURS, DAYS, WEEKS)", cursor.suggest_keyword(UNITS, f"for example {example}")
    )


def parse_window(cursor: Cursor) -> LastWindow:
    """Parse LAST [INT] ( ITEMS | unit )."""
    cursor.expect_keyword("LAST", "for example LAST 3 HOURS or LAST 100 ITEMS", "LAST …")
    count = 1
    if cursor.at_kind(TokenKind.NUMBER):
        count = cursor.parse_integer("a number", "for example LAST 3 HOURS or LAST 100 ITEMS")
    if cursor.take_keyword("ITEMS", "ITEM"):
        return LastWindow(count)
    if cursor.token.kind is TokenKind.WORD and cursor.token.value in UNITS:
        return LastWindow(count, UNITS[cursor.take().value])
    raise cursor.missing_error(
        "ITEMS or a time unit (MINUTES, HOURS, DAYS, WEEKS)",
        cursor.suggest_keyword((*UNITS, "ITEMS"), "for example LAST 3 HOURS or LAST 100 ITEMS"),
    )


def _parse_source_atom(cursor: Cursor) -> Condition:
    start = cursor.diagnostics.position_at(cursor.previous.offset)
    if cursor.take_keyword("IN"):
        cursor.expect_sign("(", "a list stands in parentheses: (guardian, iris)")
        sources = [_parse_source(cursor)]
        while cursor.take_sign(","):
            sources.append(_parse_source(cursor))
        cursor.expect_closing(")", "(")
        return SourceIs(tuple(sources), pos=start, listed=True)
    if not cursor.at_sign("=", "!="):
        raise cursor.missing_error("an operator after SOURCE (=, !=, IN)", "for example SOURCE = guardian")
    negated = cursor.take().value == "!="
    return SourceIs((_parse_source(cursor),), negated, start)


def parse_title(cursor: Cursor) -> FeedAddress | None:
    """Parse FEED "title"."""
    start = cursor.position()
    if not cursor.take_keyword("FEED"):
        return None
    token = cursor.expect_kind(TokenKind.STRING, "the title of a feed in quotes", 'for example FEED "The Guardian"')
    return FeedAddress("", start, token.value)


def _parse_source(cursor: Cursor) -> FeedName | FeedAddress:
    start = cursor.position()
    if (titled := parse_title(cursor)) is not None:
        return titled
    if cursor.at_kind(TokenKind.STRING):
        token = cursor.take()
        if is_feed_address(token.value):
            return FeedAddress(token.value, start)
        report_bad_address(cursor, token)
        return FeedAddress(token.value, start)
    if cursor.at_kind(TokenKind.WORD) and cursor.token.value not in KEYWORDS:
        return FeedName(cursor.take().value, start)
    raise cursor.missing_error("a feed name, or an address in quotes", hint_reserved_word(cursor))


def is_feed_address(text: str) -> bool:
    try:
        host = urlsplit(text).hostname
    except ValueError:  # half an IPv6 address
        return False
    return bool(host) and re.match("https?://", text, re.IGNORECASE) is not None and not _NOT_IN_ADDRESS.search(text)


def report_bad_address(cursor: Cursor, token: Token) -> None:
    cursor.report_error(
        token,
        f"“{token.value[:60]}” is not a feed address",
        'an address starts with http:// or https://; a feed you named is written without quotes, a group as TAG "…"',
    )


def hint_reserved_word(cursor: Cursor, otherwise: str | None = None) -> str | None:
    """Return the hint for a keyword in place of a name."""
    keyword = cursor.token.keyword
    if keyword == "AS":
        return "a name is missing before AS"
    return f"{keyword} is a reserved word; choose another name" if keyword else otherwise
