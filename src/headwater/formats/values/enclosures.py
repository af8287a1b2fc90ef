"""Parses sizes and durations of attached files and merges files with the same address."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import structs

from headwater.model import Enclosure

MAX_CHAPTERS = 500
_MAX_ENCLOSURES = 100  # of one item
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([kmgt]?)b(?:ytes?)?", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}


def parse_size(text: str | None) -> int | None:
    """Parse a length in bytes; publishers also write `-1`, `12,345`, `3.2 MB` and `unknown`."""
    if not text:
        return None
    digits = text.strip().replace(",", "").replace(" ", "")
    if digits.isascii() and digits.isdigit():
        return int(digits) if len(digits) < 16 else None
    found = _SIZE.fullmatch(digits)
    return round(float(found[1]) * _UNITS[found[2].lower()]) if found else None


def find_picture(files: Iterable[Enclosure]) -> str | None:
    """Return the address of the first picture."""
    for one in files:
        if one.type is not None and one.type.startswith("image/"):
            return one.url
    return None


def type_picture(files: tuple[Enclosure, ...], picture: str | None) -> tuple[Enclosure, ...]:
    """Return the files; the lead picture is an image, also where the publisher gives no type for it."""
    if picture is None or all(one.type or one.url != picture for one in files):
        return files
    return tuple(one if one.type or one.url != picture else structs.replace(one, type="image/*") for one in files)


def parse_pixels(text: str | None) -> int | None:
    """Parse a width or height in pixels; percentages and nonsense are ignored."""
    if not text:
        return None
    digits = text.strip().lower().removesuffix("px").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 and int(digits) else None


def parse_duration(text: str | None) -> float | None:
    """Parse a duration: seconds, or minutes and hours with colons.

    >>> parse_duration("1:02:03"), parse_duration("754"), parse_duration("12:34"), parse_duration("soon")
    (3723.0, 754.0, 754.0, None)
    """
    return parse_offset(text) or None


def parse_offset(text: str | None) -> float | None:
    """Parse a time within a recording, written like a duration; it may be 0."""
    if not text:
        return None
    parts = text.strip().split(":")
    if len(parts) > 3 or not all(len(part) < 13 and _NUMBER.fullmatch(part) for part in parts):
        return None
    seconds = 0.0
    for part in parts:
        seconds = 60 * seconds + float(part)
    return round(seconds, 3) if seconds < 1e7 else None


def parse_number(text: str | None) -> float | None:
    """Parse the number of an episode or season."""
    text = (text or "").strip()
    return float(text) if len(text) < 10 and _NUMBER.fullmatch(text) else None


def merge_enclosures(found: Iterable[Enclosure]) -> tuple[Enclosure, ...]:
    """Return one file for each address, in order of first occurrence, with all that any of them says."""
    seen: dict[str, Enclosure] = {}
    for one in found:
        first = seen.get(one.url)
        if first is None:
            if len(seen) < _MAX_ENCLOSURES:
                seen[one.url] = one
        elif one != first:
            values = zip(structs.astuple(first), structs.astuple(one), strict=True)
            seen[one.url] = Enclosure(*(mine if mine is not None else other for mine, other in values))
    return tuple(seen.values())
