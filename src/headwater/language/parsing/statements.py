"""Parses statements by recursive descent. After an error it continues at the next part of the statement."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from headwater.language.ast import (
    AllSources,
    Branch,
    Condition,
    CreateFeed,
    DropFeed,
    FeedAddress,
    FeedName,
    Join,
    JoinKind,
    Query,
    RegisterFeed,
    Source,
    SourceGroup,
    Statement,
    TaggedSources,
)
from headwater.language.diagnostics import Diagnostics
from headwater.language.parsing.clauses import parse_clauses
from headwater.language.parsing.conditions import (
    hint_reserved_word,
    is_feed_address,
    parse_condition,
    parse_similarity,
    parse_strings,
    parse_title,
    parse_window,
    report_bad_address,
)
from headwater.language.parsing.cursor import (
    ALL_FIELDS,
    CLAUSE_KEYWORDS,
    JOIN_KEYWORDS,
    STATEMENT_KEYWORDS,
    Cursor,
    ParseError,
)
from headwater.language.parsing.lexer import KEYWORDS, Token, TokenKind, tokenize_script

_QUERY_HINT = 'a query starts with RETURN and its sources: RETURN "http://…" | otherfeed WHERE …'
_STATEMENT_HINT = 'a script consists of statements: CREATE FEED name AS RETURN ALL WHERE ITEM CONTAINS "volcano"'
_SOURCE_HINT = 'for example RETURN ALL, RETURN "https://example.org/feed" or RETURN TAG "news"'
_NAME_HINT = "a name is a letter followed by letters, digits, _ or -"
_EXPECTED_SOURCE = 'a source: an address in quotes, a feed name, TAG "…", ALL or “(”'
_PART_KEYWORDS = ("WHERE", *JOIN_KEYWORDS, *CLAUSE_KEYWORDS)


@dataclass(frozen=True, slots=True)
class ParsedScript:
    """The statements, each with a flag that it has no errors, and the comments after the last one.

    A statement with errors is incomplete; its name is needed to check the others.
    """

    statements: list[tuple[Statement, bool]]
    comments: tuple[str, ...]


def parse_statements(text: str, diagnostics: Diagnostics) -> ParsedScript:
    every = tokenize_script(text, diagnostics)
    comments = deque(token for token in every if token.kind is TokenKind.COMMENT)
    cursor = Cursor([token for token in every if token.kind is not TokenKind.COMMENT], diagnostics)
    found: list[tuple[Statement, bool]] = []
    while not cursor.at_end and not diagnostics.is_full:
        if cursor.take_sign(";"):
            continue
        start, known = cursor.token, diagnostics.error_count
        statement: Statement | None = None
        try:
            statement = _parse_statement(cursor)
        except ParseError:
            cursor.skip_to()
        end = cursor.previous.end
        cursor.take_sign(";")
        own = _take_own_comments(comments, cursor, diagnostics)
        if statement is not None:
            found.append(
                (replace(statement, text=text[start.offset : end], comments=own), diagnostics.error_count == known)
            )
    return ParsedScript(found, tuple(comment.value for comment in comments))


def _take_own_comments(comments: deque[Token], cursor: Cursor, diagnostics: Diagnostics) -> tuple[str, ...]:
    """Take the comments before and inside the last statement, and the one after it on its last line."""
    last_line = diagnostics.position_at(cursor.previous.offset).line
    own: list[str] = []
    while comments and diagnostics.position_at(comments[0].offset).line <= last_line:
        own.append(comments.popleft().value)
    return tuple(own)


def _parse_statement(cursor: Cursor) -> Statement:
    start = cursor.position()
    if cursor.take_keyword("CREATE"):
        return _parse_create(cursor, start)
    if cursor.take_keyword("DROP"):
        cursor.expect_keyword("FEED", cursor.suggest_keyword(["FEED"], "DROP FEED name"))
        name = _parse_name(cursor)
        cascade = cursor.take_keyword("RESTRICT", "CASCADE")
        return _expect_end(cursor, DropFeed(name, cascade is not None and cascade.value == "CASCADE", start))
    if cursor.take_keyword("REGISTER"):
        return _parse_register(cursor, start)
    hint = cursor.suggest_keyword(STATEMENT_KEYWORDS, _hint_comment(cursor) or _STATEMENT_HINT)
    if cursor.at_keyword("RETURN", "FROM") or cursor.token.text.upper() == "SELECT":
        hint = "give the query a name: CREATE FEED name AS RETURN …"
    elif cursor.at_word("DELETE", "REMOVE"):
        hint = "DROP FEED name removes a query feed"
    elif cursor.at_word("REPLACE", "ALTER", "UPDATE"):
        hint = "CREATE OR REPLACE FEED name AS … changes a query feed"
    raise cursor.missing_error("CREATE FEED, DROP FEED or REGISTER FEED", hint)


def _expect_end(cursor: Cursor, statement: Statement) -> Statement:
    if not (cursor.at_end or cursor.at_sign(";")):
        options = ("RESTRICT", "CASCADE") if isinstance(statement, DropFeed) else ()
        cursor.report_missing("“;”", cursor.suggest_keyword(options, "statements end with ;"))
        cursor.skip_to()
    return statement


def _parse_register(cursor: Cursor, start: Any) -> Statement:
    cursor.expect_keyword("FEED", 'REGISTER FEED "http://…" AS name')
    token = cursor.expect_kind(
        TokenKind.STRING, "the feed's address in quotes", 'REGISTER FEED "http://…" AS name TAGS ("news")'
    )
    if not is_feed_address(token.value):
        report_bad_address(cursor, token)
    address = FeedAddress(token.value, cursor.position(token))
    cursor.expect_keyword("AS", 'REGISTER FEED "http://…" AS name')
    name = _parse_name(cursor)
    tags = parse_strings(cursor) if cursor.take_keyword("TAGS") else []
    for tag in tags:
        if not tag.value.strip():
            cursor.report_error(tag, "the tag is empty", 'for example TAGS ("news")')
    return _expect_end(cursor, RegisterFeed(address, name, tuple(tag.value for tag in tags), start))


def _parse_name(cursor: Cursor) -> FeedName:
    if cursor.at_kind(TokenKind.WORD) and cursor.token.value not in KEYWORDS:
        token = cursor.take()
        if len(token.value) > 100:
            cursor.report_error(token, "the name has more than 100 characters", "choose a shorter one")
        if cursor.token.kind is TokenKind.JUNK and cursor.token.offset == token.end:
            raise cursor.missing_error("a space after the feed name", _NAME_HINT)
        return FeedName(token.value, cursor.position(token))
    hint = "a name is written without quotes" if cursor.at_kind(TokenKind.STRING) else _NAME_HINT
    raise cursor.missing_error("a feed name", hint_reserved_word(cursor, hint))


def _parse_create(cursor: Cursor, start: Any) -> Statement:
    replacing = cursor.take_keyword("OR") is not None
    if replacing:
        cursor.expect_keyword("REPLACE", "CREATE OR REPLACE FEED name AS …")
    cursor.expect_keyword("FEED", "CREATE FEED name AS RETURN …")
    name = _parse_name(cursor)
    if not cursor.take_keyword("AS"):
        hint = "CREATE OR REPLACE FEED name AS … creates a feed or changes it" if name.key == "if" else None
        if hint is None and cursor.at_kind(TokenKind.WORD) and cursor.peek().value == "AS":
            hint = f"a name is one word: {name.name}_{cursor.token.text[:60]}"
        cursor.report_missing("AS", hint or f"CREATE FEED {name.name} AS RETURN …")
        if not cursor.at_keyword("RETURN", "FROM"):
            raise ParseError
    return CreateFeed(name, _parse_query(cursor), replacing, start)


def _parse_query(cursor: Cursor) -> Query:
    start = cursor.position()
    if not cursor.take_keyword("RETURN", "FROM"):
        cursor.report_missing("RETURN", cursor.suggest_keyword(("RETURN", "FROM"), _QUERY_HINT))
        if cursor.suggest_keyword(("RETURN", "FROM")):
            cursor.take()
        elif not _starts_source(cursor):
            raise ParseError
    branches = _parse_union(cursor)
    joins: list[Join] = []
    where: Condition | None = None
    parts: dict[str, Any] = {}
    try:
        while cursor.at_keyword(*JOIN_KEYWORDS):
            joins.append(_parse_join(cursor))
    except ParseError as error:
        _resume_after_joins(cursor, error)
    if cursor.take_keyword("WHERE"):
        where = parse_condition(cursor)
    parts = parse_clauses(cursor)
    if not (cursor.at_end or cursor.at_sign(";")):
        _report_leftover(cursor, bool(joins), where is not None, parts)
        cursor.skip_to()
    settings, each_story = parts.pop("settings", None) or (), bool(parts.pop("each_story", None))
    return Query(tuple(branches), tuple(joins), where, **parts, settings=settings, each_story=each_story, pos=start)


def _resume_after_joins(cursor: Cursor, error: ParseError) -> None:
    if error.lost:
        raise error
    cursor.skip_to("WHERE", *CLAUSE_KEYWORDS)


def _report_leftover(cursor: Cursor, joined: bool, filtered: bool, parts: dict[str, Any]) -> None:
    """Report tokens after the end of a query."""
    if cursor.at_statement:
        cursor.report_missing("“;” before the next statement", "statements end with ;")
    elif cursor.at_keyword("WHERE", *JOIN_KEYWORDS) and (parts or filtered):
        keyword = cursor.token.value
        place = "WHERE is given twice" if keyword == "WHERE" and filtered else f"{keyword} comes too late"
        cursor.report_error(cursor.token, place, "the order is RETURN … JOIN … WHERE …, then the clauses")
    elif parts:
        cursor.report_missing("“;” or a clause", _hint_after_clause(cursor, next(reversed(parts))))
    elif filtered:
        cursor.report_missing("AND, OR, “;” or a clause", _hint_after_condition(cursor))
    elif joined:
        cursor.report_missing("WHERE, JOIN, “;” or a clause", cursor.suggest_keyword(_PART_KEYWORDS))
    else:
        hint = "sources are combined with | (union), not with a comma" if cursor.at_sign(",") else None
        if cursor.at_keyword("AND", "OR"):
            hint = "sources are combined with |; conditions follow WHERE"
        elif cursor.at_keyword(*ALL_FIELDS):
            hint = "conditions follow WHERE"
        elif cursor.at_kind(TokenKind.JUNK) and cursor.token.offset == cursor.previous.end:
            hint = 'an address stands in double quotes: "https://example.org/feed"'
        elif cursor.previous.text.upper() in ("FOLDER", "CATEGORY", "GROUP") and cursor.at_kind(TokenKind.STRING):
            hint = f"a group of feeds is a tag: TAG {cursor.token.text[:60]}"
        elif cursor.previous.value == "ALL" and cursor.token.text.upper() in ("FEEDS", "SOURCES", "ITEMS"):
            hint = "ALL stands alone: RETURN ALL WHERE …"
        elif cursor.at_keyword("NOT"):
            hint = "ANTI JOIN publishes the items without a match; conditions follow WHERE"
        hint = hint or _hint_for_foreign_word(cursor)
        if hint is None and _starts_source(cursor):
            hint = "sources are combined with |"
        cursor.report_missing("“|” or WHERE", hint)


_DIRECTIONS = ("ASCENDING", "DESCENDING", "DOWN", "UP", "REVERSE", "REVERSED", "NEWEST", "OLDEST", "LATEST")
_FOREIGN_WORDS = {
    "LIMIT": "KEEP LAST 10 ITEMS limits the document",
    "TOP": "KEEP LAST 10 ITEMS limits the document",
    "GROUP": "DISTINCT ON … leaves one of each; EACH STORY one of each story",
    **dict.fromkeys(("IF", "HAVING", "WHEN", "WITH"), "conditions follow WHERE"),
    "BEFORE": 'CONTAINS "ash" NEAR 5 "cloud" finds both in either order; a phrase has its words in order',
    "SORT": "ORDER BY … arranges the document",
    "UNION": "sources are combined with |",
    **dict.fromkeys(("EXCEPT", "MINUS", "WITHOUT", "-"), "a source is left out by a condition: WHERE SOURCE != name"),
    "XOR": "conditions are joined with AND or OR",
    "INNER": "JOIN alone publishes the items with a match",
    "OUTER": "there are JOIN, LEFT JOIN and ANTI JOIN",
    "RIGHT": "there are JOIN, LEFT JOIN and ANTI JOIN",
    "FULL": "there are JOIN, LEFT JOIN and ANTI JOIN",
    "CROSS": "there are JOIN, LEFT JOIN and ANTI JOIN",
    "HOURLY": "EVERY 1 HOUR sends a digest",
    "DAILY": 'EVERY 1 DAY AT "07:30" sends a digest',
    "WEEKLY": 'EVERY MONDAY AT "07:30" sends a digest',
}


def _hint_comment(cursor: Cursor) -> str | None:
    return "a comment begins with --" if cursor.token.text.startswith(("//", "/*")) else None


def _hint_number(cursor: Cursor) -> str | None:
    """Return the hint for a number after the unit of a window, or for a unit after a number that has none."""
    if cursor.at_sign("%"):
        return "a share is a number between 0 and 1: 0.7"
    if cursor.previous.kind is TokenKind.NUMBER and cursor.at_kind(TokenKind.WORD) and not cursor.token.keyword:
        return "this number has no unit: SIZE > 500 counts characters"
    if cursor.previous.value in ("GROWING", "TITLE", "CONTENT", "ITEM", "STORY") and cursor.at_kind(TokenKind.NUMBER):
        word = "BY" if cursor.previous.text.upper() == "GROWING" else "AT"
        return f"{word} is missing before the number: {cursor.previous.text.upper()} {word} {cursor.token.text}"
    if not cursor.at_kind(TokenKind.NUMBER) or cursor.previous.kind is not TokenKind.WORD:
        return None
    return f"a number stands before its unit: {cursor.token.text} {cursor.previous.text.upper()}"


def _hint_after_clause(cursor: Cursor, clause: str) -> str | None:
    if clause == "deliveries" and (cursor.at_sign(",") or cursor.at_keyword("AND", "OR")):
        return "each receiver has its own DELIVER TO"
    if clause == "deliveries" and cursor.at_kind(TokenKind.STRING):
        return "RSS, ATOM and JSON have no receiver; EMAIL, WEBHOOK and NOTIFY have one"
    if clause == "order" and cursor.at_sign(","):
        return "ORDER BY takes one field"
    if cursor.at_kind(TokenKind.WORD) and cursor.token.text.upper() in _DIRECTIONS:
        return "the direction of ORDER BY is ASC or DESC"
    return _hint_number(cursor) or _hint_for_foreign_word(cursor) or f"the clauses are {', '.join(CLAUSE_KEYWORDS)}"


def _hint_for_foreign_word(cursor: Cursor) -> str | None:
    """Return the hint for a word of another query language."""
    nearest = None if cursor.at_keyword(*KEYWORDS) else cursor.suggest_keyword(_PART_KEYWORDS)
    return _hint_comment(cursor) or _FOREIGN_WORDS.get(cursor.token.text.upper()) or nearest


def _hint_after_condition(cursor: Cursor) -> str | None:
    if cursor.at_sign(")", "]"):
        return "a bracket is closed that was not opened"
    if cursor.at_kind(TokenKind.STRING):
        return "several values are joined with OR or AND"
    if cursor.previous.kind is TokenKind.REGEX and cursor.previous.end == cursor.token.offset:
        return "the only flag of a regular expression is i: /abc/i"
    if cursor.at_sign("|"):
        return "conditions are joined with AND or OR; | combines sources"
    if cursor.at_sign(","):
        return 'several values stand in a list: CONTAINS ANY ("a", "b") or IN ("a", "b")'
    if cursor.at_sign(">", ">=", "<", "<=") and cursor.previous.value == ")":
        return "for example CHANGED(CONTENT) BY > 20 %"
    if cursor.at_keyword("LAST"):
        return "WITHIN is missing before LAST: WITHIN LAST 6 HOURS"
    if cursor.at_keyword("IN") and cursor.previous.kind is TokenKind.NUMBER:
        return "a time is given by WITHIN: STORY SOURCES >= 3 WITHIN LAST 6 HOURS"
    if cursor.at_keyword("NEAR"):
        return 'NEAR belongs to CONTAINS: CONTAINS "ash" NEAR 5 "cloud"'
    if cursor.at_keyword(*ALL_FIELDS) or cursor.at_keyword("NOT", "HAS"):
        return "conditions are joined with AND or OR"
    return _hint_number(cursor) or _hint_for_foreign_word(cursor) or cursor.suggest_keyword(("AND",))


def _starts_source(cursor: Cursor) -> bool:
    word = cursor.at_kind(TokenKind.WORD) and cursor.token.value not in KEYWORDS
    return word or cursor.at_kind(TokenKind.STRING) or cursor.at_keyword("TAG", "ALL") or cursor.at_sign("(")


def _parse_union(cursor: Cursor) -> list[Branch]:
    branches = [_parse_branch(cursor)]
    while cursor.take_sign("|"):
        branches.append(_parse_branch(cursor))
    return branches


def _parse_branch(cursor: Cursor) -> Branch:
    start = cursor.position()
    try:
        source = _parse_source(cursor)
        condition: Condition | None = None
        if cursor.take_sign("["):
            with cursor.nested_level():
                condition = parse_condition(cursor)
            cursor.expect_closing("]", "[")
        var: str | None = None
        if cursor.take_keyword("AS"):
            hint = "a variable begins with $: AS $news"
            var = cursor.expect_kind(TokenKind.VAR, "a variable", hint).value
    except ParseError as error:
        if error.lost:
            raise
        cursor.skip_to(*_PART_KEYWORDS, "WITHIN", signs=("|", ")"))
        return Branch(AllSources(start), pos=start)
    return Branch(source, condition, var, start)


def _parse_source(cursor: Cursor) -> Source:
    start = cursor.position()
    if cursor.at_kind(TokenKind.STRING):
        token = cursor.take()
        if not is_feed_address(token.value):
            report_bad_address(cursor, token)
        return FeedAddress(token.value, start)
    if (titled := parse_title(cursor)) is not None:
        return titled
    if cursor.take_keyword("TAG"):
        return TaggedSources(
            cursor.expect_kind(TokenKind.STRING, "the tag in quotes", 'for example TAG "news"').value, start
        )
    if cursor.take_keyword("ALL"):
        return AllSources(start)
    if cursor.take_sign("("):
        with cursor.nested_level():
            inner = _parse_union(cursor)
        cursor.expect_closing(")", "(")
        return SourceGroup(tuple(inner), start)
    if cursor.at_kind(TokenKind.WORD) and cursor.token.value not in KEYWORDS:
        return FeedName(cursor.take().value, start)
    hint = "a source is missing" if cursor.at_keyword(*_PART_KEYWORDS) else hint_reserved_word(cursor, _SOURCE_HINT)
    if cursor.at_keyword("NOT"):
        hint = "a source is left out by a condition: WHERE SOURCE != name"
    elif cursor.at_keyword("TAGS"):
        hint = 'one tag is a source: TAG "news" | TAG "science"'
    if cursor.at_kind(TokenKind.JUNK):
        hint = "put an address in double quotes" if "://" in cursor.token.value else _NAME_HINT
    elif cursor.at_kind(TokenKind.VAR):
        hint = "a variable is given to a source with AS, behind it"
    raise cursor.missing_error(_EXPECTED_SOURCE, hint)


def _parse_join(cursor: Cursor) -> Join:
    start = cursor.position()
    word = cursor.take()
    if word.value != "JOIN":
        cursor.expect_keyword("JOIN")
    kind = {"JOIN": JoinKind.INNER, "LEFT": JoinKind.LEFT, "ANTI": JoinKind.ANTI}[word.value]
    branch = _parse_branch(cursor)
    if branch.var is None:
        cursor.report_missing(
            "AS $name after the joined source", "for example JOIN guardian AS $g WITHIN LAST 3 HOURS ON …"
        )
    if not cursor.at_keyword("WITHIN"):
        raise cursor.missing_error("WITHIN LAST …", "a join needs a window, e.g. WITHIN LAST 3 HOURS")
    cursor.take()
    within = parse_window(cursor)
    cursor.expect_keyword("ON", "for example ON LINK = $g.LINK")
    field_token = cursor.token
    field = cursor.parse_field()
    similar = cursor.take_keyword("SIMILAR") is not None
    if similar:
        cursor.expect_keyword("TO", f"for example ON {field} SIMILAR TO ${branch.var or 'g'}.{field}")
    elif not cursor.take_sign("="):
        hint = cursor.suggest_keyword(("SIMILAR",), f"for example ON {field} = ${branch.var or 'g'}.{field}")
        raise cursor.missing_error("= or SIMILAR TO", hint)
    shape = f"${branch.var or 'g'}.{field}"
    var = cursor.expect_kind(TokenKind.VAR, f"a field of the joined source ({shape})", f"for example {shape}")
    if branch.var is not None and var.value != branch.var:
        cursor.report_error(var, f"the join compares with ${branch.var}, not ${var.value}", f"write {shape}")
    cursor.expect_sign(".", f"for example {shape}")
    other_token = cursor.token
    other = cursor.parse_field()
    at = parse_similarity(cursor) if similar and cursor.take_keyword("AT") else 0.5
    for token, looked in ((field_token, field), (other_token, other)):
        if similar and not looked.is_text:
            cursor.report_error(token, f"{looked} is not text and cannot be similar", "compare it with =")
    if not similar and field.value_kind != other.value_kind:
        cursor.report_error(other_token, f"{field} and {other} cannot be equal", f"compare {field} with {shape}")
    return Join(kind, branch, within, field, other, at if similar else None, start)
