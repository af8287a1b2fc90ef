"""Extracts names from author fields."""

from __future__ import annotations

from urllib.parse import unquote

from headwater.formats.memo import Memo
from headwater.formats.values.text import decode_references, html_to_text, repair_mojibake

_MAX_LENGTH = 500


def extract_names(text: str | None) -> tuple[str, ...]:
    """Return the names in a text: one, or several if each has a mail address."""
    return _NAMES_IN_TEXT[text] if text else ()


def _extract_names(text: str) -> tuple[str, ...]:
    found = [text]
    if text.count("@") > 1:
        parts = text[: _MAX_LENGTH * 4].replace(";", ",").split(",")
        found = parts if all(map(_has_address, parts)) else found
    return tuple(name for one in found if (name := extract_name(one)))


_NAMES_IN_TEXT = Memo(_extract_names, max_size=4_096, max_length=80)  # the same few people write most items


def extract_name(text: str) -> str | None:
    """Return the name in `me@example.com (Me)`, `Me <me@example.com>` or `Me (me@example.com)`; else the address.

    It scans the text, because regular expressions for this can be made to run for minutes.

    >>> extract_name("me@example.com (Example editor)")
    'Example editor'
    """
    text = " ".join(repair_mojibake(text[: _MAX_LENGTH * 4]).split())
    if text[:7].lower() == "mailto:":
        text = unquote(text[7:].partition("?")[0])  # RFC 6068; it may contain the name
    if "&" in text:
        text = decode_references(text)  # addresses are hidden from spammers as references
    if "</" in text:
        text = html_to_text(text) or ""  # names as links
    if _has_address(text):
        for opening, closing in ("<>", "()", "[]"):
            start = text.find(opening)
            end = _find_closing_bracket(text, start, opening, closing)
            if start < 0 or end < 0:
                continue
            inside = text[start + 1 : end].strip()
            outside = f"{text[:start].rstrip()} {text[end + 1 :].lstrip()}".strip()
            if _has_address(inside) and not _has_address(outside):
                text = outside or inside
            elif _has_address(outside) and not _has_address(inside):
                text = inside or outside
        text = _remove_address(text) if _has_address(text) else text.strip(" ,;-/|")
    text = text.removeprefix("mailto:").strip(" \"'")
    if text[:1] == "(" and _find_closing_bracket(text, 0, "(", ")") == len(text) - 1:
        text = text[1:-1].strip()  # `address (name)` without the address
    return text[:_MAX_LENGTH] or None


def _find_closing_bracket(text: str, start: int, opening: str, closing: str) -> int:
    """Return the position of the bracket that closes the one at `start`, or -1."""
    depth = 0
    for at in range(max(start, 0), len(text)):
        if text[at] == opening:
            depth += 1
        elif text[at] == closing and depth:
            depth -= 1
            if depth == 0:
                return at
    return -1


def _has_address(text: str) -> bool:
    """Say whether the text contains a mail address; `@me` is a name."""
    return "@" in text and any("@" in word.lstrip("(<[@") for word in text.split(" "))


def _remove_address(text: str) -> str:
    """Return `Me` for `Me me@example.com`; an address alone stays."""
    words = text.split(" ")
    if len(words) > 1:
        rest = [word for word in words if "@" not in word or word.startswith("@")]
        if rest and not all(word in ("-", "/", "|", ",", "and", "&") for word in rest):
            return " ".join(rest).strip(" ,;-/|<>()")
    return text


def drop_duplicates(names: list[str]) -> tuple[str, ...]:
    """Return each name once, in order."""
    return (names[0],) if len(names) == 1 else tuple(dict.fromkeys(names))
