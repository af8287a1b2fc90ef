"""Builds a query's text from the fields of a form."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwater.errors import InputError

FIELDS = ("ITEM", "TITLE", "CONTENT", "CATEGORY", "AUTHOR")
_NAME = re.compile(r"[^\W\d_][\w-]*")


def build_query(form: Mapping[str, str]) -> str:
    """Return the query that the fields of the builder describe. Raises InputError with the field that is wrong.

    >>> print(build_query({"name": "Volcanoes", "any": "volcano, lava", "not": "film"}))
    CREATE FEED Volcanoes AS
    RETURN ALL
    WHERE ITEM CONTAINS "volcano" OR "lava"
      AND NOT ITEM CONTAINS "film";
    """
    lines = [f"CREATE FEED {_write_name(form)} AS", f"RETURN {_write_sources(form)}"]
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
    lines += _write_delivery(form)
    return "\n".join(lines) + ";"


def _write_name(form: Mapping[str, str]) -> str:
    name = re.sub(r"\s+", "", form.get("name", "").strip()) or "MyFeed"
    if not _NAME.fullmatch(name) or len(name) > 100:
        raise InputError(f"“{name[:60]}” cannot be a name: begin with a letter, go on with letters and digits.", "name")
    return name


def _write_sources(form: Mapping[str, str]) -> str:
    tags = _split_list(form.get("tags", ""))
    feeds = form.get("sources", "").split()
    said = [f"TAG {_quote_text(tag)}" for tag in tags]
    said += [_quote_text(feed) if "://" in feed else feed.rstrip(",") for feed in feeds]
    return " | ".join(said) or "ALL"


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
            raise InputError("The share to catch is no number: write .99 for 99 in 100.", "completeness") from error
        if not 0 < wanted <= 1:
            raise InputError("The share to catch lies between 0 and 1: write .99 for 99 in 100.", "completeness")
        parts.append(f"COMPLETENESS >= {wanted:g}")
    if minutes := _parse_number(form, "delay", "The delay in minutes"):
        parts.append(f"DELAY <= {minutes} MINUTES")
    return " AND ".join(parts)


def _write_delivery(form: Mapping[str, str]) -> list[str]:
    kind, address = form.get("deliver", "").upper(), form.get("address", "").strip()
    if not kind:
        return []
    if kind not in ("EMAIL", "WEBHOOK", "NOTIFY"):
        raise InputError("Alerts go by EMAIL, WEBHOOK or NOTIFY.", "deliver")
    if not address:
        raise InputError("Say where alerts go: a mail address, or an address that begins with https://.", "address")
    lines = []
    if at := form.get("at", "").strip():
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", at):
            raise InputError("The time of a digest is written like 07:30.", "at")
        lines.append(f'EVERY 1 DAY AT "{at}"')
    return [*lines, f"DELIVER TO {kind} {_quote_text(address)}"]


def _parse_number(form: Mapping[str, str], key: str, what: str) -> str:
    text = form.get(key, "").strip()
    if text and not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) <= 10**9):
        raise InputError(f"{what} is no whole number above 0: “{text[:40]}”.", key)
    return str(int(text[:12])) if text else ""


def _split_list(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))[:50]


def _quote_text(text: str) -> str:
    """
    >>> _quote_text('say "no"')
    '"say \\\\"no\\\\""'
    """
    flat = " ".join(text.split())
    return '"' + flat.replace("\\", "\\\\").replace('"', '\\"') + '"'
