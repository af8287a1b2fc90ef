"""Addresses in harmless markup: which stand as they are, and how others are joined to a base, as nh3 would do it.

Tags are remembered whatever document they are in, so an address that needs a base is marked when its tag is written and
joined when the markup is complete. What is not sure to come out as nh3 writes it is None, and nh3's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from headwater.formats.remembered import Remembered

PLACE: Final = "\1"  # where the base belongs; harmless markup has none of its own
# Behind it stands a path from the root (/), a fragment (#), nothing, or one of these: a path from the document, a path
# from a folder above it, a host, and a fragment that is percent-encoded when it is joined.
_BESIDE: Final = "\1@"
_ABOVE: Final = "\1^"
_HOSTED: Final = "\1:"
_ENCODED: Final = "\1%"

# Hosts that every parser of addresses takes: names (not punycode, which can be wrong), four numbers, and no others.
_BYTE: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_NAMED: Final = r"(?![a-z0-9.-]*xn--)[a-z0-9.-]+\.[a-z]{2,24}"
HOST: Final = rf"(?:{_NAMED}|localhost|{_BYTE}(?:\.{_BYTE}){{3}})(?::(?:[0-9]{{1,4}}|[1-5][0-9]{{4}}))?"
_COMPLETE: Final = re.compile(rf"https?://{HOST}(?:[/?#][^\x00-\x20\x7f]*)?|mailto:[a-z0-9@._+-]*", re.IGNORECASE)
# Absolute whatever the base is. `http:x` is not: with a base of that scheme it is relative (RFC 3986 §5.2.2).
_ABSOLUTE: Final = re.compile(
    r"[ \t\n]*(?:https?://|ftp://|(?!https?:|ftp:|file:|wss?:)[a-z][a-z0-9+.-]*:)", re.IGNORECASE
)
# Paths and fragments that joining to a base does not change: nothing to encode, no `.` and no `..` to resolve.
_SAFE: Final = r"(?:[A-Za-z0-9_~/@:!$*(),;=+.-]++|%(?!2[eE]))*"
_NO_DOTS: Final = r"(?!\.\.?(?:[/?#]|$))(?!.*/\.\.?(?:[/?#]|$))"
_TAIL: Final = rf"(?:\?{_SAFE})?(?:#{_SAFE})?"
_LOCAL: Final = re.compile(rf"(?!//){_NO_DOTS}(?:/{_SAFE}(?:\?{_SAFE})?)?(?:#{_SAFE})?")
_RELATIVE: Final = re.compile(rf"{_NO_DOTS}(?=[A-Za-z0-9_-])[A-Za-z0-9_~@!$*(),;=+.-]*+(?:/{_SAFE})?{_TAIL}")
_UPWARDS: Final = re.compile(rf"(?:\.\./)+{_NO_DOTS}(?=[A-Za-z0-9_-])[A-Za-z0-9_~@!$*(),;=+.-]*+(?:/{_SAFE})?{_TAIL}")
_OTHER_HOST: Final = re.compile(rf"//{_NAMED}{_NO_DOTS}/{_SAFE}{_TAIL}")
_FRAGMENT: Final = re.compile(r"#[A-Za-z0-9_~/@:!$*(),;=+.?\x80-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd-]*+")
_BASE: Final = re.compile(
    rf"((https?:)//(?:(?!xn--|[a-z0-9.-]*\.xn--)[a-z0-9.-]+\.[a-z]{{2,24}}|localhost|{_BYTE}(?:\.{_BYTE}){{3}})"
    rf"(?::(?!80(?![0-9])|443(?![0-9]))(?:[1-9][0-9]{{1,3}}|[1-5][0-9]{{4}}))?)"
    rf"((?!.*/\.\.?(?:[/?#]|$))/{_SAFE}(?:\?{_SAFE})?)?(?:#{_SAFE})?"
)


def marked(address: str) -> str | None:
    """An address as it stands in an attribute's value: itself when it is complete, else with the mark of a base."""
    if _COMPLETE.fullmatch(address):
        return address
    if _LOCAL.fullmatch(address):
        return f"{PLACE}{address}"
    if _RELATIVE.fullmatch(address):
        return f"{_BESIDE}{address}"
    if _UPWARDS.fullmatch(address):
        return f"{_ABOVE}{address}"
    if _OTHER_HOST.fullmatch(address):
        return f"{_HOSTED}{address}"
    if _FRAGMENT.fullmatch(address):
        return f"{_ENCODED}#{quote(address[1:], safe='/@:!$*(),;=+?~')}"
    return None


def as_cleaned(address: str, mark: str, clean: Callable[[str], str]) -> str | None:
    """What nh3 makes of an absolute address in these quotation marks, "" when it takes it out; asked for one address
    and not for the whole markup around it. None for addresses that depend on a base."""
    if not _ABSOLUTE.match(address):
        return None
    written = clean(f"<a href={mark}{address}{mark}>")
    return written.removesuffix(' rel="noopener noreferrer"></a>').removeprefix("<a").removeprefix(' href="')[:-1]


def joined(html: str, base: str | None) -> str | None:
    """The markup with the base put where it belongs; without a base on the web, addresses stay as they are."""
    if base is None or not base.startswith(("http://", "https://")):
        if _ENCODED in html:
            return None
        return html.replace(_BESIDE, "").replace(_ABOVE, "").replace(_HOSTED, "").replace(PLACE, "")
    places = _PLACES[base]
    if places is None:
        return None
    site, here, beside, instead = places
    start, *following = html.split(PLACE)
    written = [start]
    for piece in following:
        mark = piece[:1]
        if mark == "^":
            piece = _above(site, beside, piece[1:])
        else:
            piece = f"{instead[mark]}{piece[1:]}" if mark in instead else f"{here}{piece}"
        written.append(piece)
    return "".join(written)


def _above(site: str, folder: str, path: str) -> str:
    """A path that leads up from a folder, from the root; nothing is above that (RFC 3986 §5.2.4)."""
    names = folder[len(site) + 1 : -1].split("/")
    at = 0
    while path.startswith("../", at):
        at += 3
    return "/".join([site, *names[: max(len(names) - at // 3, 0)], path[at:]])


def _places(base: str) -> tuple[str, str, str, dict[str, str]] | None:
    """Site, the base itself and the folder it is in, written as in an attribute, and what stands for which mark; None
    when it is not plain."""
    found = _BASE.fullmatch(base)
    if found is None:
        return None
    site, scheme, path = found[1], found[2], found[3] or "/"
    folder = path.partition("?")[0].rpartition("/")[0]
    here, beside = f"{site}{path}".replace("&", "&amp;"), f"{site}{folder}/"
    return site, here, beside, {"/": f"{site}/", "#": f"{here}#", "@": beside, ":": scheme, "%": here}


_PLACES: Final = Remembered(_places, most=256)
