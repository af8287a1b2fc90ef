"""Parses the clauses of a query: KEEP, DISTINCT, ORDER BY, IMPORTANCE, TARGET, DELIVER, EVERY, SET, EACH STORY."""

from __future__ import annotations

import re
from typing import Any

from headwater.language.ast import (
    Assignment,
    DeliverClause,
    DeliveryFormat,
    DistinctClause,
    Duration,
    EveryClause,
    Field,
    LastWindow,
    OrderClause,
    TargetClause,
    TimeUnit,
    Weekday,
)
from headwater.language.diagnostics import find_nearest
from headwater.language.parsing.conditions import UNITS, is_feed_address, parse_similarity, parse_unit, parse_window
from headwater.language.parsing.cursor import (
    ALL_FIELDS,
    CLAUSE_KEYWORDS,
    JOIN_KEYWORDS,
    Cursor,
    ParseError,
)
from headwater.language.parsing.lexer import Token, TokenKind

SETTABLE_FIELDS = ("TITLE", "CONTENT", "DESCRIPTION", "AUTHOR", "CATEGORY", "LINK", "LANGUAGE")
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
    "story.sources",
    "story.items",
)

MAX_DELIVERIES = 10
NEWEST_FIRST_FIELDS = frozenset({Field.PUBLISHED, Field.UPDATED, Field.ARRIVAL, Field.SIZE})
PLACEHOLDER_PATTERN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def parse_clauses(cursor: Cursor) -> dict[str, Any]:
    """Parse all clauses that follow, by the name of their field in `Query`."""
    found: dict[str, Any] = {}
    while cursor.at_keyword(*CLAUSE_KEYWORDS) or cursor.at_word("EACH"):
        token = cursor.take()
        keyword = token.text.upper()
        name, parse = _CLAUSE_PARSERS[keyword]
        if name in found and name != "deliveries":
            hint = 'SET sets several fields: SET TITLE = "…", LINK = "…"' if keyword == "SET" else None
            cursor.report_error(token, f"{keyword} is given twice", hint)
        try:
            value = parse(cursor)
            found[name] = _add_delivery(cursor, token, found.get(name, ()), value) if name == "deliveries" else value
        except ParseError as error:
            if error.lost:
                raise
            found.setdefault(name, () if name == "deliveries" else None)
            cursor.skip_to(*CLAUSE_KEYWORDS, "WHERE", *JOIN_KEYWORDS)
    return found


def _add_delivery(
    cursor: Cursor, token: Token, before: tuple[DeliverClause, ...], new: DeliverClause
) -> tuple[DeliverClause, ...]:
    if any((one.kind, one.address) == (new.kind, new.address) for one in before):
        cursor.report_error(token, "the query delivers there already", "leave one of both out")
    elif len(before) == MAX_DELIVERIES:
        cursor.report_error(token, f"a query delivers to at most {MAX_DELIVERIES} receivers", "write a second query")
    return (*before, new)


def _parse_keep(cursor: Cursor) -> LastWindow:
    return parse_window(cursor)


def _parse_distinct(cursor: Cursor) -> DistinctClause:
    start = cursor.position(cursor.previous)
    cursor.expect_keyword("ON", "for example DISTINCT ON LINK")
    token = cursor.token
    field = cursor.parse_field(example="DISTINCT ON TITLE")
    within: LastWindow | None = None
    at: float | None = None
    while word := cursor.take_keyword("WITHIN", "AT"):
        if (within if word.value == "WITHIN" else at) is not None:
            cursor.report_error(word, f"{word.value} is given twice")
        if word.value == "WITHIN":
            within = parse_window(cursor)
        else:
            at = parse_similarity(cursor)
    if at is not None and not field.is_text:
        cursor.report_error(
            token, f"{field} is not text and cannot be similar", "near-duplicates need a text, e.g. TITLE"
        )
    return DistinctClause(field, within, at, start)


def _parse_each(cursor: Cursor) -> bool:
    cursor.expect_word("STORY", "EACH STORY publishes one item for each story")
    return True


def _parse_order(cursor: Cursor) -> OrderClause:
    start = cursor.position(cursor.previous)
    cursor.expect_keyword("BY", "for example ORDER BY TITLE ASC")
    if cursor.at_kind(TokenKind.WORD) and cursor.token.text.upper() == "ARRIVAL":
        cursor.take()
        field = Field.ARRIVAL
    else:
        field = cursor.parse_field(example="ORDER BY TITLE")
    direction = cursor.take_keyword("ASC", "DESC")
    return OrderClause(field, direction.value == "DESC" if direction else field in NEWEST_FIRST_FIELDS, start)


def _parse_importance(cursor: Cursor) -> float:
    return cursor.parse_number(0, 100, "IMPORTANCE", "IMPORTANCE 5")


def _parse_target(cursor: Cursor) -> TargetClause:
    start = cursor.position(cursor.previous)
    goals: dict[str, Any] = {}
    while True:
        token = cursor.token
        if not cursor.at_keyword("COMPLETENESS", "FRESHNESS", "DELAY"):
            raise cursor.missing_error(
                "COMPLETENESS, FRESHNESS or DELAY",
                cursor.suggest_keyword(
                    ("COMPLETENESS", "FRESHNESS", "DELAY"), "for example TARGET COMPLETENESS >= 0.99"
                ),
            )
        goal = cursor.take().value.lower()
        if goal in goals:
            cursor.report_error(token, f"{token.value} is given twice")
        if goal == "delay":
            cursor.expect_sign("<=", "for example DELAY <= 10 MINUTES")
            goals[goal] = _parse_duration(cursor, "DELAY <= 10 MINUTES", optional=False)
        else:
            cursor.expect_sign(">=", f"for example {goal.upper()} >= 0.99")
            goals[goal] = cursor.parse_number(0, 1, goal.upper(), f"{goal.upper()} >= 0.99")
        if not cursor.take_keyword("AND"):
            return TargetClause(**goals, pos=start)


def _parse_duration(cursor: Cursor, example: str, optional: bool) -> Duration:
    count = 1
    if not optional or cursor.at_kind(TokenKind.NUMBER):
        count = cursor.parse_integer("a number", f"for example {example}")
    return Duration(count, parse_unit(cursor, example))


def _parse_deliver(cursor: Cursor) -> DeliverClause:
    start = cursor.position(cursor.previous)
    cursor.expect_keyword("TO", "for example DELIVER TO ATOM")
    kinds = tuple(map(str, DeliveryFormat))
    if not cursor.at_keyword(*kinds):
        meant = ("EMAIL", "WEBHOOK", "NOTIFY") if cursor.peek().kind is TokenKind.STRING else kinds
        hint = cursor.suggest_keyword(meant, _hint_receiver(cursor))
        raise cursor.missing_error(", ".join(kinds[:-1]) + f" or {kinds[-1]}", hint)
    kind = DeliveryFormat(cursor.take().value)
    if kind in (DeliveryFormat.RSS, DeliveryFormat.ATOM, DeliveryFormat.JSON):
        return DeliverClause(kind, pos=start)
    example = _EXAMPLES[kind]
    token = cursor.expect_kind(TokenKind.STRING, "an address in quotes", f"for example DELIVER TO {kind} {example}")
    if not _is_destination(kind, token.value):
        cursor.report_error(token, f"“{token.value[:60]}” is not an address for {kind}", f"for example {example}")
    every = None
    if cursor.take_keyword("EVERY"):
        every = _parse_every(cursor)
        if cursor.at_keyword("EVERY"):
            cursor.report_error(cursor.token, "EVERY is given twice")
    return DeliverClause(kind, token.value, every, start)


def _hint_receiver(cursor: Cursor) -> str:
    """Return the hint for an address without its kind, or for anything else that is no kind of delivery."""
    address = cursor.token.value if cursor.at_kind(TokenKind.STRING) else ""
    if "://" in address:
        return f"say how: DELIVER TO WEBHOOK {_EXAMPLES[DeliveryFormat.WEBHOOK]}"
    if "@" in address or cursor.peek().text.startswith("@"):
        return f"say how: DELIVER TO EMAIL {_EXAMPLES[DeliveryFormat.EMAIL]}"
    if cursor.at_kind(TokenKind.WORD) and cursor.peek().kind is TokenKind.STRING:
        return f"chats and SMS are Apprise addresses: DELIVER TO NOTIFY {_EXAMPLES[DeliveryFormat.NOTIFY]}"
    return "for example DELIVER TO ATOM"


_EXAMPLES = {
    DeliveryFormat.EMAIL: '"me@example.org"',
    DeliveryFormat.WEBHOOK: '"https://example.org/hook"',
    DeliveryFormat.NOTIFY: '"tgram://token/chat"',
}


def _is_destination(kind: DeliveryFormat, address: str) -> bool:
    if kind is DeliveryFormat.EMAIL:
        return re.fullmatch(r"[^\s@\x00-\x1f,;<>\"]{1,64}@[^\s@\x00-\x1f,;<>\"]{1,255}", address) is not None
    if kind is DeliveryFormat.WEBHOOK:
        return is_feed_address(address)
    return re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s\x00-\x1f]+", address) is not None


def _parse_every(cursor: Cursor) -> EveryClause:
    start = cursor.position(cursor.previous)
    weekdays = _parse_weekdays(cursor)
    if not weekdays:
        _refuse_weekday(cursor)
    span = Duration(1, TimeUnit.DAY) if weekdays else _parse_duration(cursor, 'EVERY 1 DAY AT "07:30"', optional=True)
    if not cursor.take_keyword("AT"):
        return EveryClause(span, None, weekdays, start)
    token = cursor.expect_kind(TokenKind.STRING, "a time of day in quotes", 'for example AT "07:30"')
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", token.value, re.ASCII):
        cursor.report_error(token, f"“{token.value[:60]}” is not a time of day", 'write "07:30"')
    elif span.unit.seconds < 86_400:
        cursor.report_error(token, f"AT needs days, and this digest comes every {span.unit}", "write EVERY 1 DAY AT …")
    return EveryClause(span, token.value, weekdays, start)


def _refuse_weekday(cursor: Cursor) -> None:
    """Report a misspelt weekday, or a number before one."""
    counted = cursor.at_kind(TokenKind.NUMBER)
    token = cursor.peek() if counted else cursor.token
    word = token.text.upper()
    short = next((str(day) for day in Weekday if len(word) in (2, 3) and day.startswith(word)), None)
    meant = (short or find_nearest(word, (*UNITS, *Weekday))) if token.kind is TokenKind.WORD else None
    if word in ("WEEKDAY", "WEEKDAYS", "WORKDAY", "WORKDAYS"):
        meant = "MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY"
    if meant is None or meant in UNITS:
        return
    hint = f'a weekday has no number: EVERY {meant} AT "07:30"' if counted else f"did you mean {meant}?"
    raise cursor.missing_error("a time unit (MINUTES, HOURS, DAYS, WEEKS) or a weekday", hint)


def _parse_weekdays(cursor: Cursor) -> tuple[Weekday, ...]:
    """Parse weekdays with commas between them; none if there is no weekday."""
    names = tuple(map(str, Weekday))
    found: list[Weekday] = []
    while cursor.at_word(*names):
        token = cursor.take()
        day = Weekday(token.text.upper())
        if day in found:
            cursor.report_error(token, f"{day} is given twice")
        found.append(day)
        if cursor.at_keyword("AND", "OR") or cursor.at_word(*names):
            raise cursor.missing_error("“,”", 'weekdays are separated by commas: EVERY MONDAY, FRIDAY AT "07:30"')
        if not cursor.take_sign(","):
            break
        if not cursor.at_word(*names):
            hint = cursor.suggest_keyword(names, 'for example EVERY MONDAY, FRIDAY AT "07:30"')
            raise cursor.missing_error("a weekday", hint)
    return tuple(sorted(found, key=list(Weekday).index))


def _parse_assignments(cursor: Cursor) -> tuple[Assignment, ...]:
    found = [_parse_assignment(cursor)]
    while cursor.take_sign(","):
        found.append(_parse_assignment(cursor))
    return tuple(found)


def _parse_assignment(cursor: Cursor) -> Assignment:
    start = cursor.position()
    if cursor.at_keyword(*(set(ALL_FIELDS) - set(SETTABLE_FIELDS))):
        cursor.report_error(
            cursor.token, f"{cursor.token.value} cannot be set", f"SET changes {', '.join(SETTABLE_FIELDS)}"
        )
        raise ParseError
    expected = f"a field to set ({', '.join(SETTABLE_FIELDS)})"
    field = cursor.parse_field(SETTABLE_FIELDS, expected, example='SET TITLE = "[{source}] {title}"')
    sign = cursor.take_sign("=", "+=")
    if sign is None:
        raise cursor.missing_error(f"= or += after {field}", f'for example SET {field} = "[{{source}}] {{title}}"')
    token = cursor.expect_kind(TokenKind.STRING, "a text in quotes", 'for example "[{source}] {title}"')
    _check_template(cursor, token)
    return Assignment(field, token.value, sign.value == "+=", start)


def _check_template(cursor: Cursor, token: Token) -> None:
    for place in PLACEHOLDER_PATTERN.finditer(token.value):
        if place[0] not in ("{{", "}}") and place[1] not in PLACEHOLDERS:
            known = " ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            cursor.report_error(
                token, f"unknown placeholder {place[0][:40]}", f"known are {known}; a brace is written {{{{ or }}}}"
            )
            return


_CLAUSE_PARSERS: dict[str, tuple[str, Any]] = {
    "KEEP": ("keep", _parse_keep),
    "DISTINCT": ("distinct", _parse_distinct),
    "ORDER": ("order", _parse_order),
    "IMPORTANCE": ("importance", _parse_importance),
    "TARGET": ("target", _parse_target),
    "DELIVER": ("deliveries", _parse_deliver),
    "EVERY": ("every", _parse_every),
    "SET": ("settings", _parse_assignments),
    "EACH": ("each_story", _parse_each),
}
