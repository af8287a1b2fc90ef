"""Addresses: resolved against their base, and only of kinds that are safe to follow."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin

from headwater.formats.remembered import Memo
from headwater.formats.text import decode_references

# What may stand in a link or an enclosure. javascript:, data:, vbscript:, file: and whatever comes next may not.
SAFE_SCHEMES: Final = frozenset({
    "http", "https", "ftp", "ftps", "sftp", "gopher", "gemini", "mailto", "news", "nntp", "tel", "sip", "xmpp", "irc",
    "ircs", "magnet", "ed2k", "bitcoin", "rtsp", "rtmp", "mms", "webcal", "feed", "podcast", "itpc", "pcast", "acct",
    "tag", "urn", "doi", "hdl", "ipfs", "ipns", "dat", "at",
})  # fmt: skip
_MAX_LENGTH: Final = 8_192
_HREF: Final = re.compile(r"""^<a\s[^<>]*?href\s*=\s*["']?([^"'<>\s]+)""", re.IGNORECASE)
_CONTROL_CHARACTERS: Final = dict.fromkeys((*range(32), 127))


def resolve_url(address: str | None, base: str | None) -> str | None:
    """The absolute form of an address, or None when it is empty or unsafe. Without a base, relative ones stay."""
    if not address:
        return None
    address = address.strip()
    if address[:7] not in ("http://", "https:/"):
        return _resolve_uncommon(address, base)
    if not address.isprintable():
        address = address.translate(_CONTROL_CHARACTERS)  # what browsers do with tabs and line ends in the middle
    return address if len(address) <= _MAX_LENGTH else None


def _resolve_uncommon(address: str, base: str | None) -> str | None:
    if address[:1] == "<":
        found = _HREF.search(address[:_MAX_LENGTH])
        address = (
            decode_references(found[1]) if found else ""
        )  # the whole element of a page, where only its address belongs
    if not address.isprintable():
        address = address.translate(_CONTROL_CHARACTERS).strip()
    if not address or len(address) > _MAX_LENGTH:
        return None
    scheme = _find_scheme(address)
    if scheme is None and base:
        try:
            address = urljoin(base, address)
        except ValueError:
            return None
        scheme = _find_scheme(address)
    elif scheme in ("http", "https") and base and "//" not in address[:8]:
        try:
            address = urljoin(base, address)  # `http:relative`, RFC 3986 §5.2.2's loophole
        except ValueError:
            return None
    return address if scheme is None or scheme in SAFE_SCHEMES else None


def _find_scheme(address: str) -> str | None:
    head, colon, _ = address.partition(":")
    return _SCHEMES[head] if colon else None


def _classify_scheme(head: str) -> str | None:
    """The scheme that stands before a colon, "unknown" for what may be one, None for a path."""
    if "/" in head or "?" in head or "#" in head:
        return None
    if not head[:1].isalpha() or not all(c.isalnum() or c in "+-." for c in head):
        return None if head[:1].isdigit() else "unknown"
    return head.lower()


_SCHEMES: Final = Memo(_classify_scheme, most=256, longest=20)


def join_base(base: str | None, further: str | None) -> str | None:
    """The base that `further` (an xml:base) sets inside `base`."""
    if not further:
        return base
    try:
        joined = urljoin(base or "", further.strip())
    except ValueError:
        return base
    return joined if _find_scheme(joined) in SAFE_SCHEMES or _find_scheme(joined) is None else base


def is_web_url(address: str | None) -> bool:
    return bool(address) and address[:8].lower().startswith(("http://", "https://"))  # type: ignore[index]
