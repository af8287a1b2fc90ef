"""Parses the sizes of attached files and merges files with the same address."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headwater.model import Enclosure

_MAX_ENCLOSURES = 100  # of one item
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([kmgt]?)b(?:ytes?)?", re.IGNORECASE)
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


def merge_enclosures(found: Iterable[Enclosure]) -> tuple[Enclosure, ...]:
    """Return one file for each address, in order of first occurrence, with the type and length of any of them."""
    seen: dict[str, Enclosure] = {}
    for one in found:
        first = seen.get(one.url)
        if first is None:
            if len(seen) < _MAX_ENCLOSURES:
                seen[one.url] = one
        elif (first.length is None and one.length is not None) or (first.type is None and one.type is not None):
            length = one.length if first.length is None else first.length
            seen[one.url] = Enclosure(one.url, first.type or one.type, length)
    return tuple(seen.values())
