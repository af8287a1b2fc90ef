"""Tokens to statements, by descent. After a mistake the statement is left where its next part begins, and so on."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from headwater.language.ast import (
    Address,
    AllSources,
    Branch,
    Create,
    Drop,
    Group,
    Join,
    JoinKind,
    Name,
    Pred,
    Query,
    Register,
    Source,
    Statement,
    Tag,
)
from headwater.language.clauses import clauses
from headwater.language.cursor import CLAUSES, JOINS, STATEMENTS, Cursor, Mistake
from headwater.language.lexer import KEYWORDS, Kind, Token, lex
from headwater.language.messages import Report
from headwater.language.predicates import is_address, last, not_an_address, predicate, reserved, similarity, strings

_QUERY = 'a query starts with RETURN and its sources: RETURN "http://…" | otherfeed WHERE …'
_NAME = "a name is a letter followed by letters, digits, _ or -"
_SOURCE = 'a source: an address in quotes, a feed name, TAG "…", ALL or “(”'
_PARTS = ("WHERE", *JOINS, *CLAUSES)


@dataclass(frozen=True, slots=True)
class Read:
    """What was read: each statement with whether it is free of mistakes, and the comments that follow them all.

    Of a broken statement what could be read is there, for the sake of its name.
    """

    statements: list[tuple[Statement, bool]]
    comments: tuple[str, ...]


def read(text: str, report: Report) -> Read:
    every = lex(text, report)
    comments = deque(token for token in every if token.kind is Kind.COMMENT)
    cursor = Cursor([token for token in every if token.kind is not Kind.COMMENT], report)
    found: list[tuple[Statement, bool]] = []
    while not cursor.ended and not report.full:
        if cursor.take_sign(";"):
            continue
        start, known = cursor.token, report.count
        statement: Statement | None = None
        try:
            statement = _statement(cursor)
        except Mistake:
            cursor.skip()
        end = cursor.before.end
        cursor.take_sign(";")
        own = _own_comments(comments, cursor, report)
        if statement is not None:
            found.append((replace(statement, text=text[start.offset : end], comments=own), report.count == known))
    return Read(found, tuple(comment.value for comment in comments))


def _own_comments(comments: deque[Token], cursor: Cursor, report: Report) -> tuple[str, ...]:
    """The comments before and inside the statement just read, and the one behind it on its last line."""
    last_line = report.position(cursor.before.offset).line
    own: list[str] = []
    while comments and report.position(comments[0].offset).line <= last_line:
        own.append(comments.popleft().value)
    return tuple(own)


def _statement(cursor: Cursor) -> Statement:
    start = cursor.position()
    if cursor.take_if("CREATE"):
        return _create(cursor, start)
    if cursor.take_if("DROP"):
        cursor.expect("FEED", cursor.meant(["FEED"], "DROP FEED name"))
        name = _name(cursor)
        cascade = cursor.take_if("RESTRICT", "CASCADE")
        return _ended(cursor, Drop(name, cascade is not None and cascade.value == "CASCADE", start))
    if cursor.take_if("REGISTER"):
        return _register(cursor, start)
    hint = cursor.meant(STATEMENTS)
    if cursor.at("RETURN", "FROM") or cursor.token.text.upper() == "SELECT":
        hint = "give the query a name: CREATE FEED name AS RETURN …"
    raise cursor.fail("CREATE FEED, DROP FEED or REGISTER FEED", hint)


def _ended(cursor: Cursor, statement: Statement) -> Statement:
    if not (cursor.ended or cursor.at_sign(";")):
        cursor.miss("“;”", "statements end with ;")
        cursor.skip()
    return statement


def _register(cursor: Cursor, start: Any) -> Statement:
    cursor.expect("FEED")
    token = cursor.expect_kind(
        Kind.STRING, "the feed's address in quotes", 'REGISTER FEED "http://…" AS name TAGS ("news")'
    )
    if not is_address(token.value):
        not_an_address(cursor, token)
    address = Address(token.value, cursor.position(token))
    cursor.expect("AS", 'REGISTER FEED "http://…" AS name')
    name = _name(cursor)
    tags = tuple(tag.value for tag in strings(cursor)) if cursor.take_if("TAGS") else ()
    return _ended(cursor, Register(address, name, tags, start))


def _name(cursor: Cursor) -> Name:
    if cursor.at_kind(Kind.WORD) and cursor.token.value not in KEYWORDS:
        token = cursor.take()
        if len(token.value) > 100:
            cursor.wrong(token, "the name has more than 100 characters", "choose a shorter one")
        if cursor.token.kind is Kind.JUNK and cursor.token.offset == token.end:
            raise cursor.fail("a space after the feed name", _NAME)
        return Name(token.value, cursor.position(token))
    hint = "a name is written without quotes" if cursor.at_kind(Kind.STRING) else _NAME
    raise cursor.fail("a feed name", reserved(cursor, hint))


def _create(cursor: Cursor, start: Any) -> Statement:
    replacing = cursor.take_if("OR") is not None
    if replacing:
        cursor.expect("REPLACE", "CREATE OR REPLACE FEED name AS …")
    cursor.expect("FEED", "CREATE FEED name AS RETURN …")
    name = _name(cursor)
    if not cursor.take_if("AS"):
        cursor.miss("AS", f"CREATE FEED {name.name} AS RETURN …")
        if not cursor.at("RETURN", "FROM"):
            raise Mistake
    return Create(name, _query(cursor), replacing, start)


def _query(cursor: Cursor) -> Query:
    start = cursor.position()
    if not cursor.take_if("RETURN", "FROM"):
        cursor.miss("RETURN", cursor.meant(("RETURN", "FROM"), _QUERY))
        if cursor.meant(("RETURN", "FROM")):
            cursor.take()
        elif not _starts_source(cursor):
            raise Mistake
    branches = _union(cursor)
    joins: list[Join] = []
    where: Pred | None = None
    parts: dict[str, Any] = {}
    try:
        while cursor.at(*JOINS):
            joins.append(_join(cursor))
    except Mistake as mistake:
        _resume(cursor, mistake)
    if cursor.take_if("WHERE"):
        where = predicate(cursor)
    parts = clauses(cursor)
    if not (cursor.ended or cursor.at_sign(";")):
        _leftover(cursor, bool(joins), where is not None, parts)
        cursor.skip()
    settings = parts.pop("settings", None) or ()
    return Query(tuple(branches), tuple(joins), where, **parts, settings=settings, pos=start)


def _resume(cursor: Cursor, mistake: Mistake) -> None:
    if mistake.lost:
        raise mistake
    cursor.skip("WHERE", *CLAUSES)


def _leftover(cursor: Cursor, joined: bool, filtered: bool, parts: dict[str, Any]) -> None:
    """The query could end here and does not."""
    if cursor.at_statement:
        cursor.miss("“;” before the next statement", "statements end with ;")
    elif cursor.at("WHERE", *JOINS) and (parts or filtered):
        keyword = cursor.token.value
        place = "WHERE is given twice" if keyword == "WHERE" and filtered else f"{keyword} comes too late"
        cursor.wrong(cursor.token, place, "the order is RETURN … JOIN … WHERE …, then the clauses")
    elif parts:
        cursor.miss("“;” or a clause", _foreign(cursor))
    elif filtered:
        cursor.miss("AND, OR, “;” or a clause", _after_condition(cursor))
    elif joined:
        cursor.miss("WHERE, JOIN, “;” or a clause", cursor.meant(_PARTS))
    else:
        hint = "sources are combined with | (union), not with a comma" if cursor.at_sign(",") else None
        if cursor.at("AND", "OR"):
            hint = "sources are combined with |; conditions follow WHERE"
        cursor.miss("“|” or WHERE", hint or _foreign(cursor))


_FOREIGN = {
    "LIMIT": "KEEP LAST 10 ITEMS limits the document",
    "TOP": "KEEP LAST 10 ITEMS limits the document",
    "GROUP": "there are no groups; DISTINCT ON … leaves one of each",
    "SORT": "ORDER BY … arranges the document",
    "UNION": "sources are combined with |",
}


def _foreign(cursor: Cursor) -> str | None:
    """The hint for a word of another language where a part of the query could begin."""
    if cursor.token.text.startswith(("//", "/*")):
        return "a comment begins with --"
    return _FOREIGN.get(cursor.token.text.upper()) or cursor.meant(_PARTS)


def _after_condition(cursor: Cursor) -> str | None:
    if cursor.at_sign(")", "]"):
        return "a bracket is closed that was not opened"
    if cursor.at_kind(Kind.STRING):
        return "several values are joined with OR or AND"
    return _foreign(cursor) or cursor.meant(("AND",))


def _starts_source(cursor: Cursor) -> bool:
    word = cursor.at_kind(Kind.WORD) and cursor.token.value not in KEYWORDS
    return word or cursor.at_kind(Kind.STRING) or cursor.at("TAG", "ALL") or cursor.at_sign("(")


def _union(cursor: Cursor) -> list[Branch]:
    branches = [_branch(cursor)]
    while cursor.take_sign("|"):
        branches.append(_branch(cursor))
    return branches


def _branch(cursor: Cursor) -> Branch:
    start = cursor.position()
    try:
        source = _source(cursor)
        condition: Pred | None = None
        if cursor.take_sign("["):
            with cursor.nested():
                condition = predicate(cursor)
            cursor.close("]", "[")
        var: str | None = None
        if cursor.take_if("AS"):
            hint = "a variable begins with $: AS $news"
            var = cursor.expect_kind(Kind.VAR, "a variable", hint).value
    except Mistake as mistake:
        if mistake.lost:
            raise
        cursor.skip(*_PARTS, "WITHIN", signs=("|", ")"))
        return Branch(AllSources(start), pos=start)
    return Branch(source, condition, var, start)


def _source(cursor: Cursor) -> Source:
    start = cursor.position()
    if cursor.at_kind(Kind.STRING):
        token = cursor.take()
        if not is_address(token.value):
            not_an_address(cursor, token)
        return Address(token.value, start)
    if cursor.take_if("TAG"):
        return Tag(cursor.expect_kind(Kind.STRING, "the tag in quotes", 'for example TAG "news"').value, start)
    if cursor.take_if("ALL"):
        return AllSources(start)
    if cursor.take_sign("("):
        with cursor.nested():
            inner = _union(cursor)
        cursor.close(")", "(")
        return Group(tuple(inner), start)
    if cursor.at_kind(Kind.WORD) and cursor.token.value not in KEYWORDS:
        return Name(cursor.take().value, start)
    hint = "a source is missing" if cursor.at(*_PARTS) else reserved(cursor)
    if cursor.at_kind(Kind.JUNK):
        hint = "put an address in double quotes" if "://" in cursor.token.value else _NAME
    elif cursor.at_kind(Kind.VAR):
        hint = "a variable is given to a source with AS, behind it"
    raise cursor.fail(_SOURCE, hint)


def _join(cursor: Cursor) -> Join:
    start = cursor.position()
    word = cursor.take()
    if word.value != "JOIN":
        cursor.expect("JOIN")
    kind = {"JOIN": JoinKind.INNER, "LEFT": JoinKind.LEFT, "ANTI": JoinKind.ANTI}[word.value]
    branch = _branch(cursor)
    if branch.var is None:
        cursor.miss("AS $name after the joined source", "for example JOIN guardian AS $g WITHIN LAST 3 HOURS ON …")
    if not cursor.at("WITHIN"):
        raise cursor.fail("WITHIN LAST …", "a join needs a window, e.g. WITHIN LAST 3 HOURS")
    cursor.take()
    within = last(cursor)
    cursor.expect("ON", "for example ON LINK = $g.LINK")
    field_token = cursor.token
    field = cursor.field()
    similar = cursor.take_if("SIMILAR") is not None
    if similar:
        cursor.expect("TO")
    elif not cursor.take_sign("="):
        hint = cursor.meant(("SIMILAR",), f"for example ON {field} = ${branch.var or 'g'}.{field}")
        raise cursor.fail("= or SIMILAR TO", hint)
    shape = f"${branch.var or 'g'}.{field}"
    var = cursor.expect_kind(Kind.VAR, f"a field of the joined source ({shape})", f"for example {shape}")
    if branch.var is not None and var.value != branch.var:
        cursor.wrong(var, f"the join compares with ${branch.var}, not ${var.value}", f"write {shape}")
    cursor.expect_sign(".", f"for example {shape}")
    other_token = cursor.token
    other = cursor.field()
    at = similarity(cursor) if similar and cursor.take_if("AT") else 0.5
    for token, looked in ((field_token, field), (other_token, other)):
        if similar and not looked.is_text:
            cursor.wrong(token, f"{looked} is not text and cannot be similar", "compare it with =")
    if not similar and field.sort != other.sort:
        cursor.wrong(other_token, f"{field} and {other} cannot be equal", f"compare {field} with {shape}")
    return Join(kind, branch, within, field, other, at if similar else None, start)
