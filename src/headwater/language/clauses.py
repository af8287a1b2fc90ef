"""The clauses after a query's conditions: KEEP, DISTINCT, ORDER BY, IMPORTANCE, TARGET, DELIVER, EVERY, SET."""

from __future__ import annotations

import re
from typing import Any

from headwater.language.ast import Deliver, DeliverKind, Distinct, Every, Field, Order, Setting, Span, Target, Window
from headwater.language.cursor import ALL_FIELDS, CLAUSES, JOINS, Cursor, Mistake
from headwater.language.lexer import Kind, Token
from headwater.language.predicates import is_address, last, similarity, unit

SETTABLE = ("TITLE", "CONTENT", "DESCRIPTION", "AUTHOR", "CATEGORY", "LINK", "LANGUAGE")
PLACEHOLDERS = (
    "title",
    "content",
    "description",
    "author",
    "category",
    "link",
    "language",
    "source",
    "published",
    "updated",
)
NEWEST_FIRST = frozenset({Field.PUBLISHED, Field.UPDATED, Field.ARRIVAL, Field.SIZE})
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def clauses(cursor: Cursor) -> dict[str, Any]:
    """Every clause that follows, by the name of its field in `Query`."""
    found: dict[str, Any] = {}
    while cursor.at(*CLAUSES):
        token = cursor.take()
        name, parse = _CLAUSES[token.value]
        if name in found:
            cursor.wrong(token, f"{token.value} is given twice")
        try:
            found[name] = parse(cursor)
        except Mistake as mistake:
            if mistake.lost:
                raise
            found[name] = None
            cursor.skip(*CLAUSES, "WHERE", *JOINS)
    return found


def _keep(cursor: Cursor) -> Window:
    return last(cursor)


def _distinct(cursor: Cursor) -> Distinct:
    start = cursor.position(cursor.before)
    cursor.expect("ON", "for example DISTINCT ON LINK")
    token = cursor.token
    field = cursor.field()
    within: Window | None = None
    at: float | None = None
    while word := cursor.take_if("WITHIN", "AT"):
        if (within if word.value == "WITHIN" else at) is not None:
            cursor.wrong(word, f"{word.value} is given twice")
        if word.value == "WITHIN":
            within = last(cursor)
        else:
            at = similarity(cursor)
    if at is not None and not field.is_text:
        cursor.wrong(token, f"{field} is not text and cannot be similar", "near-duplicates need a text, e.g. TITLE")
    return Distinct(field, within, at, start)


def _order(cursor: Cursor) -> Order:
    start = cursor.position(cursor.before)
    cursor.expect("BY", "for example ORDER BY TITLE ASC")
    if cursor.at_kind(Kind.WORD) and cursor.token.text.upper() == "ARRIVAL":
        cursor.take()
        field = Field.ARRIVAL
    else:
        field = cursor.field()
    direction = cursor.take_if("ASC", "DESC")
    return Order(field, direction.value == "DESC" if direction else field in NEWEST_FIRST, start)


def _importance(cursor: Cursor) -> float:
    return cursor.number(0, 100, "IMPORTANCE", "IMPORTANCE 5")


def _target(cursor: Cursor) -> Target:
    start = cursor.position(cursor.before)
    goals: dict[str, Any] = {}
    while True:
        token = cursor.token
        if not cursor.at("COMPLETENESS", "FRESHNESS", "DELAY"):
            raise cursor.fail(
                "COMPLETENESS, FRESHNESS or DELAY",
                cursor.meant(("COMPLETENESS", "FRESHNESS", "DELAY"), "for example TARGET COMPLETENESS >= 0.99"),
            )
        goal = cursor.take().value.lower()
        if goal in goals:
            cursor.wrong(token, f"{token.value} is given twice")
        if goal == "delay":
            cursor.expect_sign("<=", "for example DELAY <= 10 MINUTES")
            goals[goal] = _span(cursor, "DELAY <= 10 MINUTES", optional=False)
        else:
            cursor.expect_sign(">=", f"for example {goal.upper()} >= 0.99")
            goals[goal] = cursor.number(0, 1, goal.upper(), f"{goal.upper()} >= 0.99")
        if not cursor.take_if("AND"):
            return Target(**goals, pos=start)


def _span(cursor: Cursor, example: str, optional: bool) -> Span:
    count = 1
    if not optional or cursor.at_kind(Kind.NUMBER):
        count = cursor.integer("a number", f"for example {example}")
    return Span(count, unit(cursor, example))


def _deliver(cursor: Cursor) -> Deliver:
    start = cursor.position(cursor.before)
    cursor.expect("TO", "for example DELIVER TO ATOM")
    kinds = tuple(map(str, DeliverKind))
    if not cursor.at(*kinds):
        raise cursor.fail(
            ", ".join(kinds[:-1]) + f" or {kinds[-1]}", cursor.meant(kinds, "for example DELIVER TO ATOM")
        )
    kind = DeliverKind(cursor.take().value)
    if kind in (DeliverKind.RSS, DeliverKind.ATOM, DeliverKind.JSON):
        return Deliver(kind, None, start)
    example = _EXAMPLES[kind]
    token = cursor.expect_kind(Kind.STRING, "an address in quotes", f"for example DELIVER TO {kind} {example}")
    if not _is_destination(kind, token.value):
        cursor.wrong(token, f"“{token.value[:60]}” is not an address for {kind}", f"for example {example}")
    return Deliver(kind, token.value, start)


_EXAMPLES = {
    DeliverKind.EMAIL: '"me@example.org"',
    DeliverKind.WEBHOOK: '"https://example.org/hook"',
    DeliverKind.NOTIFY: '"tgram://token/chat"',
}


def _is_destination(kind: DeliverKind, address: str) -> bool:
    if kind is DeliverKind.EMAIL:
        return re.fullmatch(r"[^\s@\x00-\x1f,;<>\"]{1,64}@[^\s@\x00-\x1f,;<>\"]{1,255}", address) is not None
    if kind is DeliverKind.WEBHOOK:
        return is_address(address)
    return re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s\x00-\x1f]+", address) is not None


def _every(cursor: Cursor) -> Every:
    start = cursor.position(cursor.before)
    span = _span(cursor, 'EVERY 1 DAY AT "07:30"', optional=True)
    if not cursor.take_if("AT"):
        return Every(span, None, start)
    token = cursor.expect_kind(Kind.STRING, "a time of day in quotes", 'for example AT "07:30"')
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", token.value, re.ASCII):
        cursor.wrong(token, f"“{token.value[:60]}” is not a time of day", 'write "07:30"')
    elif span.unit.seconds < 86_400:
        cursor.wrong(token, f"AT needs days, and this digest comes every {span.unit}", "write EVERY 1 DAY AT …")
    return Every(span, token.value, start)


def _settings(cursor: Cursor) -> tuple[Setting, ...]:
    found = [_setting(cursor)]
    while cursor.take_sign(","):
        found.append(_setting(cursor))
    return tuple(found)


def _setting(cursor: Cursor) -> Setting:
    start = cursor.position()
    if cursor.at(*(set(ALL_FIELDS) - set(SETTABLE))):
        cursor.wrong(cursor.token, f"{cursor.token.value} cannot be set", f"SET changes {', '.join(SETTABLE)}")
        raise Mistake
    field = cursor.field(SETTABLE, f"a field to set ({', '.join(SETTABLE)})")
    sign = cursor.take_sign("=", "+=")
    if sign is None:
        raise cursor.fail(f"= or += after {field}", f'for example SET {field} = "[{{source}}] {{title}}"')
    token = cursor.expect_kind(Kind.STRING, "a text in quotes", 'for example "[{source}] {title}"')
    _check_template(cursor, token)
    return Setting(field, token.value, sign.value == "+=", start)


def _check_template(cursor: Cursor, token: Token) -> None:
    for place in PLACEHOLDER.finditer(token.value):
        if place[0] not in ("{{", "}}") and place[1] not in PLACEHOLDERS:
            known = " ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            cursor.wrong(
                token, f"unknown placeholder {place[0][:40]}", f"known are {known}; a brace is written {{{{ or }}}}"
            )
            return


_CLAUSES: dict[str, tuple[str, Any]] = {
    "KEEP": ("keep", _keep),
    "DISTINCT": ("distinct", _distinct),
    "ORDER": ("order", _order),
    "IMPORTANCE": ("importance", _importance),
    "TARGET": ("target", _target),
    "DELIVER": ("deliver", _deliver),
    "EVERY": ("every", _every),
    "SET": ("settings", _settings),
}
