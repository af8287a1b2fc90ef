"""Builds a query's text from the fields of a form, and reads the fields from such a text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from headwater.errors import InputError, QueryError
from headwater.language import parse
from headwater.language.ast import (
    And,
    ComparisonOperator,
    Condition,
    Contains,
    CreateFeed,
    DeliverClause,
    Equals,
    FeedAddress,
    FeedName,
    Field,
    Not,
    Query,
    SizeIs,
    Source,
    TaggedSources,
    Weekday,
)

FIELDS = ("ITEM", "TITLE", "CONTENT", "CATEGORY", "AUTHOR")
DELIVERIES = ("", "2")  # the suffixes of the fields of each delivery
_NAME = re.compile(r"[^\W\d_][\w-]*")


def build_query(form: Mapping[str, str], names: Collection[str] | None = None) -> str:
    """Return the query that the fields of the builder describe. Raises InputError with the field that is wrong.

    `names` are the folded names of feeds and queries; any other source is the title of a feed. Without them, whatever
    can be a name is one.

    >>> print(build_query({"name": "Volcanoes", "any": "volcano, lava", "not": "film"}))
    CREATE FEED Volcanoes AS
    RETURN ALL
    WHERE ITEM CONTAINS "volcano" OR "lava"
      AND NOT ITEM CONTAINS "film";
    """
    lines = [f"CREATE FEED {_write_name(form)} AS", f"RETURN {_write_sources(form, names)}"]
    conditions = _write_conditions(form)
    if conditions:
        lines.append("WHERE " + "\n  AND ".join(conditions))
    if form.get("distinct"):
        lines.append("DISTINCT ON TITLE AT 0.7 WITHIN LAST 1 DAY")
    if keep := _parse_number(form, "keep", "How many items it keeps"):
        lines.append(f"KEEP LAST {keep} ITEMS")
    if importance := _parse_number(form, "importance", "The importance"):
        lines.append(f"IMPORTANCE {importance}")
    if target := _write_target(form):
        lines.append(f"TARGET {target}")
    lines += [line for suffix in DELIVERIES if (line := _write_delivery(form, suffix))]
    return "\n".join(lines) + ";"


def _write_name(form: Mapping[str, str]) -> str:
    name = re.sub(r"\s+", "", form.get("name", "").strip()) or "MyFeed"
    if not _NAME.fullmatch(name) or len(name) > 100:
        raise InputError(f"“{name[:60]}” cannot be a name: begin with a letter, go on with letters and digits.", "name")
    return name


def _write_sources(form: Mapping[str, str], names: Collection[str] | None) -> str:
    lines = [line.strip().rstrip(",") for line in form.get("sources", "").splitlines()]
    sources = [f"TAG {_quote_text(tag)}" for tag in _split_list(form.get("tags", ""))]
    sources += [_write_source(line, names) for line in dict.fromkeys(lines) if line]
    return " | ".join(sources) or "ALL"


def _write_source(line: str, names: Collection[str] | None) -> str:
    if "://" in line:
        return _quote_text(line)
    named = _NAME.fullmatch(line) and (names is None or line.casefold() in names)
    return line if named else f"FEED {_quote_text(line)}"


def _write_conditions(form: Mapping[str, str]) -> list[str]:
    field = form.get("field", "ITEM")
    if field not in FIELDS:
        raise InputError(f"There is no field “{field[:40]}” to look in.", "field")
    lines = []
    for key, between in (("any", " OR "), ("all", " AND ")):
        if words := _split_list(form.get(key, "")):
            lines.append(f"{field} CONTAINS {between.join(map(_quote_text, words))}")
    if words := _split_list(form.get("not", "")):
        lines.append(f"NOT {field} CONTAINS {' OR '.join(map(_quote_text, words))}")
    if languages := _split_list(form.get("languages", "")):
        lines.append(f"LANGUAGE IN ({', '.join(map(_quote_text, languages))})")
    if size := _parse_number(form, "longer", "The length"):
        lines.append(f"SIZE > {size}")
    return lines


def _write_target(form: Mapping[str, str]) -> str:
    parts = []
    if share := form.get("completeness", "").strip():
        try:
            wanted = float(share)
        except ValueError as error:
            raise InputError("The completeness target is not a number. Write .99 for 99 %.", "completeness") from error
        if not 0 < wanted <= 1:
            raise InputError("The completeness target lies between 0 and 1. Write .99 for 99 %.", "completeness")
        parts.append(f"COMPLETENESS >= {wanted:g}")
    if minutes := _parse_number(form, "delay", "The delay in minutes"):
        parts.append(f"DELAY <= {minutes} MINUTES")
    return " AND ".join(parts)


def _write_delivery(form: Mapping[str, str], suffix: str) -> str:
    kind, address = form.get(f"deliver{suffix}", "").upper(), form.get(f"address{suffix}", "").strip()
    if not kind:
        return ""
    if kind not in ("EMAIL", "WEBHOOK", "NOTIFY"):
        raise InputError("Alerts go by EMAIL, WEBHOOK or NOTIFY.", f"deliver{suffix}")
    if not address:
        message = "Say where alerts go: a mail address, or an address that begins with https://."
        raise InputError(message, f"address{suffix}")
    return f"DELIVER TO {kind} {_quote_text(address)}{_write_digest(form, suffix)}"


def _write_digest(form: Mapping[str, str], suffix: str) -> str:
    at = form.get(f"at{suffix}", "").strip()
    if at and not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", at, re.ASCII):
        raise InputError("The time of a digest is written like 07:30.", f"at{suffix}")
    days = [_find_weekday(day, f"days{suffix}") for day in _split_list(form.get(f"days{suffix}", ""))]
    if not at and not days:
        return ""
    return f" EVERY {', '.join(days) or '1 DAY'}" + (f' AT "{at}"' if at else "")


def _find_weekday(written: str, field: str) -> Weekday:
    """Return the weekday that is written in full or by its first letters, at least two."""
    for day in Weekday:
        if len(written) > 1 and day.startswith(written.upper()):
            return day
    raise InputError(f"“{written[:40]}” is not a weekday: write Monday, Friday.", field)


def read_form(text: str) -> dict[str, str] | None:
    """Return the fields that build this query, or None if it says more than the form can.

    >>> read_form('CREATE FEED Ash AS RETURN news WHERE TITLE CONTAINS "ash" OR "lava" KEEP LAST 9 ITEMS')
    {'name': 'Ash', 'sources': 'news', 'field': 'TITLE', 'any': 'ash, lava', 'keep': '9'}
    >>> read_form('CREATE FEED Ash AS RETURN ALL WHERE TITLE MATCHES /ash/')
    """
    try:
        (statement,) = parse(text).statements
        if not isinstance(statement, CreateFeed):
            return None
        form = _read_fields(statement.name.name, statement.query)
        names = {branch.source.key for branch in statement.query.branches if isinstance(branch.source, FeedName)}
        (built,) = parse(build_query(form, names)).queries
    except (InputError, QueryError, ValueError):
        return None
    return form if built.query == statement.query else None


def _read_fields(name: str, query: Query) -> dict[str, str]:
    """Return the fields as far as the form has them."""
    sources = [branch.source for branch in query.branches]
    lines = [line for one in sources if (line := _read_source(one))]
    form = {"name": name, "sources": "\n".join(lines)}
    form["tags"] = ", ".join(one.tag for one in sources if isinstance(one, TaggedSources))
    where = query.where
    for part in where.parts if isinstance(where, And) else (where,):
        _read_condition(part, form)
    form["distinct"] = "1" if query.distinct is not None else ""
    form["keep"] = str(query.keep.count) if query.keep is not None else ""
    form["importance"] = f"{query.importance:g}" if query.importance is not None else ""
    if query.target is not None:
        share, delay = query.target.completeness, query.target.delay
        form["completeness"] = f"{share:g}" if share is not None else ""
        form["delay"] = str(delay.seconds // 60) if delay is not None else ""
    for suffix, delivery in zip(DELIVERIES, query.deliveries, strict=False):
        _read_delivery(delivery, suffix, form)
    return {key: value for key, value in form.items() if value}


def _read_source(source: Source) -> str:
    if isinstance(source, FeedAddress):
        return source.title or source.url
    return source.name if isinstance(source, FeedName) else ""


def _read_condition(part: Condition | None, form: dict[str, str]) -> None:
    match part:
        case Contains(field, values, every):
            form["field"] = str(field)
            form["all" if every or "any" in form else "any"] = ", ".join(values)
        case Not(Contains(field, values)):
            form["field"] = str(field)
            form["not"] = ", ".join(values)
        case Equals(Field.LANGUAGE, values):
            form["languages"] = ", ".join(values)
        case SizeIs(ComparisonOperator.GT, number):
            form["longer"] = f"{number:.0f}"


def _read_delivery(delivery: DeliverClause, suffix: str, form: dict[str, str]) -> None:
    form[f"deliver{suffix}"], form[f"address{suffix}"] = str(delivery.kind), delivery.address or ""
    if delivery.every is not None:
        form[f"at{suffix}"] = delivery.every.at or ""
        form[f"days{suffix}"] = ", ".join(day.capitalize() for day in delivery.every.weekdays)


def _parse_number(form: Mapping[str, str], key: str, what: str) -> str:
    text = form.get(key, "").strip()
    if text and not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) <= 10**9):
        raise InputError(f"{what}: “{text[:40]}” is not a whole number above 0.", key)
    return str(int(text[:12])) if text else ""


def _split_list(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))[:50]


def _quote_text(text: str) -> str:
    """Write a text as a string of the query language.

    >>> _quote_text('say "no"')
    '"say \\\\"no\\\\""'
    """
    flat = " ".join(text.split())
    return '"' + flat.replace("\\", "\\\\").replace('"', '\\"') + '"'
