"""Files attached to items: enclosures, Media RSS, podcasts' alternate enclosures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lxml import etree

from headwater.formats.parse.context import ReadContext
from headwater.formats.values.links import resolve_url
from headwater.model import Enclosure

_MAX_ENCLOSURES: Final = 100  # of one item
_GUESSES: Final = {"image": "image/*", "video": "video/*", "audio": "audio/*"}
_SIZE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([kmgt]?)b(?:ytes?)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}


def read_enclosure(element: etree._Element, context: ReadContext, address: str | None = None) -> Enclosure | None:
    """The file an element names by url (or href), type and length (or fileSize)."""
    get = element.get
    url = resolve_url(address or get("url") or get("href") or get("src"), context.find_base(element))
    if url is None:
        return None
    kind = get("type") or _GUESSES.get((get("medium") or "").strip().lower())
    return Enclosure(
        url, (kind.strip().lower() or None) if kind else None, parse_size(get("length") or get("fileSize"))
    )


def parse_size(text: str | None) -> int | None:
    """A length in bytes that is one; publishers write `0`, `-1`, `12,345`, `3.2 MB` and `unknown` too."""
    if not text:
        return None
    digits = text.strip().replace(",", "").replace(" ", "")
    if digits.isascii() and digits.isdigit():
        return int(digits) if len(digits) < 16 else None
    found = _SIZE.fullmatch(digits)
    return round(float(found[1]) * _UNITS[found[2].lower()]) if found else None


def merge_enclosures(found: Iterable[Enclosure]) -> tuple[Enclosure, ...]:
    """Each address once, in the order of their first naming; what that does not say, a later one may."""
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
