"""Extracts names and mail addresses from author fields."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from headwater.formats.memo import Memo
from headwater.formats.values.text import decode_references, html_to_text, repair_mojibake
from headwater.model import Person

_MAX_LENGTH = 500


def extract_people(text: str | None) -> tuple[Person, ...]:
    """Return the people in a text: one, or several if each has a mail address."""
    return _PEOPLE_IN_TEXT[text] if text else ()


def _extract_people(text: str) -> tuple[Person, ...]:
    found = [text]
    if text.count("@") > 1:
        parts = text[: _MAX_LENGTH * 4].replace(";", ",").split(",")
        found = parts if all(map(_has_address, parts)) else found
    return tuple(person for one in found if (person := extract_person(one)))


_PEOPLE_IN_TEXT = Memo(_extract_people, max_size=4_096, max_length=80)  # the same few people write most items


def extract_names(text: str | None) -> tuple[str, ...]:
    """Return the names in a text; people without a name have their address."""
    return tuple(person.label for person in extract_people(text))


def extract_person(text: str) -> Person | None:
    """Return name and mail address of a person.

    >>> extract_person("me@example.com (Example editor)")
    Person(name='Example editor', email='me@example.com', url=None)
    >>> extract_person("me@example.com")
    Person(name=None, email='me@example.com', url=None)
    """
    name = extract_name(text)
    if name is None:
        return None
    email = find_address(text) if "@" in text or "&" in text or "%40" in text else None
    return Person(None if name == email else name, email)


def find_address(text: str) -> str | None:
    """Return the first mail address in a text; `@me` is a name."""
    text = text[: _MAX_LENGTH * 4]
    if text.lstrip()[:7].lower() == "mailto:":
        text = unquote(text.strip()[7:].partition("?")[0])
    if "&" in text:
        text = decode_references(text)
    for mark in "<>()[],;\"'":
        text = text.replace(mark, " ")
    words = (word.removeprefix("mailto:").strip(".:") for word in text.split())
    return next((word for word in words if _is_address(word)), None)


def _is_address(word: str) -> bool:
    local, _, host = word.rpartition("@")
    return bool(local and "@" not in local and "." in host.strip(".") and len(word) <= 254)


def summarise_people(people: Sequence[Person]) -> tuple[tuple[str, ...], tuple[Person, ...]]:
    """Return the names of people, and the people themselves if one of them has an address; each once."""
    if not people:
        return (), ()
    if len(people) == 1:
        (one,) = people
        return (one.label,), (one,) if one.email or one.url else ()
    found = tuple({one.label: one for one in reversed(people)}.values())[::-1]
    return tuple(one.label for one in found), found if any(one.email or one.url for one in found) else ()


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
